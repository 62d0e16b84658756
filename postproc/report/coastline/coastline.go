// Package coastline holds the world's coastlines at 1:110 million for maps.
//
// Source: Natural Earth (public domain), by way of the npm package world-atlas
// 2.0.2, file land-110m.json, converted by generate.go.
package coastline

import (
	_ "embed"
	"encoding/binary"
	"sync"
)

//go:embed coastline.bin
var packed []byte

// Point is a place in degrees, longitude -180 to 180 east, latitude north.
type Point struct{ Lon, Lat float64 }

// Lines are the coastlines. No line crosses the date line; the cuts of the land
// at 180 degrees and along the south pole, which are no coasts, are left out.
// The slices are shared: do not change them.
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

// unit is the step of the stored coordinates in degrees; generate.go has it too.
const unit = 0.01
