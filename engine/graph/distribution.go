package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Distribution is the distribution of a value: how each axis is partitioned
// over the mesh of ranks. The zero value is replicated: every rank holds the
// whole value.
type Distribution struct {
	// Axes has one entry per axis of the value. It is empty for a replicated
	// value.
	Axes []AxisPartition
}

// AxisPartition describes how one axis is partitioned over the ranks along one
// mesh axis.
type AxisPartition struct {
	// MeshAxis names the mesh axis: "data", "lat" or "lon". Empty means that
	// this axis is not partitioned.
	MeshAxis string
	// Starts are the first indices of the shards: ascending from 0, one per
	// rank of the mesh axis. Shards may differ in size.
	Starts []int
}

// Replicated reports whether no axis is partitioned.
func (d Distribution) Replicated() bool {
	return !slices.ContainsFunc(d.Axes, func(c AxisPartition) bool { return c.MeshAxis != "" })
}

// String is "replicated", or each partitioned axis with its mesh axis and the
// number of shards: "0/data:2 4/lon:4".
func (d Distribution) String() string {
	if d.Replicated() {
		return "replicated"
	}
	var parts []string
	for i, c := range d.Axes {
		if c.MeshAxis != "" {
			parts = append(parts, fmt.Sprintf("%d/%s:%d", i, c.MeshAxis, len(c.Starts)))
		}
	}
	return strings.Join(parts, " ")
}

// check returns an error unless the partitions cover the axes of s with
// non-empty shards.
func (d Distribution) check(s Shape) error {
	if len(d.Axes) == 0 {
		return nil
	}
	if len(d.Axes) != len(s) {
		return fmt.Errorf("distribution has %d axes, the value has shape %v: %w", len(d.Axes), s, ErrShape)
	}
	for i, c := range d.Axes {
		if c.MeshAxis == "" {
			continue
		}
		if len(c.Starts) == 0 || c.Starts[0] != 0 || c.Starts[len(c.Starts)-1] >= s[i] ||
			!slices.IsSorted(c.Starts) || len(slices.Compact(slices.Clone(c.Starts))) != len(c.Starts) {
			return fmt.Errorf("axis %d of size %d cannot be partitioned at %v: %w", i, s[i], c.Starts, ErrShape)
		}
	}
	return nil
}

// Window is the geometry of an operation that reads a neighbourhood: the
// indices of one operand that an output index needs, axis by axis. The shard
// pass derives halos and reductions over ranks from it alone. The zero value
// means point by point.
type Window struct {
	// Operand is the operand that is read in windows, usually the first.
	Operand int
	// Axes has one entry per axis of the operand. It is empty for operations
	// that work point by point.
	Axes []WindowAxis
	// FullAxes lists the axes that each output element reads completely:
	// reduced axes, or the channels of a convolution.
	FullAxes []int
	// Additive reports that the result is a sum over the Window.FullAxes axes.
	// Partial results then add up to the result.
	Additive bool
	// CorrelateWith, if not 0, is the operand that is correlated with the windowed
	// one, as dy is in the gradient of a filter. Its element o is multiplied
	// with the window of o. The result is the sum over all o and has no spatial
	// axes.
	CorrelateWith int
	// Padded marks operations that accept any zero padding.
	Padded bool
	// Adjoint marks the gradient of a windowed operation: output i needs every
	// index o of the operand whose window contains i.
	Adjoint bool
	// Samples, if not 0, is the number of samples along axis 0 of all fields.
	// Each sample has equally many consecutive rows: the members of an
	// ensemble, or lead times. A result element needs all rows of its sample,
	// at its own point and along the Window.FullAxes axes.
	Samples int
	// Unshared marks locally connected convolutions, where each point of the
	// result has its own filter. Filters have shape [O C·taps D' H' W']. They
	// are the second operand or, with Window.CorrelateWith, the result.
	Unshared bool
}

// WindowAxis is the window along one axis. Output o reads the inputs
//
//	o·Stride − Pad + t·Dilation,   t = 0 … Size−1
//
// With UpFactor u > 1 it is a linear interpolation between aligned cell centres:
// output o lies at (2o+1−u)/2u in input indices and reads the inputs on both sides,
// or the one on which it lies. Size is then 2, Stride and Dilation are 1, Pad is 0.
type WindowAxis struct {
	Size, Stride, Dilation int  // taps, step between outputs, step between taps
	Pad                    int  // indices before the first one
	UpFactor               int  // outputs per input of an upsampling; 0 means 1
	Periodic               bool // indices out of range wrap around; otherwise they are not read
}

// Taps returns the first input that output o reads and the number of inputs, at a
// distance of Dilation. They may lie beyond the ends of the axis.
func (a WindowAxis) Taps(o int) (first, taps int) {
	if a.UpFactor < 2 {
		return o*a.Stride - a.Pad, a.Size
	}
	at, cell := 2*o+1-a.UpFactor, 2*a.UpFactor
	offset := ((at % cell) + cell) % cell
	if first, taps = (at-offset)/cell, a.Size; offset == 0 {
		taps = 1
	}
	return first, taps
}

// Reads reports whether output o reads input i of an axis of n inputs.
func (a WindowAxis) Reads(o, i, n int) bool {
	first, taps := a.Taps(o)
	for t := range taps {
		j := first + t*a.Dilation
		if a.Periodic {
			j = ((j % n) + n) % n
		}
		if i == j {
			return true
		}
	}
	return false
}
