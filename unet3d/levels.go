package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Levels selects how a layer treats pressure levels. Unlike the points of a row of the grid, levels
// are not interchangeable.
type Levels string

// The variants of the paper, and that of an ordinary convolution.
const (
	SharedLevels    Levels = ""          // one filter for all levels
	FullLevels      Levels = "full"      // a filter for each output level
	AffineLevels    Levels = "affine"    // one filter, and a trained factor for each channel and level, initially 1
	SeparableLevels Levels = "separable" // a 1×k×k filter and ReLU, then a filter along levels for each output level
)

// LevelConv is a convolution with bias on the same grid. Levels beyond the lowest and highest are
// padded symmetrically (the levels at the end in reverse order), with SharedLevels by zeros.
type LevelConv struct {
	Levels   Levels
	Size     [3]int // of filters in depth, height and width, odd
	Hidden   int    // channels between the two layers of SeparableLevels; 0 means those of the output
	Periodic bool   // longitudes are periodic
}

// Build extends the graph by the layer.
//
// Shape: x [N C D H W] → [N out D H W].
// Errors: in the builder: ErrShape for even sizes, or more padding than levels.
// Source: Grönquist et al. 2019, arXiv:1911.00630.
func (l LevelConv) Build(b *graph.Builder, name string, x graph.Value, out int) graph.Value {
	n, kd := x.Dim(2), l.Size[0]
	if l.Size[0]%2 == 0 || l.Size[1]%2 == 0 || l.Size[2]%2 == 0 || kd/2 > n {
		return b.Fail("levels", fmt.Errorf("filter size %v on input %v, want odd sizes and padding within the levels: %w", l.Size, x.Shape(), graph.ErrShape))
	}
	wide := [3]int{1, l.Size[1], l.Size[2]}
	switch l.Levels {
	case SharedLevels:
		return l.conv(b, name, x, out, l.Size, kd/2)
	case AffineLevels:
		w := b.Param(name+".weight", l.filter(x, out, l.Size), graph.HeNormal(l.filter(x, out, l.Size)[1:].Size()))
		y := op.Conv3D(b, padSymmetric(b, x, kd/2), w, l.geometry(l.Size, 0))
		y = op.Mul(b, y, b.ParamOf(graph.Scale, name+".factor", graph.Shape{1, out, n, 1, 1}, graph.Ones()))
		return op.Bias(b, y, b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.Zeros()))
	case SeparableLevels:
		hidden := l.Hidden
		if hidden == 0 {
			hidden = out
		}
		h := op.ReLU(b, l.conv(b, name+".wide", x, hidden, wide, 0))
		return l.perLevel(b, name+".high", h, out, [3]int{kd, 1, 1})
	case FullLevels:
		return l.perLevel(b, name, x, out, l.Size)
	}
	return b.Fail("levels", fmt.Errorf("unknown variant %q", l.Levels))
}

// perLevel applies a filter of its own to each output level.
func (l LevelConv) perLevel(b *graph.Builder, name string, x graph.Value, out int, size [3]int) graph.Value {
	n := x.Dim(2)
	x = padSymmetric(b, x, size[0]/2)
	var levels []graph.Value
	for d := range n {
		levels = append(levels, l.conv(b, fmt.Sprintf("%s.%d", name, d), op.Slice(b, x, 2, d, d+size[0]), out, size, 0))
	}
	return op.Concat(b, 2, levels...)
}

// conv is a convolution with bias that pads levels with pad zeros at both ends.
func (l LevelConv) conv(b *graph.Builder, name string, x graph.Value, out int, size [3]int, pad int) graph.Value {
	shape := l.filter(x, out, size)
	w := b.Param(name+".weight", shape, graph.HeNormal(shape[1:].Size()))
	return op.Bias(b, op.Conv3D(b, x, w, l.geometry(size, pad)), b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.Zeros()))
}

// filter is the shape of a filter.
func (l LevelConv) filter(x graph.Value, out int, size [3]int) graph.Shape {
	return graph.Shape{out, x.Dim(1), size[0], size[1], size[2]}
}

// geometry keeps the size in latitude and longitude, and pads levels with the given number of
// zeros.
func (l LevelConv) geometry(size [3]int, levels int) op.Conv {
	a := op.Conv{Pad: op.Same(size[:]...)}
	a.Pad[0].Size, a.Pad[2].Periodic = levels, l.Periodic
	return a
}

// padSymmetric pads n levels at both ends with the levels there, in reverse order.
func padSymmetric(b *graph.Builder, x graph.Value, n int) graph.Value {
	parts := []graph.Value{x}
	last := x.Dim(2) - 1
	for i := range n {
		parts = append([]graph.Value{op.Slice(b, x, 2, i, i+1)}, parts...)
		parts = append(parts, op.Slice(b, x, 2, last-i, last-i+1))
	}
	if len(parts) == 1 {
		return x
	}
	return op.Concat(b, 2, parts...)
}
