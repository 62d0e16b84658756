package ckpt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// DType is the element type of a tensor in a file, named as in safetensors.
type DType string

// The element types. F16 and BF16 are converted to float32 when they are read, without loss, and
// are never written.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	U8   DType = "U8"
)

// size is the length of an element in bytes; 0 for an unknown type.
func (d DType) size() int64 {
	switch d {
	case F64, I64:
		return 8
	case F32, I32:
		return 4
	case F16, BF16:
		return 2
	case U8:
		return 1
	}
	return 0
}

// Tensor is a named array in row-major order (C order).
type Tensor struct {
	Name  string
	Shape []int
	// Data is a []float32, []float64, []int64, []int32 or []uint8. Its length is the product of
	// Shape.
	Data any
}

// Float32 returns the data of a floating-point tensor as float32. The result is a copy unless the
// data have this type already.
//
// F64 is rounded to the nearest float32; values beyond its range become infinite.
//
// Errors: the tensor holds integers.
func (t Tensor) Float32() ([]float32, error) {
	switch v := t.Data.(type) {
	case []float32:
		return v, nil
	case []float64:
		out := make([]float32, len(v))
		for i, x := range v {
			out[i] = float32(x)
		}
		return out, nil
	}
	return nil, fmt.Errorf("tensor %s: got %T, want floating-point numbers", t.Name, t.Data)
}

// countElements is the number of elements of a shape. An empty shape is a scalar with one element.
// The limit leaves room for 16 bytes for each element.
//
// Errors: a negative dimension, or a product that overflows.
func countElements(shape []int) (int64, error) {
	n := int64(1)
	for _, s := range shape {
		if s < 0 {
			return 0, fmt.Errorf("shape %v: negative dimension", shape)
		}
		if s > 0 && n > math.MaxInt64/16/int64(s) {
			return 0, fmt.Errorf("shape %v: too many elements", shape)
		}
		n *= int64(s)
	}
	return n, nil
}

// dtype validates a tensor that is to be written, and returns its element type.
//
// Errors: data of a type that is not written; a number of values that does not match the shape.
func (t Tensor) dtype() (DType, error) {
	var d DType
	var have int
	switch v := t.Data.(type) {
	case []float64:
		d, have = F64, len(v)
	case []float32:
		d, have = F32, len(v)
	case []int64:
		d, have = I64, len(v)
	case []int32:
		d, have = I32, len(v)
	case []uint8:
		d, have = U8, len(v)
	default:
		return "", fmt.Errorf("tensor %s: cannot write a %T", t.Name, t.Data)
	}
	n, err := countElements(t.Shape)
	if err != nil {
		return "", fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if n != int64(have) {
		return "", fmt.Errorf("tensor %s: %d values, want %d for shape %v", t.Name, have, n, t.Shape)
	}
	return d, nil
}

// encode returns the data as little-endian bytes.
//
// Memory: a copy of the data.
func encode(data any) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, data)
	if err != nil {
		panic(err) // check accepts slices of numbers only
	}
	return out
}

// decode is the inverse of encode. F16 and BF16 become float32.
//
// BF16 is the upper half of a float32, so a shift converts it. The result does not refer to raw.
func decode(d DType, raw []byte) any {
	le := binary.LittleEndian
	switch d {
	case F64:
		return decodeElements(d, raw, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) })
	case F32:
		return decodeElements(d, raw, func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) })
	case BF16:
		return decodeElements(d, raw, func(b []byte) float32 { return math.Float32frombits(uint32(le.Uint16(b)) << 16) })
	case F16:
		return decodeElements(d, raw, func(b []byte) float32 { return halfToFloat32(le.Uint16(b)) })
	case I64:
		return decodeElements(d, raw, func(b []byte) int64 { return int64(le.Uint64(b)) })
	case I32:
		return decodeElements(d, raw, func(b []byte) int32 { return int32(le.Uint32(b)) })
	default:
		return append([]uint8{}, raw...)
	}
}

// decodeElements converts the bytes of each element to a number.
func decodeElements[T any](d DType, raw []byte, value func([]byte) T) []T {
	size := int(d.size())
	out := make([]T, len(raw)/size)
	for i := range out {
		out[i] = value(raw[i*size:])
	}
	return out
}

// halfToFloat32 converts an IEEE 754 binary16 number (1 bit sign, 5 bits exponent, 10 bits
// fraction) to float32. All binary16 numbers are float32 numbers, so the conversion is exact; 112
// is the difference of the exponent biases 127 and 15. The sign of 0 and the bits of NaN stay.
//
// Source: IEEE 754-2008, section 3.4 and table 3.5.
func halfToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	v := float32(frac) * (1.0 / (1 << 24)) // subnormal: frac·2⁻²⁴
	if sign != 0 {
		return -v
	}
	return v
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C (Castagnoli) of a tensor's bytes in the file.
//
// Source: RFC 3720, section 12.1 (CRC32C). Go computes it with instructions of the processor where
// it has them.
func checksum(raw []byte) uint32 { return crc32.Checksum(raw, castagnoli) }
