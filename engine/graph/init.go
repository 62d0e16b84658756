package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/rng"
)

// Init is how a parameter or state starts. Random starts depend on nothing but
// the seed of the graph and the name of the parameter, so they do not change
// when other parameters come or go.
type Init struct {
	kind     initKind
	a        float64
	values   []float32
	selected *selectInit
	segments []InitSegment
}

type initKind uint8

const (
	initFill initKind = iota
	initUniform
	initNormal
	initValues
	initSelect
	initSegments
)

// Zeros starts with 0, as does the zero Init.
func Zeros() Init { return Init{} }

// Ones starts with 1.
func Ones() Init { return Fill(1) }

// Fill starts with v everywhere.
func Fill(v float64) Init { return Init{kind: initFill, a: v} }

// HeNormal starts with normal values of variance 2/fanIn, for layers followed
// by ReLU; fanIn is the number of inputs one result sums (channels × filter).
//
// Source: He et al. 2015, doi:10.1109/ICCV.2015.123, equation 10.
func HeNormal(fanIn int) Init { return Normal(math.Sqrt(2 / float64(fanIn))) }

// KaimingUniform starts with uniform values in ±1/√fanIn: the start that
// PyTorch gives to weights and biases of its convolutions.
//
// Source: PyTorch, torch/nn/modules/conv.py, reset_parameters (a = √5).
func KaimingUniform(fanIn int) Init { return Uniform(1 / math.Sqrt(float64(fanIn))) }

// Uniform starts with uniform values in ±bound.
func Uniform(bound float64) Init { return Init{kind: initUniform, a: bound} }

// Normal starts with normal values of mean 0 and the given standard deviation.
func Normal(std float64) Init { return Init{kind: initNormal, a: std} }

// Values starts with the given values, which are not copied.
func Values(v []float32) Init { return Init{kind: initValues, values: v} }

// check refuses given values whose number does not fit s.
func (i Init) check(s Shape) error {
	if i.kind == initValues && len(i.values) != s.Size() {
		return fmt.Errorf("%d start values for %v: %w", len(i.values), s, ErrShape)
	}
	for _, p := range i.segments {
		if p.At < 0 || p.Size < 0 || p.At+p.Size > s.Size() {
			return fmt.Errorf("a piece of %d values from %d on in %v: %w", p.Size, p.At, s, ErrShape)
		}
	}
	if math.IsNaN(i.a) || math.IsInf(i.a, 0) {
		return fmt.Errorf("start value or width is %v (fan-in below 1?): %w", i.a, ErrShape)
	}
	return nil
}

// Fill writes the start of the parameter called name into dst.
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

// String describes the start.
func (i Init) String() string {
	switch i.kind {
	case initUniform:
		return fmt.Sprintf("uniform ±%.4g", i.a)
	case initNormal:
		return fmt.Sprintf("normal, std %.4g", i.a)
	case initValues:
		return "given values"
	case initSelect:
		return "part of " + i.selected.whole.String()
	case initSegments:
		return fmt.Sprintf("%d pieces", len(i.segments))
	}
	return fmt.Sprintf("fill %g", i.a)
}

// Std is the standard deviation of a random start, 0 of any other.
func (i Init) Std() float64 {
	switch i.kind {
	case initUniform:
		return i.a / math.Sqrt(3)
	case initNormal:
		return i.a
	}
	return 0
}

// InitSegment is a stretch of a parameter that starts as another one, of that name, would, times a factor.
type InitSegment struct {
	At, Size int
	Name     string
	Init     Init
	Factor   float64
}

// Segments starts with 0 but for some stretches; where they overlap, with the last one.
func Segments(p []InitSegment) Init { return Init{kind: initSegments, segments: p} }

// Select is the start of a part of a parameter of that shape: of each axis the indices that keep
// lists, nil for all. It has the values that the part of the whole would have.
func (i Init) Select(of Shape, keep [][]int) Init {
	return Init{kind: initSelect, selected: &selectInit{i, of, keep}}
}

type selectInit struct {
	whole Init
	of    Shape
	keep  [][]int
}

// SelectShape is the shape of what Part gives.
func SelectShape(of []int, keep [][]int) []int {
	out := slices.Clone(of)
	for axis, some := range keep {
		if some != nil {
			out[axis] = len(some)
		}
	}
	return out
}

// SelectIndices is what is left of values of a shape: of each axis the indices that keep lists, nil for all.
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
