package grib

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Unpack decodes packings of edition 2 that ecCodes 2.28 lacks or decodes wrongly:
// IEEE numbers (template 5.4; ecCodes returns half of the 64-bit values) and run
// length packing (template 5.200). ok is false for all other packings.
//
// Shape: out [points], in storage order.
// Missing: NaN.
// Errors: sections that contradict each other, values that are not finite; out is
// invalid then.
// Source: FM 92 GRIB2, templates 5.4, 7.4, 5.200 and 7.200.
func Unpack(message []byte, s *Sections, out []float32) (ok bool, err error) {
	part := func(n int) Octets {
		p := s[n]
		if p.Offset < 0 || p.Length < 0 || p.Offset+p.Length > int64(len(message)) {
			return nil
		}
		return Octets(message[p.Offset : p.Offset+p.Length])
	}
	rep, bitmap, data := part(5), part(6), part(7)
	template := rep.U2(10)
	if template != 4 && template != 200 || len(bitmap) < 6 || len(data) < 5 {
		return false, nil
	}
	values := int(rep.U4(6))
	if values > len(out) {
		return true, fmt.Errorf("section 5 has %d values for %d points", values, len(out))
	}
	if template == 4 {
		err = ieee(out[:values], data[5:], rep.U1(12))
	} else {
		err = runLength(out[:values], data[5:], rep)
	}
	if err != nil {
		return true, err
	}
	return true, applyBitmap(out, values, bitmap)
}

// ieee decodes big-endian IEEE 754 numbers of 32 bits (precision 1) or 64 bits
// (precision 2).
//
// Source: FM 92 GRIB2, template 5.4, code table 5.7.
func ieee(out []float32, data []byte, precision int) error {
	width := map[int]int{1: 4, 2: 8}[precision]
	if width == 0 {
		return fmt.Errorf("IEEE precision %d is not supported", precision)
	}
	if len(data) != width*len(out) {
		return fmt.Errorf("%d values of %d bytes, section 7 holds %d bytes", len(out), width, len(data))
	}
	for i := range out {
		if width == 4 {
			out[i] = math.Float32frombits(binary.BigEndian.Uint32(data[4*i:]))
		} else {
			out[i] = float32(math.Float64frombits(binary.BigEndian.Uint64(data[8*i:])))
		}
		if v := float64(out[i]); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("value %d is not finite", i+1)
		}
	}
	return nil
}

// runLength decodes run length packing. Integers of rep octet 12 bits follow each
// other. One up to mv, the largest level in use, is a level (0 is missing). Larger
// ones are digits of the number of repetitions of the preceding level, the least
// significant first, to the base 2^bits − 1 − mv.
//
// Source: FM 92 GRIB2, templates 5.200 and 7.200.
func runLength(out []float32, data []byte, rep Octets) error {
	bits, mv, levels := rep.U1(12), rep.U2(13), rep.U2(15)
	scale := math.Pow10(-rep.S1(17))
	if bits < 1 || bits > 16 || mv < 1 || mv >= 1<<bits || levels < mv || len(rep) < 17+2*levels {
		return fmt.Errorf("invalid run length packing: %d bits, largest value %d of %d levels", bits, mv, levels)
	}
	base := 1<<bits - 1 - mv
	acc, have, at, n := 0, 0, 0, 0
	next := func() (int, bool) {
		for have < bits {
			if at == len(data) {
				return 0, false
			}
			acc, have, at = acc<<8|int(data[at]), have+8, at+1
		}
		have -= bits
		v := acc >> have
		acc &= 1<<have - 1
		return v, true
	}
	level, digit := -1, 1
	put := func(count int) error {
		if count > len(out)-n {
			return fmt.Errorf("runs are longer than the %d values", len(out))
		}
		v := float32(math.NaN())
		if level > 0 {
			v = float32(float64(rep.U2(18+2*(level-1))) * scale)
		}
		for range count {
			out[n] = v
			n++
		}
		return nil
	}
	for n < len(out) {
		v, ok := next()
		switch {
		case !ok:
			return fmt.Errorf("runs end after %d of %d values", n, len(out))
		case v <= mv:
			level, digit = v, 1
			if err := put(1); err != nil {
				return err
			}
		case level < 0:
			return fmt.Errorf("a run length precedes the first level")
		default:
			if err := put((v - mv - 1) * digit); err != nil {
				return err
			}
			digit = min(digit*base, len(out)+1)
		}
	}
	return nil
}

// applyBitmap moves the values to their points, from the last to the first, in
// place. Points without a value become NaN.
//
// Source: FM 92 GRIB2, section 6: bit 1 is a value present, the most significant
// bit first.
func applyBitmap(out []float32, values int, bitmap Octets) error {
	if bitmap.U1(6) == bitmapNone {
		if values != len(out) {
			return fmt.Errorf("%d values for %d points without a bitmap", values, len(out))
		}
		return nil
	}
	bits := bitmap[6:]
	if len(bits)*8 < len(out) {
		return fmt.Errorf("bitmap of %d bits for %d points", len(bits)*8, len(out))
	}
	for i := len(out) - 1; i >= 0; i-- {
		if bits[i/8]&(0x80>>(i%8)) == 0 {
			out[i] = float32(math.NaN())
			continue
		}
		if values--; values < 0 {
			return fmt.Errorf("the bitmap has more points than the data have values")
		}
		out[i] = out[values]
	}
	if values != 0 {
		return fmt.Errorf("the bitmap has fewer points than the data have values")
	}
	return nil
}
