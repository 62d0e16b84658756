package grib

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Unpack decodes the packings of edition 2 that ecCodes 2.28 does not, or not
// rightly: IEEE numbers (template 5.4; of 64 bits it makes half as many) and run
// lengths (5.200, which it does not have). ok is false for any other.
//
// Shape: out [points], stored order. Missing: NaN.
// Errors: sections that contradict each other, values that are not finite; out is not to be used then.
// Source: FM 92 GRIB2, data representation templates 5.4, 5.200, 7.4, 7.200.
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

// ieee reads numbers of 32 (precision 1) or 64 bits (2).
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

// runLength expands run lengths. Numbers of some bits follow each other: one up to mv
// is a level (0 is missing), those above it are digits, to the base of what is
// left of the range, of how often the level before them is repeated.
func runLength(out []float32, data []byte, rep Octets) error {
	bits, mv, levels := rep.U1(12), rep.U2(13), rep.U2(15)
	scale := math.Pow10(-rep.S1(17))
	if bits < 1 || bits > 16 || mv < 1 || mv >= 1<<bits || levels < mv || len(rep) < 17+2*levels {
		return fmt.Errorf("impossible run-length packing: %d bits, largest value %d of %d levels", bits, mv, levels)
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
			return fmt.Errorf("a run length comes before any level")
		default:
			if err := put((v - mv - 1) * digit); err != nil {
				return err
			}
			digit = min(digit*base, len(out)+1)
		}
	}
	return nil
}

// applyBitmap moves the values that a bitmap has to their points, from the back.
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
			return fmt.Errorf("the bitmap has more points than there are values")
		}
		out[i] = out[values]
	}
	if values != 0 {
		return fmt.Errorf("the bitmap has fewer points than there are values")
	}
	return nil
}
