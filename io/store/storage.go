package store

import (
	"encoding/binary"
	"math"

	"github.com/ensemble-weather/ensemble/internal/bfloat16"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Storage is a storage type of values.
type Storage string

// The storage types. All are little-endian.
const (
	Float32 Storage = "f32" // Float32 is lossless.
	// BFloat16 stores the upper half of a float32, rounded to nearest, ties to
	// even. The relative error is at most 2⁻⁸ (2⁻⁹ on average); the absolute error
	// of subnormal values is at most 2⁻¹³⁴.
	BFloat16 Storage = "bf16"
	// Int16 stores q of x ≈ offset + scale·q with −32767 ≤ q ≤ 32767. Offset and
	// scale are those of each field in each band. The absolute error is at most
	// scale/2, plus the rounding to float32. −32768 is a missing value.
	Int16 Storage = "int16"
)

// Storages lists the storage types.
var Storages = []Storage{Float32, BFloat16, Int16}

// bytes returns the bytes per value.
func (s Storage) bytes() int64 {
	if s == Float32 {
		return 4
	}
	return 2
}

// int16Steps is the number of quantisation steps between minimum and maximum,
// int16Missing the code of a missing value.
const (
	int16Steps   = 2 * 32767
	int16Missing = math.MinInt16
)

// errRange reports a value outside of the range of a storage type.
var errRange = &exit.Error{Code: exit.BadData, What: "a value is infinite or too large for the storage type"}

// A fieldRecord holds the parameters and statistics of one field in a band: how to
// decode its rows, and the statistics of the values before storage.
type fieldRecord struct {
	// offset and scale decode Int16; they are 0 and 1 otherwise.
	offset, scale float64
	// mean and sd are over values that are not missing.
	mean, sd float64
	// min and max are over values that are not missing; 0 if all are missing.
	min, max float32
	// missing is the number of missing points.
	missing uint32
}

// fieldStatistics computes the statistics of values: mean and standard deviation in
// two passes, in float64.
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
	// The second pass subtracts the mean before squaring, which avoids cancellation
	// for temperatures and pressures.
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

// encode encodes values and completes their record. For Int16:
//
//	offset = (min + max)/2
//	scale  = (max − min)/65534
//	q      = round((x − offset)/scale)
//
// Shape: dst [len(v)·bytes].
// Missing: NaN; code −32768 for Int16.
// Errors: errRange for a value outside of the range.
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

// quantise returns the code of a value, round((x − offset)/scale).
func (r *fieldRecord) quantise(x float32) int16 {
	if r.scale == 0 {
		return 0
	}
	// Minimum and maximum have codes ±32767, except for rounding.
	q := math.RoundToEven((float64(x) - r.offset) / r.scale)
	return int16(max(-int16Steps/2, min(int16Steps/2, q)))
}

// roundBF16 rounds a float32 to bfloat16. The largest finite values round to
// infinity, which is rejected.
func roundBF16(x float32) (uint16, error) {
	h := bfloat16.Round(x)
	if bfloat16.IsInf(h) {
		return 0, errRange
	}
	return h, nil
}

// littleEndian reports whether the machine is little-endian, like the files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// decode decodes values.
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
			dst[i] = bfloat16.Value(binary.LittleEndian.Uint16(src[2*i:]))
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
