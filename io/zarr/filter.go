package zarr

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// Filters convert elements to elements. Their configuration has types of version 2:
// dtype of the decoded elements, astype of the stored ones.

// filterConfig is the configuration of a filter.
type filterConfig struct {
	// Dtype is the type of the decoded elements, Astype that of the stored ones. An
	// absent Astype is Dtype.
	Dtype  string  `json:"dtype"`
	Astype string  `json:"astype"`
	Offset float64 `json:"offset"`
	Scale  float64 `json:"scale"`
}

// parse parses the configuration of a filter for elements of type d. from is the
// decoded type, to the stored type.
func (f *filterConfig) parse(conf json.RawMessage, d dtype) (from, to dtype, err error) {
	if err := json.Unmarshal(conf, f); err != nil {
		return from, to, fmt.Errorf("its filter %.60s is invalid", conf)
	}
	from, to = d, d
	if f.Dtype != "" {
		if from, err = parseDtype(f.Dtype); err != nil {
			return from, to, err
		}
	}
	if to = from; f.Astype != "" {
		if to, err = parseDtype(f.Astype); err != nil {
			return from, to, err
		}
	}
	// A filter must get what the previous one returns.
	if from.kind != d.kind || from.size != d.size {
		return from, to, fmt.Errorf("its filter has dtype %s, the elements are %s", from.name(), d.name())
	}
	return from, to, nil
}

// sizeRatio returns the encoded size of a filter for a decoded size.
func sizeRatio(from, to dtype) func(n int) int {
	return func(n int) int { return n / from.size * to.size }
}

// put stores a number as an element in the byte order of the type.
func (d dtype) put(raw []byte, v float64) {
	var u uint64
	switch {
	case d.kind == 'f' && d.size == 4:
		u = uint64(math.Float32bits(float32(v)))
	case d.kind == 'f':
		u = math.Float64bits(v)
	// The conversion of larger values to int64 is not defined.
	case v >= 1<<63:
		u = uint64(v)
	default:
		u = uint64(int64(v))
	}
	d.putBits(raw, u)
}

// putBits stores the bits of an element.
func (d dtype) putBits(raw []byte, u uint64) {
	for k := range d.size {
		at := k
		if d.big {
			at = d.size - 1 - k
		}
		raw[at] = byte(u >> (8 * k))
	}
}

// bits returns the bits of an element, sign-extended to 64.
func (d dtype) bits(raw []byte) uint64 {
	var b [8]byte
	for k := range d.size {
		at := k
		if d.big {
			at = d.size - 1 - k
		}
		b[k] = raw[at]
	}
	u := binary.LittleEndian.Uint64(b[:])
	if d.kind == 'i' {
		u = uint64(int64(u<<(64-8*d.size)) >> (64 - 8*d.size))
	}
	return u
}

// number converts an element to float64.
func (d dtype) number(raw []byte) float64 {
	var b [8]byte
	copy(b[:], raw[:d.size])
	one := []float64{0}
	d.toLittleEndian(b[:d.size])
	d.readFloats(one, b[:], 0, 1)
	return one[0]
}

// newDelta makes the decoder of the delta filter, which stores the first element
// and then differences: x_i = x_{i−1} + d_i.
//
// Source: numcodecs, delta.py.
func newDelta(conf json.RawMessage, d *dtype) (decoder, error) {
	var f filterConfig
	from, to, err := f.parse(conf, *d)
	// float16 sums lose precision, and differences between kinds are not defined.
	if err == nil && (from.size == 2 && from.kind == 'f' || from.kind == 'b' || (from.kind == 'f') != (to.kind == 'f')) {
		err = fmt.Errorf("its filter delta of type %s is not supported", from.name())
	}
	if err != nil {
		return decoder{}, err
	}
	*d = to
	decode := func(src []byte, _ int) ([]byte, error) {
		n := len(src) / to.size
		dst := make([]byte, n*from.size)
		var whole uint64
		var sum float64
		for i := range n {
			stored, at := src[i*to.size:(i+1)*to.size], dst[i*from.size:(i+1)*from.size]
			if from.kind != 'f' { // integers wrap around as in their type
				whole += to.bits(stored)
				from.putBits(at, whole)
				continue
			}
			// numpy.cumsum of float32 rounds each partial sum.
			if sum += to.number(stored); from.size == 4 {
				sum = float64(float32(sum))
			}
			from.put(at, sum)
		}
		return dst, nil
	}
	return decoder{encodedSize: sizeRatio(from, to), decode: decode}, nil
}

// newFixedScaleOffset makes the decoder of the filter that stores y = (x −
// offset)·scale: x = y/scale + offset.
//
// Source: numcodecs, fixedscaleoffset.py.
func newFixedScaleOffset(conf json.RawMessage, d *dtype) (decoder, error) {
	var f filterConfig
	from, to, err := f.parse(conf, *d)
	switch {
	case err != nil:
		return decoder{}, err
	case f.Scale == 0 || math.IsNaN(f.Scale+f.Offset) || math.IsInf(f.Scale+f.Offset, 0):
		return decoder{}, fmt.Errorf("its filter has scale %v and offset %v", f.Scale, f.Offset)
	case from.size == 2 && from.kind == 'f':
		return decoder{}, fmt.Errorf("its filter fixedscaleoffset of type %s is not supported", from.name())
	}
	*d = to
	decode := func(src []byte, _ int) ([]byte, error) {
		n := len(src) / to.size
		dst := make([]byte, n*from.size)
		for i := range n {
			x := to.number(src[i*to.size:])
			// numcodecs computes in the stored type.
			if to.kind == 'f' && to.size == 4 {
				x = float64(float32(x)/float32(f.Scale) + float32(f.Offset))
			} else {
				x = x/f.Scale + f.Offset
			}
			from.put(dst[i*from.size:], x)
		}
		return dst, nil
	}
	return decoder{encodedSize: sizeRatio(from, to), decode: decode}, nil
}
