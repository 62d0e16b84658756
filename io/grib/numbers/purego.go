//go:build !cgo

package numbers

import "github.com/ensemble-weather/ensemble/io/grib"

func unpack(out []float32, p *grib.Simple, r Rect) { plain(out, p, r) }
