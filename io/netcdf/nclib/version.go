// Package nclib reads and writes NetCDF files with netCDF-C, through go-netcdf and,
// for missing functions, through cgo. Only ensemble-decode links it. One goroutine
// calls it at a time, because netCDF-C is not thread-safe; a child answers one
// request at a time.
package nclib

// #cgo pkg-config: netcdf
// #include <stdlib.h>
// #include <netcdf.h>
import "C"

import (
	"strings"

	"github.com/fhs/go-netcdf/netcdf"
)

// Version returns the version of the linked library. It is the first word of
// nc_inq_libvers ("4.9.2"), without the date of the build.
func Version() string {
	v, _, _ := strings.Cut(netcdf.Version(), " ")
	return v
}
