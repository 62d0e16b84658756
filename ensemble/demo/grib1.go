package demo

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// marsKeys contains the values of the local section of ECMWF messages.
type marsKeys struct {
	class, kind  byte
	stream       uint16
	process      byte // identifier of the model
	member       int  // ensemble.NoMember for an analysis
	ensembleSize int  // number of members including the control member
	reference    time.Time
}

// Codes of the MARS tables.
const (
	classOperational = 1
	classERA5        = 23
	typeAnalysis     = 2
	typePerturbed    = 11
	streamAnalysis   = 1025 // oper
	streamHindcast   = 1033 // enfh
)

// encodeGRIB1 appends a field as a GRIB edition 1 message in the style of ECMWF: table 128, rows from
// north to south, 16 bits per value, and a bitmap if values are missing (NaN).
//
// Indices in the code count from 0, octets of the manual from 1. Leads are in hours (code table 4:
// 1) and fit one octet, so at most 255 h.
//
// Missing: NaN has bit 0 in the bitmap and no value in the data section.
// Source: FM 92 GRIB1; ECMWF local definitions 1 and 26; WMO-No. 306, FM 92 GRIB edition 1: sections
// 0 to 5, code tables 3 (levels), 4 (time units), 6 (grid types), 8 (scanning mode).
func encodeGRIB1(dst []byte, grid *ensemble.Grid, v ensemble.Variable, level ensemble.Level, init time.Time, leadHours int, m marsKeys, values []float32) []byte {
	start := len(dst)
	dst = append(dst, "GRIB\x00\x00\x00\x01"...)
	product := make([]byte, 52)
	if m.member != int(ensemble.NoMember) {
		product = make([]byte, 69)
	}
	n, missing := 0, false
	for _, x := range values {
		if x == x {
			n++
		} else {
			missing = true
		}
	}
	putSigned24(product, 1, len(product))
	copy(product[3:], []byte{128, 98, m.process, 255, 0x80, byte(v.Table128)})
	if missing {
		product[7] |= 0x40
	}
	product[9] = 1 // single-level variables have the level type surface
	if level.Kind == ensemble.Pressure {
		product[9] = 100
		binary.BigEndian.PutUint16(product[10:], uint16(level.Value/100))
	}
	century := (init.Year()-1)/100 + 1
	copy(product[12:], []byte{byte(init.Year() - (century-1)*100), byte(init.Month()), byte(init.Day()), byte(init.Hour()), byte(init.Minute()), 1, byte(leadHours)})
	product[24] = byte(century)
	product[40], product[41], product[42] = 1, m.class, m.kind
	binary.BigEndian.PutUint16(product[43:], m.stream)
	copy(product[45:], "0001")
	if m.member != int(ensemble.NoMember) {
		product[40] = 26
		product[49], product[50] = byte(m.member), byte(m.ensembleSize)
		binary.BigEndian.PutUint32(product[51:], uint32(m.reference.Year()*10000+int(m.reference.Month())*100+m.reference.Day()))
	}
	dst = append(dst, product...)

	g := make([]byte, 32)
	putSigned24(g, 1, len(g))
	g[4] = 255 // no list of vertical coordinates
	binary.BigEndian.PutUint16(g[6:], uint16(grid.NX))
	binary.BigEndian.PutUint16(g[8:], uint16(grid.NY))
	last := func(x []float64) float64 { return x[len(x)-1] }
	putSigned24(g, 11, millidegrees(grid.Lat[0]))
	putSigned24(g, 14, millidegrees(grid.Lon[0]))
	g[16] = 0x80 // increments are present
	putSigned24(g, 18, millidegrees(last(grid.Lat)))
	putSigned24(g, 21, millidegrees(last(grid.Lon)))
	// Those above 65.534 degrees have no code and are missing.
	increment := func(degrees float64) uint16 { return uint16(min(math.Round(1000*degrees), 0xffff)) }
	binary.BigEndian.PutUint16(g[23:], increment((last(grid.Lon)-grid.Lon[0])/float64(grid.NX-1)))
	binary.BigEndian.PutUint16(g[25:], increment((grid.Lat[0]-last(grid.Lat))/float64(grid.NY-1)))
	dst = append(dst, g...)

	if missing {
		octets := (len(values) + 7) / 8
		octets += octets % 2
		b := make([]byte, 6+octets)
		putSigned24(b, 1, len(b))
		b[3] = byte(8*octets - len(values))
		for i, x := range values {
			if x == x {
				b[6+i/8] |= 0x80 >> (i % 8)
			}
		}
		dst = append(dst, b...)
	}
	dst = append(encodeData1(dst, values, n), "7777"...)
	putSigned24(dst[start:], 5, len(dst)-start)
	return dst
}

