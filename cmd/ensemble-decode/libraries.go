package main

import (
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
)

// libraries names what is linked, with versions.
func libraries() map[string]string {
	return map[string]string{"eccodes": eccodes.Version(), "netcdf": nclib.Version(), "hdf5": nclib.HDF5Version()}
}
