package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// buildPadded builds a network with the given number of poolings on a grid of any size. It pads the
// grid to a multiple of 2^poolings, calls build, and crops the result.
//
// Rows of zeros are added after the last latitude, as convolutions pad with zeros too. On a
// periodic grid columns are added on both sides, with the values of the other end; otherwise
// columns of zeros are added in the east. periodic is true if the padded grid is still periodic.
//
// Shape: x [N C D H W] → [N out D H W].
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
		periodic = false // the first and last column are not neighbours any more
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
