package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// MapGrid is the grid of trained maps, in rows and columns, where a network sees a window of it only. Then it
// reads the window that begins at the first point of the maps; who trains other windows moves the maps before a step
// and back after it. The zero value means maps on the grid of the fields.
type MapGrid struct{ Rows, Columns int }

// fieldMap returns a trained map with one value for each grid point of fields, or the part of it that the network sees.
//
// Shape: of the result [1 C D H W]; the parameter has the rows and columns of grid.
func (g MapGrid) fieldMap(b *graph.Builder, name string, shape graph.Shape, start graph.Init) graph.Value {
	whole := append(graph.Shape(nil), shape...)
	if g != (MapGrid{}) {
		whole[3], whole[4] = g.Rows, g.Columns
	}
	x := b.ParamOf(graph.Local, name, whole, start)
	for axis := 3; axis <= 4; axis++ {
		if whole[axis] != shape[axis] {
			x = op.Slice(b, x, axis, 0, shape[axis])
		}
	}
	return x
}
