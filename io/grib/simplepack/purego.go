//go:build !cgo

package simplepack

import "github.com/ensemble-weather/ensemble/io/grib"

func unpack(out []float32, p *grib.SimplePacking, r Rect) { unpackReference(out, p, r) }
