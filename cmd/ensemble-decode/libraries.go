package main

import (
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
)

// libraries returns the versions of the linked libraries, by name.
func libraries() map[string]string {
	return map[string]string{"eccodes": eccodes.Version(), "netcdf": nclib.Version(), "hdf5": nclib.HDF5Version()}
}
