package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// buildPadded builds a network with the given number of poolings on a grid of any size. It pads the
// grid to a multiple of 2^poolings, calls build, and crops the result.
//
// Rows of zeros are added after the last latitude, as convolutions pad with zeros too. On a
// periodic grid columns are added on both sides, with the values of the other end, and at least
// 2^poolings of them if the grid has as many. The padded grid is still periodic: behind the added
// columns a network sees the other side of the globe displaced by their number. Otherwise columns
// of zeros are added in the east, and the padded grid is not periodic.
//
// Shape: x [N C D H W] → [N out D H W].
func buildPadded(b *graph.Builder, x graph.Value, poolings int, periodic bool, build func(x graph.Value, p padding) graph.Value) graph.Value {
	side := 1 << poolings
	rows, columns := x.Dim(3), x.Dim(4)
	more := func(n int) int { return (side - n%side) % side }
	south, west, east := more(rows), 0, more(columns)
	p := padding{periodic: periodic, share: float64(rows) / float64(rows+south)}
	if south > 0 {
		x = op.PadZeros(b, x, 3, 0, south)
	}
	switch {
	case east == 0:
	case periodic && east <= columns:
		if east+side <= columns {
			east += side
		}
		west, east = east/2, east-east/2
		around := []graph.Value{x, op.Slice(b, x, 4, 0, east)}
		if west > 0 {
			around = append([]graph.Value{op.Slice(b, x, 4, columns-west, columns)}, around...)
		}
		x = op.Concat(b, 4, around...)
	default:
		x = op.PadZeros(b, x, 4, 0, east)
		p.periodic, p.share = false, p.share*float64(columns)/float64(columns+east)
	}
	y := build(x, p)
	if south > 0 {
		y = op.Slice(b, y, 3, 0, rows)
	}
	if west+east > 0 {
		y = op.Slice(b, y, 4, west, west+columns)
	}
	return y
}

// padding describes a padded grid.
type padding struct {
	periodic bool    // longitudes are periodic
	share    float64 // share of the grid that is not padded with zeros
}
