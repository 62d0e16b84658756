package grib

import (
	"fmt"
	"math"
)

// SimplePacking is the simple packing of a field: numbers X of some bits, of which each is a value
// (Reference + X·2^Binary)·10^−Decimal. The numbers stand one after the other, or are
// coded.
//
// Source: FM 92 GRIB2, data representation templates 5.0 and 5.42, regulation 92.9.4;
// FM 92 GRIB1, section 4.
type SimplePacking struct {
	Data                      []byte
	Count, Bits               int
	Reference                 float64
	BinaryScale, DecimalScale int
	CCSDS                     *CCSDS // nil for numbers one after the other
	bitmap                    Octets // section 6 of edition 2; nil: all points have a value
}

// CCSDS is the lossless code of the CCSDS in which the numbers are: flags as libaec has
// them, numbers of a block, and blocks from one reference number to the next.
//
// Source: FM 92 GRIB2, data representation template 5.42; CCSDS 121.0-B-3.
type CCSDS struct{ Flags, BlockSize, ReferenceInterval int }

// ccsdsSigned is the flag of numbers with a sign, which no GRIB should have.
const ccsdsSigned = 1

// ParseSimplePacking finds the simple packing of the only field of a message in memory, on so many
// points, coded or not. ok is false for other packings, and for those that an ecCodes
// decodes as well: constant fields, more than 32 bits, bitmaps of edition 1.
//
// Errors: sections that contradict each other.
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
		const spectralPackedIntegersMore = 0xf0 // flags of other packings
		if s[3].Length > 0 || data.U1(4)&spectralPackedIntegersMore != 0 {
			return p, false, nil
		}
		unused := data.U1(4) & 0xf
		p = SimplePacking{Data: data[11:], Bits: data.U1(11), Reference: ibmFloat(uint32(data.U4(7))), BinaryScale: data.S2(5), DecimalScale: product.S2(27)}
		if p.Bits > 0 {
			p.Count = (8*len(p.Data) - unused) / p.Bits
			p.Count = min(p.Count, points) // octets are filled up to an even number
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
		return p, true, fmt.Errorf("values up to %g are more than a float holds", most)
	}
	return p, true, nil
}

// Data representation templates of edition 2.
const (
	templateSimple = 0
	templateCCSDS  = 42
)

// ScaleFactors are 2^Binary and 10^−Decimal, the latter as ecCodes multiplies it up, so that
// values have its bits.
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

// Value is the value of a number.
func (p *SimplePacking) Value(x uint64) float64 {
	binary, decimal := p.ScaleFactors()
	return (float64(float64(x)*binary) + p.Reference) * decimal
}

// HasAllPoints tells whether all points have a value, without a look at a bitmap.
func (p *SimplePacking) HasAllPoints() bool { return p.bitmap == nil || p.bitmap.U1(6) == bitmapNone }

// ApplyBitmap moves the values, which stand first, to the points that have one; others become
// NaN.
//
// Shape: out [points], in stored order.
// Errors: a bitmap of other points or values; out is not to be used then.
func (p *SimplePacking) ApplyBitmap(out []float32) error {
	if p.bitmap == nil {
		return nil
	}
	return applyBitmap(out, p.Count, p.bitmap)
}

// ibmFloat is a number of 32 bits to the base of 16.
func ibmFloat(b uint32) float64 {
	v := math.Ldexp(float64(b&0xffffff), 4*(int(b>>24&0x7f)-64)-24)
	if b>>31 == 1 {
		return -v
	}
	return v
}