// MessageBytes returns the size of an Archive message with the given number of points, for a member
// or an analysis. The size of a message with missing values differs. It is the sum of the sections:
// 8, 52 or 69, 32, 11 + 2 for each value, and 4 octets; the data section has an even length.
func MessageBytes(points int, member bool) int64 {
	product := 52
	if member {
		product = 69
	}
	data := 11 + 2*points
	return int64(8 + product + 32 + data + data%2 + 4)
}

// encodeData1 appends the data section with the n non-missing values.
//
// A value is Y = R + X·2ᴱ with the smallest value as reference R, 16-bit integers X and the least
// scale E for which the largest value fits. A constant field has 0 bits.
//
// Source: WMO-No. 306, FM 92 GRIB edition 1, section 4 (binary data): octets 5–6 (E), 7–10 (R), 11
// (bits).
func encodeData1(dst []byte, values []float32, n int) []byte {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range values {
		if x == x {
			lo, hi = min(lo, float64(x)), max(hi, float64(x))
		}
	}
	if n == 0 {
		lo, hi = 0, 0
	}
	reference, word := ibmFloor(lo)
	scale, bits := 0, 0
	if hi > reference {
		bits = 16
		scale = int(math.Ceil(math.Log2((hi - reference) / math.MaxUint16)))
	}
	length := 11 + n*bits/8
	b := make([]byte, length+length%2)
	putSigned24(b, 1, len(b))
	b[3] = byte(8 * (length % 2))
	putSigned16(b, 5, scale)
	binary.BigEndian.PutUint32(b[6:], word)
	b[10] = byte(bits)
	if bits > 0 {
		at := 11
		for _, x := range values {
			if x == x {
				q := math.Round(math.Ldexp(float64(x)-reference, -scale))
				binary.BigEndian.PutUint16(b[at:], uint16(min(q, math.MaxUint16)))
				at += 2
			}
		}
	}
	return append(dst, b...)
}

// ibmFloor returns the largest 32-bit IBM floating-point number that is not greater than x.
//
// The number is (−1)ˢ · 16^(A−64) · B/2²⁴ with sign s, exponent A of 7 bits and mantissa B of 24
// bits. The floor keeps all X positive.
//
// Source: WMO-No. 306, FM 92 GRIB edition 1, section 4, octets 7–10; IBM System/360 Principles of
// Operation, hexadecimal floating point.
func ibmFloor(x float64) (value float64, word uint32) {
	if x == 0 {
		return 0, 0
	}
	exponent := 64
	a := math.Abs(x)
	for a >= 1 {
		a, exponent = a/16, exponent+1
	}
	for a < 1.0/16 && exponent > 0 {
		a, exponent = a*16, exponent-1
	}
	mantissa := math.Floor(a * (1 << 24))
	if x < 0 {
		mantissa = math.Ceil(a * (1 << 24))
		if mantissa == 1<<24 {
			mantissa, exponent = 1<<20, exponent+1
		}
		word = 1 << 31
	}
	value = math.Ldexp(mantissa, 4*(exponent-64)-24)
	if x < 0 {
		value = -value
	}
	return value, word | uint32(exponent)<<24 | uint32(mantissa)
}

// millidegrees returns a coordinate in thousandths of a degree.
func millidegrees(deg float64) int { return int(math.Round(1000 * deg)) }

// putSigned16 and put3 write a number of two or three octets at octet n, with the sign in the first bit.
func putSigned16(b []byte, n, v int) {
	if v < 0 {
		v = -v | 1<<15
	}
	b[n-1], b[n] = byte(v>>8), byte(v)
}

// putSigned24 writes three octets.
func putSigned24(b []byte, n, v int) {
	if v < 0 {
		v = -v | 1<<23
	}
	b[n-1], b[n], b[n+1] = byte(v>>16), byte(v>>8), byte(v)
}
