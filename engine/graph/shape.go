package graph

import (
	"errors"
	"fmt"
	"slices"
)

// ErrShape marks errors about shapes that do not fit an operation.
var ErrShape = errors.New("shapes do not fit")

// Shape is the size of each axis. The empty shape is a scalar. The axes of
// fields are [N C D H W]: batch, channel, level, latitude, longitude.
type Shape []int

// Size is the number of elements; 1 for a scalar.
func (s Shape) Size() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// NDim is the number of axes.
func (s Shape) NDim() int { return len(s) }

// Equal tells whether both shapes have the same axes.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// Clone is a copy.
func (s Shape) Clone() Shape { return slices.Clone(s) }

// String gives the sizes in brackets: [8 42 2 32 64].
func (s Shape) String() string { return fmt.Sprint([]int(s)) }

// Strides are the distances in elements between neighbours along each axis of
// a dense row-major array.
func (s Shape) Strides() []int {
	st := make([]int, len(s))
	step := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = step
		step *= s[i]
	}
	return st
}

// check refuses sizes below one and arrays of more than 2³¹ elements.
func (s Shape) check() error {
	n := 1
	for i, d := range s {
		if d < 1 {
			return fmt.Errorf("axis %d of %v has size %d: %w", i, s, d, ErrShape)
		}
		if n > (1<<31-1)/d {
			return fmt.Errorf("%v has more than 2³¹ elements: %w", s, ErrShape)
		}
		n *= d
	}
	return nil
}

// Broadcast is the common shape of operands whose axes of size 1 are stretched.
// Shapes have equally many axes; a scalar goes with any shape.
//
// Errors: ErrShape.
func Broadcast(shapes ...Shape) (Shape, error) {
	var out Shape
	for _, s := range shapes {
		if len(s) > len(out) {
			out = s
		}
	}
	out = out.Clone()
	for _, s := range shapes {
		if len(s) == 0 {
			continue
		}
		if len(s) != len(out) {
			return nil, fmt.Errorf("%v have different numbers of axes: %w", shapes, ErrShape)
		}
		for i, d := range s {
			switch {
			case d == out[i] || d == 1:
			case out[i] == 1:
				out[i] = d
			default:
				return nil, fmt.Errorf("axis %d of %v: %d against %d: %w", i, shapes, out[i], d, ErrShape)
			}
		}
	}
	return out, nil
}

// DType is the type of the elements of a value.
type DType uint8

// The element types. Float32 is the zero value.
const (
	Float32 DType = iota
	BFloat16
	Float64
	UInt8 // codes
	Float16
)

// String is the name as in checkpoints: f32, bf16, f64, u8, f16.
func (d DType) String() string {
	switch d {
	case Float32:
		return "f32"
	case BFloat16:
		return "bf16"
	case Float64:
		return "f64"
	case UInt8:
		return "u8"
	case Float16:
		return "f16"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Computed is the type in which arithmetic with such values is done: types of 16
// bits are storages of float32, and codes are read by operations on float32.
func (d DType) Computed() DType {
	if d == BFloat16 || d == Float16 || d == UInt8 {
		return Float32
	}
	return d
}

// Bytes is the size of one element.
func (d DType) Bytes() int {
	switch d {
	case BFloat16, Float16:
		return 2
	case Float64:
		return 8
	case UInt8:
		return 1
	}
	return 4
}
