package grib

import (
	"fmt"
	"math"
)

// SimplePacking describes the simple packing of a field. Each value Y follows from
// an unsigned integer X of Bits bits:
//
//	Y = (R + X·2^E) · 10^−D
//
// R is Reference, E BinaryScale and D DecimalScale. The integers are stored
// consecutively, or with the lossless CCSDS compression.
//
// Source: FM 92 GRIB2, regulation 92.9.4, templates 5.0 and 5.42; FM 92 GRIB1,
// section 4.
type SimplePacking struct {
	Data                      []byte // packed integers: section 7 from octet 6, or section 4 of edition 1 from octet 12
	Count, Bits               int    // Count is the number of values, Bits the bits of each.
	Reference                 float64
	BinaryScale, DecimalScale int
	CCSDS                     *CCSDS // nil for consecutive integers
	bitmap                    Octets // section 6 of edition 2; nil: all points have a value
}

// CCSDS holds the parameters of lossless compression, as libaec takes them: flags,
// block size, and reference sample interval (blocks between reference samples).
//
// Source: FM 92 GRIB2, template 5.42; CCSDS 121.0-B-3.
type CCSDS struct{ Flags, BlockSize, ReferenceInterval int }

// ccsdsSigned is the flag for signed integers, which GRIB does not use.
const ccsdsSigned = 1

// ParseSimplePacking reads the simple packing of a message with one field in
// memory, on a grid of a number of points. ok is false for other packings, and for
// those that ecCodes decodes equally well: constant fields, more than 32 bits,
// bitmaps of edition 1.
//
// Errors: sections that contradict each other.
// Source: FM 92 GRIB2, templates 5.0 and 5.42; FM 92 GRIB1, section 4, octets 4 to
// 11 and section 1, octets 27 and 28.
func ParseSimplePacking(message []byte, points int) (p SimplePacking, ok bool, err error) {
	m, fault, err := parseBytes(message)
	if err != nil {
		return p, false, err
	}
	if fault != nil {
		return p, false, fault
	}
	s := &m.Fields[0]
	part := func(n int) Octets { return Octets(message[s[n].Offset : s[n].Offset+s[n].Length]) }
	if m.Edition == 1 {
		product, data := part(1), part(4)
		const otherPacking = 0xf0 // octet 4, bits 1 to 4 (code table 11): spherical harmonics, complex packing, integers, additional flags
		if s[3].Length > 0 || data.U1(4)&otherPacking != 0 {
			return p, false, nil
		}
		unused := data.U1(4) & 0xf
		p = SimplePacking{Data: data[11:], Bits: data.U1(11), Reference: ibmFloat(uint32(data.U4(7))), BinaryScale: data.S2(5), DecimalScale: product.S2(27)}
		if p.Bits > 0 {
			p.Count = (8*len(p.Data) - unused) / p.Bits
			p.Count = min(p.Count, points) // section 4 is padded to an even number of octets
		}
	} else {
		rep, bitmap := part(5), part(6)
		template := rep.U2(10)
		if template != templateSimple && template != templateCCSDS || len(rep) < 20 {
			return p, false, nil
		}
		p = SimplePacking{Data: part(7)[5:], Count: int(rep.U4(6)), Bits: rep.U1(20), Reference: float64(math.Float32frombits(uint32(rep.U4(12)))),
			BinaryScale: rep.S2(16), DecimalScale: rep.S2(18), bitmap: bitmap}
		if template == templateCCSDS {
			p.CCSDS = &CCSDS{Flags: rep.U1(22), BlockSize: rep.U1(23), ReferenceInterval: rep.U2(24)}
			if len(rep) < 25 || p.CCSDS.Flags&ccsdsSigned != 0 {
				return p, false, nil
			}
		}
	}
	if p.Bits < 1 || p.Bits > 32 {
		return p, false, nil
	}
	switch {
	case p.Count > points || p.Count < points && p.bitmap == nil:
		return p, true, fmt.Errorf("the data hold %d values, the grid %d points", p.Count, points)
	case p.CCSDS == nil && int64(p.Count)*int64(p.Bits) > 8*int64(len(p.Data)):
		return p, true, fmt.Errorf("%d values of %d bits, the data section holds %d bytes", p.Count, p.Bits, len(p.Data))
	}
	if most := p.Value(1<<p.Bits - 1); !(math.Abs(most) <= math.MaxFloat32) || !(math.Abs(p.Value(0)) <= math.MaxFloat32) {
		return p, true, fmt.Errorf("values up to %g exceed the range of float32", most)
	}
	return p, true, nil
}

// Data representation templates of edition 2, code table 5.0.
const (
	templateSimple = 0
	templateCCSDS  = 42
)

// ScaleFactors returns 2^E and 10^−D. The power of ten is multiplied step by step
// as in ecCodes, so that values have the same bits.
func (p *SimplePacking) ScaleFactors() (binary, decimal float64) {
	decimal = 1
	for range max(-p.DecimalScale, 0) {
		decimal *= 10
	}
	for range max(p.DecimalScale, 0) {
		decimal /= 10
	}
	return math.Ldexp(1, p.BinaryScale), decimal
}

// Value returns the value of an integer.
func (p *SimplePacking) Value(x uint64) float64 {
	binary, decimal := p.ScaleFactors()
	return (float64(float64(x)*binary) + p.Reference) * decimal
}

// HasAllPoints reports whether all points have a value. It does not read the bits
// of a bitmap.
func (p *SimplePacking) HasAllPoints() bool { return p.bitmap == nil || p.bitmap.U1(6) == bitmapNone }

// ApplyBitmap moves the values, which are at the start of out, to the points that
// have a value. All other points become NaN.
//
// Shape: out [points], in storage order.
// Errors: a bitmap of another number of points or values; out is invalid then.
func (p *SimplePacking) ApplyBitmap(out []float32) error {
	if p.bitmap == nil {
		return nil
	}
	return applyBitmap(out, p.Count, p.bitmap)
}

// ibmFloat converts an IBM System/360 single-precision number: sign, 7-bit exponent
// to the base 16 in excess 64, 24-bit fraction.
//
// Source: FM 92 GRIB1, single precision floating point representation.
func ibmFloat(b uint32) float64 {
	v := math.Ldexp(float64(b&0xffffff), 4*(int(b>>24&0x7f)-64)-24)
	if b>>31 == 1 {
		return -v
	}
	return v
}
