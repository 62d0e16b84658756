package ckpt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// DType is the element type of a tensor in a file, in safetensors' words.
type DType string

// The element types. F16 and BF16 are read as float32, which loses nothing, and
// never written.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	U8   DType = "U8"
)

// size is the length of one element in bytes, 0 for a type we do not know.
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

// Tensor is a named array in row-major order.
type Tensor struct {
	Name  string
	Shape []int
	// Data is a []float32, []float64, []int64, []int32 or []uint8 with as many
	// elements as the shape says.
	Data any
}

// Float32 is the data of a float tensor as float32; a copy unless it is that type
// already.
//
// Errors: if the tensor holds integers.
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
	return nil, fmt.Errorf("tensor %s holds %T, want floating point numbers", t.Name, t.Data)
}

// countElements is the number of elements of a shape, or an error if it is negative or
// does not fit.
func countElements(shape []int) (int64, error) {
	n := int64(1)
	for _, s := range shape {
		if s < 0 {
			return 0, fmt.Errorf("shape %v has a negative side", shape)
		}
		if s > 0 && n > math.MaxInt64/16/int64(s) {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		n *= int64(s)
	}
	return n, nil
}

// dtype gives the element type of a tensor that is to be written.
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
		return "", fmt.Errorf("tensor %s: %d values, shape %v wants %d", t.Name, have, t.Shape, n)
	}
	return d, nil
}

// encode gives the bytes of the data in little-endian order.
func encode(data any) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, data)
	if err != nil {
		panic(err) // check admitted only slices of numbers
	}
	return out
}

// decode is the inverse of encode; F16 and BF16 become float32.
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

// decodeElements turns each element of a tensor's bytes into a number.
func decodeElements[T any](d DType, raw []byte, value func([]byte) T) []T {
	size := int(d.size())
	out := make([]T, len(raw)/size)
	for i := range out {
		out[i] = value(raw[i*size:])
	}
	return out
}

// halfToFloat32 widens an IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction.
func halfToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	v := float32(frac) * (1.0 / (1 << 24)) // subnormal: frac · 2⁻²⁴
	if sign != 0 {
		return -v
	}
	return v
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C of a tensor's bytes in the file.
func checksum(raw []byte) uint32 { return crc32.Checksum(raw, castagnoli) }
