// Package netcdf understands the structure of NetCDF files, of the classic formats
// and of the frame of HDF5. Header and values come from netCDF-C in another process
// (package nclib); what the variables mean, package cf knows.
//
// Source: NetCDF Classic Format Specification (Unidata); HDF5 File Format
// Specification 3.0.
package netcdf

import "github.com/ensemble-weather/ensemble/io/cf"

// Kinds of requests that the child serves for this package.
const (
	HeaderKind = "netcdf-header"
	ValuesKind = "netcdf-values"
)

// HeaderRequest asks for the cf.Header of a file.
type HeaderRequest struct {
	Path string `json:"path"`
}

// ValuesRequest asks for values, unpacked (scale_factor, add_offset), with NaN
// where they are missing; the answer is a []wire.Values.
type ValuesRequest struct {
	Path  string    `json:"path"`
	Slabs []cf.Slab `json:"slabs"`
	// Double asks for float64, for coordinates; else values are float32.
	Double bool `json:"double,omitempty"`
}
