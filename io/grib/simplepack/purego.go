//go:build !cgo

package simplepack

import "github.com/ensemble-weather/ensemble/io/grib"

// unpack decodes a rectangle without cgo.
func unpack(out []float32, p *grib.SimplePacking, r Rect) { unpackReference(out, p, r) }
