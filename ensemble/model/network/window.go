package network

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// WithWindow returns the spec of the training step that sees windows of the given size. Its parameters are those of the
// whole grid. Maps contribute their first rows and columns, as unet3d.MapGrid says.
func (s Spec) WithWindow(size config.FieldSize) Spec {
	s.window = size
	return s
}

// hasWindow reports whether the network sees a window of the grid.
func (s Spec) hasWindow() bool { return s.window != config.FieldSize{} }

// windowOf returns the grid that the network sees, and that of its maps if it is another. A window that is narrower than a
// global grid is not periodic.
func (s Spec) windowOf(g *ensemble.Grid) (*ensemble.Grid, unet3d.MapGrid) {
	if !s.hasWindow() {
		return g, unet3d.MapGrid{}
	}
	return g.Subgrid(ensemble.Window{Rows: [2]int{0, s.window.Rows}, Cols: [2]int{0, s.window.Columns}}), unet3d.MapGrid{Rows: g.NY, Columns: g.NX}
}

// Window is the place of a window of Size points in fields of NX columns. It may cross the last column of a periodic grid,
// and goes on in the first one.
type Window struct {
	Size        config.FieldSize
	Row, Column int // first point
	NY, NX      int // of the whole fields
}

// Load copies the window of a batch of whole fields to the inputs of the plan. Inputs without grid points, such as the
// season, are copied whole.
func (w Window) Load(n *Network, b *task.Batch) {
	for name, x := range Inputs(b) {
		in := n.Plan.Input(name)
		switch {
		case len(in) == 0 || len(x) == 0:
		case len(in) == len(x):
			copy(in, x)
		default:
			w.Copy(in, x)
		}
	}
}

// Copy copies the window of fields.
//
// Shape: from [field][NY][NX]; to [field][Size.Rows][Size.Columns].
func (w Window) Copy(to, from []float32) {
	h, k := w.Size.Rows, w.Size.Columns
	first := min(k, w.NX-w.Column) // columns before the seam
	for f := range len(to) / (h * k) {
		for j := range h {
			row := from[(f*w.NY+w.Row+j)*w.NX:][:w.NX]
			out := to[(f*h+j)*k:][:k]
			copy(out[copy(out, row[w.Column:w.Column+first]):], row)
		}
	}
}

// Rotate moves fields by rows and columns around their ends, so that the window begins at their first point; back moves
// them to their place. scratch has the room of a field.
//
// Shape: x [field][NY][NX], in place.
func (w Window) Rotate(x, scratch []float32, back bool) {
	row, column := w.Row, w.Column
	if back {
		row, column = (w.NY-row)%w.NY, (w.NX-column)%w.NX
	}
	if row == 0 && column == 0 {
		return
	}
	for f := range len(x) / (w.NY * w.NX) {
		field := x[f*w.NY*w.NX:][:w.NY*w.NX]
		copy(scratch, field)
		for j := range w.NY {
			from := scratch[(j+row)%w.NY*w.NX:][:w.NX]
			to := field[j*w.NX:][:w.NX]
			copy(to[copy(to, from[column:]):], from[:column])
		}
	}
}
