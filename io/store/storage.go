package store

import (
	"encoding/binary"
	"math"

	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Storage is how values are stored.
type Storage string

// The storage types, all little-endian.
const (
	// Float32 keeps every bit.
	Float32 Storage = "f32"
	// BFloat16 keeps the upper half of a float32, rounded to nearest, ties to even: a
	// relative error of at most 2⁻⁸ (2⁻⁹ on average), absolutely at most 2⁻¹³⁴ where
	// values are subnormal.
	BFloat16 Storage = "bf16"
	// Int16 keeps q of x ≈ offset + scale·q with −32767 ≤ q ≤ 32767, offset and scale
	// of each field in each band: an absolute error of at most scale/2, and the
	// rounding to float32. −32768 is a missing value.
	Int16 Storage = "int16"
)

// Storages lists the types.
var Storages = []Storage{Float32, BFloat16, Int16}

func (s Storage) bytes() int64 {
	if s == Float32 {
		return 4
	}
	return 2
}

// steps is the number of steps of Int16 between the least and the largest value, and
// missing the code of none.
const (
	int16Steps   = 2 * 32767
	int16Missing = math.MinInt16
)

// errRange says that a value has no place in a storage type.
var errRange = &exit.Error{Code: exit.BadData, What: "a value is infinite or too large for the storage type"}

// A fieldRecord is what a band's head says of one field's rows: how to read them, and the
// statistics of the values before they were stored.
type fieldRecord struct {
	offset, scale float64 // of Int16; 0 and 1 otherwise
	mean, sd      float64 // over the points that are not missing
	min, max      float32 // likewise; 0 if all are missing
	missing       uint32  // points
}

// fieldStatistics takes the statistics of values.
//
// Errors: errRange for an infinite value.
func fieldStatistics(v []float32) (fieldRecord, error) {
	r := fieldRecord{scale: 1}
	var sum float64
	n := 0
	for _, x := range v {
		if x != x {
			r.missing++
			continue
		}
		if n == 0 {
			r.min, r.max = x, x
		}
		r.min, r.max = min(r.min, x), max(r.max, x)
		sum += float64(x)
		n++
	}
	if math.IsInf(float64(r.min), 0) || math.IsInf(float64(r.max), 0) {
		return r, errRange
	}
	if n == 0 {
		return r, nil
	}
	r.mean = sum / float64(n)
	var sq float64
	for _, x := range v {
		if x == x {
			d := float64(x) - r.mean
			sq += d * d
		}
	}
	r.sd = math.Sqrt(sq / float64(n))
	return r, nil
}

// encode stores values, and completes their record.
//
// Shape: dst [len(v)·bytes]. Errors: errRange if a value has no place.
func (s Storage) encode(dst []byte, v []float32, r *fieldRecord) error {
	switch s {
	case Float32:
		for i, x := range v {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case BFloat16:
		for i, x := range v {
			h, err := roundBF16(x)
			if err != nil {
				return err
			}
			binary.LittleEndian.PutUint16(dst[2*i:], h)
		}
	case Int16:
		r.offset = (float64(r.min) + float64(r.max)) / 2
		r.scale = (float64(r.max) - float64(r.min)) / int16Steps
		for i, x := range v {
			q := int16(int16Missing)
			if x == x {
				q = r.quantise(x)
			}
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(q))
		}
	}
	return nil
}

// quantise is the nearest code of a value.
func (r *fieldRecord) quantise(x float32) int16 {
	if r.scale == 0 {
		return 0
	}
	// The ends are codes ±32767 but for rounding.
	q := math.RoundToEven((float64(x) - r.offset) / r.scale)
	return int16(max(-int16Steps/2, min(int16Steps/2, q)))
}

// roundBF16 is the upper half of a float32, rounded to nearest even.
func roundBF16(x float32) (uint16, error) {
	if x != x {
		return 0x7fc0, nil
	}
	b := math.Float32bits(x)
	h := uint16((b + 0x7fff + b>>16&1) >> 16)
	if h&0x7fff == 0x7f80 {
		return 0, errRange
	}
	return h, nil
}

// littleEndian tells whether values lie in memory as they do in a file.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// decode reads values.
//
// Shape: src [len(dst)·bytes].
func (s Storage) decode(dst []float32, src []byte, r *fieldRecord) {
	switch s {
	case Float32:
		if littleEndian {
			copy(bigmem.Bytes(dst), src)
			return
		}
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BFloat16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case Int16:
		for i := range dst {
			q := int16(binary.LittleEndian.Uint16(src[2*i:]))
			if q == int16Missing {
				dst[i] = float32(math.NaN())
				continue
			}
			dst[i] = float32(r.offset + r.scale*float64(q))
		}
	}
}
