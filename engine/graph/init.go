package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/rng"
)

// Init is the initial value of a parameter or state. Random values depend only
// on the seed of the graph and the name of the parameter. They do not change
// when other parameters are added or removed. The zero Init is 0 everywhere.
type Init struct {
	kind     initKind
	a        float64   // value, bound or standard deviation
	values   []float32 // of Values
	selected *selectInit
	segments []InitSegment
}

// initKind is the rule of an initialisation. The zero value fills with a
// constant.
type initKind uint8

const (
	initFill initKind = iota
	initUniform
	initNormal
	initValues
	initSelect
	initSegments
)

// Zeros initialises with 0, as the zero Init does.
func Zeros() Init { return Init{} }

// Ones initialises with 1.
func Ones() Init { return Fill(1) }

// Fill initialises all elements with v.
func Fill(v float64) Init { return Init{kind: initFill, a: v} }

// HeNormal initialises with normal values of mean 0 and variance 2/fanIn, for
// layers followed by ReLU. fanIn is the number of inputs of one result:
// channels × filter taps.
//
// Source: He et al. 2015, doi:10.1109/ICCV.2015.123, equation 10.
func HeNormal(fanIn int) Init { return Normal(math.Sqrt(2 / float64(fanIn))) }

// KaimingUniform initialises with uniform values in ±1/√fanIn, as PyTorch does
// for weights and biases of convolutions.
//
// Source: PyTorch, torch/nn/modules/conv.py, reset_parameters (a = √5).
func KaimingUniform(fanIn int) Init { return Uniform(1 / math.Sqrt(float64(fanIn))) }

// Uniform initialises with uniform values in ±bound.
func Uniform(bound float64) Init { return Init{kind: initUniform, a: bound} }

// Normal initialises with normal values of mean 0 and standard deviation std.
func Normal(std float64) Init { return Init{kind: initNormal, a: std} }

// Values initialises with the given values. They are not copied.
func Values(v []float32) Init { return Init{kind: initValues, values: v} }

// check returns an error if the given values do not match the shape s.
func (i Init) check(s Shape) error {
	if i.kind == initValues && len(i.values) != s.Size() {
		return fmt.Errorf("%d initial values for shape %v: %w", len(i.values), s, ErrShape)
	}
	for _, p := range i.segments {
		if p.At < 0 || p.Size < 0 || p.At+p.Size > s.Size() {
			return fmt.Errorf("segment of %d values at offset %d exceeds shape %v: %w", p.Size, p.At, s, ErrShape)
		}
	}
	if math.IsNaN(i.a) || math.IsInf(i.a, 0) {
		return fmt.Errorf("initial value or width is %v (is fan-in below 1?): %w", i.a, ErrShape)
	}
	return nil
}

// Fill writes the initial values of the parameter called name into dst.
func (i Init) Fill(dst []float32, seed uint64, name string) {
	if p := i.selected; i.kind == initSelect {
		whole := make([]float32, p.of.Size())
		p.whole.Fill(whole, seed, name)
		copy(dst, SelectIndices(whole, p.of, p.keep))
		return
	}
	if i.kind == initSegments {
		clear(dst)
		for _, p := range i.segments {
			to := dst[p.At:][:p.Size]
			p.Init.Fill(to, seed, p.Name)
			if p.Factor != 1 {
				for j := range to {
					to[j] = float32(float64(to[j]) * p.Factor)
				}
			}
		}
		return
	}
	key := rng.Key(seed, rng.Hash("init"), rng.Hash(name))
	for j := range dst {
		switch i.kind {
		case initFill:
			dst[j] = float32(i.a)
		case initUniform:
			dst[j] = float32(i.a * (2*rng.Uniform(key, uint64(j)) - 1))
		case initNormal:
			dst[j] = float32(i.a * rng.Normal(key, uint64(j)))
		case initValues:
			dst[j] = i.values[j]
		}
	}
}

// String describes the initialisation for prints of networks.
func (i Init) String() string {
	switch i.kind {
	case initUniform:
		return fmt.Sprintf("uniform ±%.4g", i.a)
	case initNormal:
		return fmt.Sprintf("normal, std %.4g", i.a)
	case initValues:
		return "given values"
	case initSelect:
		return "selection of " + i.selected.whole.String()
	case initSegments:
		return fmt.Sprintf("%d segments", len(i.segments))
	}
	return fmt.Sprintf("fill %g", i.a)
}

// Std is the standard deviation of a random initialisation, 0 of any other.
func (i Init) Std() float64 {
	switch i.kind {
	case initUniform:
		return i.a / math.Sqrt(3)
	case initNormal:
		return i.a
	}
	return 0
}

// InitSegment is a segment of a parameter that is initialised as a parameter
// called Name would be, times Factor.
type InitSegment struct {
	At, Size int    // offset and number of values
	Name     string // key of the random numbers
	Init     Init
	Factor   float64 // scale of the values
}

// Segments initialises with 0 outside of the segments. Where segments overlap,
// the last one holds.
func Segments(p []InitSegment) Init { return Init{kind: initSegments, segments: p} }

// Select initialises a parameter with selected indices of a larger one of shape
// of. keep lists the kept indices of each axis; nil keeps all of an axis.
// Values equal those of the larger parameter at these indices, so that pruned
// networks start from the same random numbers.
func (i Init) Select(of Shape, keep [][]int) Init {
	return Init{kind: initSelect, selected: &selectInit{i, of, keep}}
}

// selectInit is a selection from the initial values of a larger parameter.
type selectInit struct {
	whole Init
	of    Shape
	keep  [][]int
}

// SelectShape is the shape of the result of SelectIndices.
func SelectShape(of []int, keep [][]int) []int {
	out := slices.Clone(of)
	for axis, some := range keep {
		if some != nil {
			out[axis] = len(some)
		}
	}
	return out
}

// SelectIndices returns the elements of v, of shape of, at selected indices.
// keep lists the kept indices of each axis; nil keeps all of an axis, and a nil
// keep returns v itself.
func SelectIndices(v []float32, of []int, keep [][]int) []float32 {
	if keep == nil {
		return v
	}
	out := make([]float32, 0, Shape(SelectShape(of, keep)).Size())
	strides := Shape(of).Strides()
	var walk func(axis, at int)
	walk = func(axis, at int) {
		if axis == len(of) {
			out = append(out, v[at])
			return
		}
		if keep[axis] == nil {
			for i := range of[axis] {
				walk(axis+1, at+i*strides[axis])
			}
			return
		}
		for _, i := range keep[axis] {
			walk(axis+1, at+i*strides[axis])
		}
	}
	walk(0, 0)
	return out
}
