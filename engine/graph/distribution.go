package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Distribution is the distribution of a value: how each axis is cut over the mesh of
// ranks. The zero value means that every rank holds the whole value.
type Distribution struct {
	// Axes has one entry per axis of the value, or none for a replicated one.
	Axes []AxisPartition
}

// AxisPartition says how one axis is divided among the ranks along one axis of the mesh.
type AxisPartition struct {
	// MeshAxis names the mesh axis ("data", "lat", "lon"); empty means not cut.
	MeshAxis string
	// Starts are the first indices of the shards, ascending from 0, one per
	// rank of the mesh axis; shards may differ in size.
	Starts []int
}

// Replicated tells whether no axis is cut.
func (d Distribution) Replicated() bool {
	return !slices.ContainsFunc(d.Axes, func(c AxisPartition) bool { return c.MeshAxis != "" })
}

// String is "replicated" or the cut axes, as in "0/data:2 4/lon:4".
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

// check refuses cuts that do not partition the axes of s.
func (d Distribution) check(s Shape) error {
	if len(d.Axes) == 0 {
		return nil
	}
	if len(d.Axes) != len(s) {
		return fmt.Errorf("distribution has %d axes, the value %v: %w", len(d.Axes), s, ErrShape)
	}
	for i, c := range d.Axes {
		if c.MeshAxis == "" {
			continue
		}
		if len(c.Starts) == 0 || c.Starts[0] != 0 || c.Starts[len(c.Starts)-1] >= s[i] ||
			!slices.IsSorted(c.Starts) || len(slices.Compact(slices.Clone(c.Starts))) != len(c.Starts) {
			return fmt.Errorf("axis %d of size %d is cut at %v: %w", i, s[i], c.Starts, ErrShape)
		}
	}
	return nil
}

// Window is the geometry of an operation that reads a neighbourhood: which
// indices of one operand an output index needs, axis by axis. The shard pass
// derives halos from it and from nothing else. The zero value means point by
// point.
type Window struct {
	// Operand is the one that is read in windows, mostly the first.
	Operand int
	// Axes has one entry per axis of the operand, or none if the operation
	// works point by point.
	Axes []WindowAxis
	// FullAxes lists axes of the operand that one output element needs completely
	// (reductions, channels of a convolution).
	FullAxes []int
	// Additive tells that the result adds up over the Whole axes: parts of it add up too.
	Additive bool
	// CorrelateWith, if not 0, is the operand that takes the place of the result: its element
	// o meets the window of o, and the result, no field itself, is a sum over all of them.
	CorrelateWith int
	// Padded marks operations that take any padding with zeros.
	Padded bool
	// Adjoint marks the gradient of a windowed operation: output i needs every
	// index o of the operand whose window holds i.
	Adjoint bool
	// Samples, if not 0, is how many samples stand one behind the other along axis 0 of all
	// fields, each with equally many rows: the members of an ensemble, or lead times. An
	// element of the result needs all rows of its sample, at its place and along Whole.
	Samples int
	// Unshared marks convolutions whose filters are not shared: every point of the result
	// has its own, stored as [O C·taps D' H' W'] in the second operand, or with Against as
	// the result.
	Unshared bool
}

// WindowAxis is the window along one axis: output o reads the inputs
// ⌊o·Stride/Up⌋ − Pad + t·Dilation for t in 0..Size-1.
type WindowAxis struct {
	Size, Stride, Dilation int
	Pad                    int  // indices before the first one
	UpFactor               int  // outputs per input of an upsampling; 0 or 1 otherwise
	Periodic               bool // indices outside are taken from the other end
}

// Reads tells whether output o reads input i of an axis of n inputs.
func (a WindowAxis) Reads(o, i, n int) bool {
	first := o*a.Stride/max(a.UpFactor, 1) - a.Pad
	for t := range a.Size {
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
