// Package coastline provides the world's coastlines at 1:110 million for maps.
//
// The lines are embedded in a compact form: delta-encoded varints in steps of 0.01°.
//
// Source: Natural Earth (public domain), from the npm package world-atlas
// 2.0.2, file land-110m.json, converted by generate.go.
package coastline

import (
	_ "embed"
	"encoding/binary"
	"sync"
)

// packed is the list of lines: the number of points as uvarint, then for each point the
// differences of longitude and latitude from the previous one as varints.
//
//go:embed coastline.bin
var packed []byte

// Point is a location on the globe.
//
// Unit: degrees; longitude -180 to 180 east, latitude north.
type Point struct{ Lon, Lat float64 }

// Lines returns the coastlines. No line crosses the date line. Edges of land polygons at 180°
// and along the south pole, which are not coasts, are left out. The slices are shared and
// must not be changed.
//
// Shape: [line][point].
var Lines = sync.OnceValue(func() [][]Point {
	var lines [][]Point
	for at := 0; at < len(packed); {
		n, k := binary.Uvarint(packed[at:])
		at += k
		line := make([]Point, n)
		var lon, lat int64
		for i := range line {
			for _, c := range []*int64{&lon, &lat} {
				d, k := binary.Varint(packed[at:])
				at += k
				*c += d
			}
			line[i] = Point{float64(lon) * unit, float64(lat) * unit}
		}
		lines = append(lines, line)
	}
	return lines
})

// unit is the step of the stored coordinates. generate.go uses the same value.
//
// Unit: degrees.
const unit = 0.01
