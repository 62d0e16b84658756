package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// buildPadded builds a network of so many poolings on fields whose sides need not divide: rows of
// zeros stand in behind the last row, as the padding of convolutions has them, and columns
// around the globe are continued on both sides by those that follow there. build is told whether
// the ends of the rows that it gets are neighbours. The result has the points of x.
func buildPadded(b *graph.Builder, x graph.Value, poolings int, periodic bool, build func(x graph.Value, periodic bool) graph.Value) graph.Value {
	side := 1 << poolings
	rows, columns := x.Dim(3), x.Dim(4)
	more := func(n int) int { return (side - n%side) % side }
	south, west, east := more(rows), 0, more(columns)
	if south > 0 {
		x = op.PadZeros(b, x, 3, 0, south)
	}
	switch {
	case east == 0:
	case periodic && east <= columns:
		west, east = east/2, east-east/2
		around := []graph.Value{x, op.Slice(b, x, 4, 0, east)}
		if west > 0 {
			around = append([]graph.Value{op.Slice(b, x, 4, columns-west, columns)}, around...)
		}
		x = op.Concat(b, 4, around...)
		periodic = false // the ends are no neighbours any more
	default:
		x = op.PadZeros(b, x, 4, 0, east)
		periodic = false
	}
	y := build(x, periodic)
	if south > 0 {
		y = op.Slice(b, y, 3, 0, rows)
	}
	if west+east > 0 {
		y = op.Slice(b, y, 4, west, west+columns)
	}
	return y
}
