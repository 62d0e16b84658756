package graph

import (
	"errors"
	"fmt"
	"slices"
)

// ErrShape is wrapped by errors about shapes that do not fit an operation.
var ErrShape = errors.New("shapes do not fit")

// Shape is the size of each axis. The empty shape is a scalar. Fields have the
// axes [N C D H W]: batch, channel, level, latitude, longitude.
type Shape []int

// Size is the number of elements, 1 for a scalar.
func (s Shape) Size() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// NDim is the number of axes.
func (s Shape) NDim() int { return len(s) }

// Equal reports whether both shapes have the same axes.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// Clone returns a copy.
func (s Shape) Clone() Shape { return slices.Clone(s) }

// String formats the sizes in brackets: [8 42 2 32 64].
func (s Shape) String() string { return fmt.Sprint([]int(s)) }

// Strides are the distances, in elements, between neighbours along each axis of
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

// maxElements bounds the arrays of a graph, so that products of sizes cannot overflow. Graphs of a whole job, which
// ranks share, may be larger than what one device can address.
const maxElements = 1 << 48

// CheckAddressable returns an error for arrays of more than 2³¹−1 elements, which 32-bit offsets of kernels cannot
// address.
//
// Errors: ErrShape.
func (s Shape) CheckAddressable() error {
	if n := s.Size(); n > 1<<31-1 {
		return fmt.Errorf("%v has %d elements, more than 2³¹: %w", s, n, ErrShape)
	}
	return nil
}

// check returns an error for sizes below 1 and for arrays of more than maxElements.
func (s Shape) check() error {
	n := 1
	for i, d := range s {
		if d < 1 {
			return fmt.Errorf("axis %d of %v has size %d, want at least 1: %w", i, s, d, ErrShape)
		}
		if n > maxElements/d {
			return fmt.Errorf("%v has more than 2⁴⁸ elements: %w", s, ErrShape)
		}
		n *= d
	}
	return nil
}

// Broadcast returns the common shape of operands. Axes of size 1 are repeated.
// All shapes must have the same number of axes, except scalars, which fit any
// shape.
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
			return nil, fmt.Errorf("shapes %v differ in the number of axes: %w", shapes, ErrShape)
		}
		for i, d := range s {
			switch {
			case d == out[i] || d == 1:
			case out[i] == 1:
				out[i] = d
			default:
				return nil, fmt.Errorf("shapes %[2]v cannot be broadcast: axis %[1]d has sizes %[3]d and %[4]d: %[5]w", i, shapes, out[i], d, ErrShape)
			}
		}
	}
	return out, nil
}

// DType is the element type of a value.
type DType uint8

// The element types. Float32 is the zero value.
const (
	Float32 DType = iota
	BFloat16
	Float64
	UInt8 // quantised values: (q − zero point)·scale, with scales per channel
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

// Computed is the type of arithmetic on such values. 16-bit types and int8 are
// storage formats of float32 arithmetic.
func (d DType) Computed() DType {
	if d == BFloat16 || d == Float16 || d == UInt8 {
		return Float32
	}
	return d
}

// Bytes is the size of one element in bytes.
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
