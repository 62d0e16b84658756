// Package netcdf checks the structure of NetCDF files before a library opens them:
// headers of the classic formats (CDF-1, CDF-2, CDF-5), and the superblock of HDF5.
// Header and values come from netCDF-C in a child process (package nclib). Package
// cf interprets the variables.
//
// Source: NetCDF User's Guide (NUG), The NetCDF Classic Format Specification; HDF5
// File Format Specification Version 3.0.
package netcdf

import "github.com/ensemble-weather/ensemble/io/cf"

// Names of the requests of this package to the decoding child.
const (
	HeaderKind = "netcdf-header"
	ValuesKind = "netcdf-values"
)

// HeaderRequest holds the arguments of a header request. The result is a cf.Header.
type HeaderRequest struct {
	Path string `json:"path"`
}

// ValuesRequest holds the arguments of a values request. The result is a
// []wire.Values in the order of Slabs. Values are unpacked (scale_factor,
// add_offset), with NaN for missing ones.
type ValuesRequest struct {
	Path  string    `json:"path"`
	Slabs []cf.Slab `json:"slabs"`
	// Double requests float64, for coordinates; the default is float32.
	Double bool `json:"double,omitempty"`
}
