package grib

import (
	"fmt"
	"math"
)

// Simple is the simple packing of a field: numbers X of some bits, of which each is a value
// (Reference + X·2^Binary)·10^−Decimal. The numbers stand one after the other, or are
// coded.
//
// Source: FM 92 GRIB2, data representation templates 5.0 and 5.42, regulation 92.9.4;
// FM 92 GRIB1, section 4.
type Simple struct {
	Data            []byte
	Values, Bits    int
	Reference       float64
	Binary, Decimal int
	Code            *Code  // nil for numbers one after the other
	bitmap          Octets // section 6 of edition 2; nil: all points have a value
}

// Code is the lossless code of the CCSDS in which the numbers are: flags as libaec has
// them, numbers of a block, and blocks from one reference number to the next.
//
// Source: FM 92 GRIB2, data representation template 5.42; CCSDS 121.0-B-3.
type Code struct{ Flags, Block, Interval int }

// codeSigned is the flag of numbers with a sign, which no GRIB should have.
const codeSigned = 1

// SimpleOf finds the simple packing of the only field of a message in memory, on so many
// points, coded or not. ok is false for other packings, and for those that an ecCodes
// decodes as well: constant fields, more than 32 bits, bitmaps of edition 1.
//
// Errors: sections that contradict each other.
func SimpleOf(message []byte, points int) (p Simple, ok bool, err error) {
	m, fault, err := examine(message)
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
		const spectralPackedIntegersMore = 0xf0 // flags of other packings
		if s[3].Length > 0 || data.U1(4)&spectralPackedIntegersMore != 0 {
			return p, false, nil
		}
		unused := data.U1(4) & 0xf
		p = Simple{Data: data[11:], Bits: data.U1(11), Reference: ibm(uint32(data.U4(7))), Binary: data.S2(5), Decimal: product.S2(27)}
		if p.Bits > 0 {
			p.Values = (8*len(p.Data) - unused) / p.Bits
			p.Values = min(p.Values, points) // octets are filled up to an even number
		}
	} else {
		rep, bitmap := part(5), part(6)
		template := rep.U2(10)
		if template != templateSimple && template != templateCCSDS || len(rep) < 20 {
			return p, false, nil
		}
		p = Simple{Data: part(7)[5:], Values: int(rep.U4(6)), Bits: rep.U1(20), Reference: float64(math.Float32frombits(uint32(rep.U4(12)))),
			Binary: rep.S2(16), Decimal: rep.S2(18), bitmap: bitmap}
		if template == templateCCSDS {
			p.Code = &Code{Flags: rep.U1(22), Block: rep.U1(23), Interval: rep.U2(24)}
			if len(rep) < 25 || p.Code.Flags&codeSigned != 0 {
				return p, false, nil
			}
		}
	}
	if p.Bits < 1 || p.Bits > 32 {
		return p, false, nil
	}
	switch {
	case p.Values > points || p.Values < points && p.bitmap == nil:
		return p, true, fmt.Errorf("the data hold %d values, the grid %d points", p.Values, points)
	case p.Code == nil && int64(p.Values)*int64(p.Bits) > 8*int64(len(p.Data)):
		return p, true, fmt.Errorf("%d values of %d bits, the data section holds %d bytes", p.Values, p.Bits, len(p.Data))
	}
	if most := p.Value(1<<p.Bits - 1); !(math.Abs(most) <= math.MaxFloat32) || !(math.Abs(p.Value(0)) <= math.MaxFloat32) {
		return p, true, fmt.Errorf("values up to %g are more than a float holds", most)
	}
	return p, true, nil
}

// Data representation templates of edition 2.
const (
	templateSimple = 0
	templateCCSDS  = 42
)

// Factors are 2^Binary and 10^−Decimal, the latter as ecCodes multiplies it up, so that
// values have its bits.
func (p *Simple) Factors() (binary, decimal float64) {
	decimal = 1
	for range max(-p.Decimal, 0) {
		decimal *= 10
	}
	for range max(p.Decimal, 0) {
		decimal /= 10
	}
	return math.Ldexp(1, p.Binary), decimal
}

// Value is the value of a number.
func (p *Simple) Value(x uint64) float64 {
	binary, decimal := p.Factors()
	return (float64(float64(x)*binary) + p.Reference) * decimal
}

// Everywhere tells whether all points have a value, without a look at a bitmap.
func (p *Simple) Everywhere() bool { return p.bitmap == nil || p.bitmap.U1(6) == bitmapNone }

// Spread moves the values, which stand first, to the points that have one; others become
// NaN.
//
// Shape: out [points], in stored order.
// Errors: a bitmap of other points or values; out is not to be used then.
func (p *Simple) Spread(out []float32) error {
	if p.bitmap == nil {
		return nil
	}
	return spread(out, p.Values, p.bitmap)
}

// ibm is a number of 32 bits to the base of 16.
func ibm(b uint32) float64 {
	v := math.Ldexp(float64(b&0xffffff), 4*(int(b>>24&0x7f)-64)-24)
	if b>>31 == 1 {
		return -v
	}
	return v
}
