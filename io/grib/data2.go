package grib

import "math"

// checkData2 verifies that sections 3, 5, 6 and 7 of edition 2 agree on the number
// of values, and that section 7 is long enough for the packed values. rep holds
// section 5, g holds section 3.
//
// Checking before decoding keeps damaged lengths away from the decoders.
//
// Source: FM 92 GRIB2, sections 5 (template 5.n), 6 (code table 6.0) and 7.
func (f *Field) checkData2(rep, g Octets, w *readBuffer, m Message) *Fault {
	points, values, template := g.U4(7), rep.U4(6), rep.U2(10)
	bitmap, err := w.bytes(m.Offset+f.Sections[6].Offset, 6)
	if err != nil {
		return faultf("bitmap section not readable", "%v", err)
	}
	spectral := template == 50 || template == 51
	switch indicator := bitmap[5]; {
	// Without a bitmap every point has a value. Spectral coefficients have other
	// counts.
	case indicator == bitmapNone && points != values && !spectral:
		return faultf("numbers of values differ", "section 3 has %d points, section 5 %d values, and there is no bitmap", points, values)
	case indicator == bitmapFollows && (f.Sections[6].Length-6)*8 < points:
		return faultf("bitmap too short", "%d bits for %d points", (f.Sections[6].Length-6)*8, points)
	case indicator == bitmapFollows && values > points:
		return faultf("numbers of values differ", "section 5 has %d values for %d points", values, points)
	}
	data := f.Sections[7].Length - 5
	// Templates whose first octets are those of simple packing: reference value in
	// octets 12 to 15, bits per value in octet 20.
	simple := template == 0 || template == 2 || template == 3 || template == 40 || template == 41 || template == 42 || template == 61
	if !simple {
		return nil
	}
	if len(rep) < 20 {
		return faultf("packing section too short", "template %d needs 20 octets, it has %d", template, len(rep))
	}
	if ref := math.Float32frombits(uint32(rep.U4(12))); math.IsNaN(float64(ref)) || math.IsInf(float64(ref), 0) {
		return faultf("invalid packing", "reference value is %v", ref)
	}
	bits := int64(rep.U1(20))
	if bits > 64 {
		return faultf("invalid packing", "%d bits per value", bits)
	}
	if template == 0 && (values*bits+7)/8 > data {
		return faultf("data section too short", "%d values of %d bits need %d bytes, section 7 holds %d", values, bits, (values*bits+7)/8, data)
	}
	// Complex packing: number of groups in octets 32 to 35, group widths in 36 and
	// 37, scaled group lengths in 47.
	if template == 2 || template == 3 {
		if len(rep) < 47 {
			return faultf("packing section too short", "template %d needs 47 octets, it has %d", template, len(rep))
		}
		if groups := rep.U4(32); groups > values+1 {
			return faultf("invalid packing", "%d groups for %d values", groups, values)
		}
		if rep.U1(36) > 64 || rep.U1(37) > 64 || rep.U1(47) > 64 {
			return faultf("invalid packing", "group widths of %d + %d bits, lengths of %d bits", rep.U1(36), rep.U1(37), rep.U1(47))
		}
	}
	return nil
}
