// Package nclib is the cgo side of NetCDF: go-netcdf, and what it lacks, from
// netCDF-C. Linked by ensemble-decode only. One thread calls the library: a
// child answers one request at a time.
package nclib

// #cgo pkg-config: netcdf
// #include <stdlib.h>
// #include <netcdf.h>
import "C"

import (
	"strings"

	"github.com/fhs/go-netcdf/netcdf"
)

// Version is the version of the linked library.
func Version() string {
	v, _, _ := strings.Cut(netcdf.Version(), " ")
	return v
}
