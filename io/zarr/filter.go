package zarr

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// Filters make numbers of numbers, element by element. They are configured with types of
// version 2; astype is what they store, dtype what they get.

type filterConfig struct {
	Dtype  string  `json:"dtype"`
	Astype string  `json:"astype"`
	Offset float64 `json:"offset"`
	Scale  float64 `json:"scale"`
}

// parse reads the types of a filter that gets elements of type d.
func (f *filterConfig) parse(conf json.RawMessage, d dtype) (from, to dtype, err error) {
	if err := json.Unmarshal(conf, f); err != nil {
		return from, to, fmt.Errorf("its filter %.60s is not understood", conf)
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
	if from.kind != d.kind || from.size != d.size {
		return from, to, fmt.Errorf("its filter is for type %s, the elements are %s", from.name(), d.name())
	}
	return from, to, nil
}

// sizeRatio gives the sizes of a filter's step.
func sizeRatio(from, to dtype) func(n int) int {
	return func(n int) int { return n / from.size * to.size }
}

// put stores a number as an element, the most significant byte first if the type says so.
func (d dtype) put(raw []byte, v float64) {
	var u uint64
	switch {
	case d.kind == 'f' && d.size == 4:
		u = uint64(math.Float32bits(float32(v)))
	case d.kind == 'f':
		u = math.Float64bits(v)
	case v >= 1<<63:
		u = uint64(v)
	default:
		u = uint64(int64(v))
	}
	d.putBits(raw, u)
}

func (d dtype) putBits(raw []byte, u uint64) {
	for k := range d.size {
		at := k
		if d.big {
			at = d.size - 1 - k
		}
		raw[at] = byte(u >> (8 * k))
	}
}

// bits are those of an element, with its sign spread over all 64.
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

// number is an element as a double.
func (d dtype) number(raw []byte) float64 {
	var b [8]byte
	copy(b[:], raw[:d.size])
	one := []float64{0}
	d.toLittleEndian(b[:d.size])
	d.readFloats(one, b[:], 0, 1)
	return one[0]
}

// newDelta is the filter that stores the first element and then differences.
//
// Source: numcodecs, delta.py.
func newDelta(conf json.RawMessage, d *dtype) (decoder, error) {
	var f filterConfig
	from, to, err := f.parse(conf, *d)
	if err == nil && (from.size == 2 && from.kind == 'f' || from.kind == 'b' || (from.kind == 'f') != (to.kind == 'f')) {
		err = fmt.Errorf("its filter delta of type %s is not supported", from.name())
	}
	if err != nil {
		return decoder{}, err
	}
	*d = to
	undo := func(src []byte, _ int) ([]byte, error) {
		n := len(src) / to.size
		dst := make([]byte, n*from.size)
		var whole uint64
		var sum float64
		for i := range n {
			stored, at := src[i*to.size:(i+1)*to.size], dst[i*from.size:(i+1)*from.size]
			if from.kind != 'f' { // wraps around like the numbers of its type
				whole += to.bits(stored)
				from.putBits(at, whole)
				continue
			}
			if sum += to.number(stored); from.size == 4 {
				sum = float64(float32(sum))
			}
			from.put(at, sum)
		}
		return dst, nil
	}
	return decoder{encodedSize: sizeRatio(from, to), decode: undo}, nil
}

// newFixedScaleOffset is the filter that stores (x − offset) · scale.
//
// Source: numcodecs, fixedscaleoffset.py.
func newFixedScaleOffset(conf json.RawMessage, d *dtype) (decoder, error) {
	var f filterConfig
	from, to, err := f.parse(conf, *d)
	switch {
	case err != nil:
		return decoder{}, err
	case f.Scale == 0 || math.IsNaN(f.Scale+f.Offset) || math.IsInf(f.Scale+f.Offset, 0):
		return decoder{}, fmt.Errorf("its filter has the scale %v and the offset %v", f.Scale, f.Offset)
	case from.size == 2 && from.kind == 'f':
		return decoder{}, fmt.Errorf("its filter fixedscaleoffset of type %s is not supported", from.name())
	}
	*d = to
	undo := func(src []byte, _ int) ([]byte, error) {
		n := len(src) / to.size
		dst := make([]byte, n*from.size)
		for i := range n {
			x := to.number(src[i*to.size:])
			if to.kind == 'f' && to.size == 4 {
				x = float64(float32(x)/float32(f.Scale) + float32(f.Offset))
			} else {
				x = x/f.Scale + f.Offset
			}
			from.put(dst[i*from.size:], x)
		}
		return dst, nil
	}
	return decoder{encodedSize: sizeRatio(from, to), decode: undo}, nil
}
