// Package grib reads the structure of GRIB files of editions 1 and 2. It locates
// messages and their sections. From their octets it reads time, member, product,
// level and grid of each field.
//
// The package decodes no values, except for the packings in simple.go and
// unpack.go. It uses no number from a file as a size before the number was compared
// with the size of the file. Names and units of parameters come from ecCodes
// (package eccodes) in a child process, except for the most common ones
// (parameters.go). Package simplepack decodes values of simple packing in this
// process.
//
// Source: WMO Manual on Codes (WMO-No. 306), FM 92 GRIB editions 1 and 2; ECMWF
// local definitions for section 1 of edition 1.
package grib

import (
	"encoding/binary"
	"fmt"
)

// Span is a run of octets, relative to the start of its message or file.
type Span struct{ Offset, Length int64 }

// Message is one GRIB message whose structure is valid.
type Message struct {
	Number  int   // 1-based; damaged messages count too
	Offset  int64 // bytes from the start of the file
	Length  int64
	Edition int
	Fields  []Sections // sections of each field

	partial bool // the file ends inside the message; Fields holds the complete fields
}

// Sections holds the positions of the sections of one field, by section number,
// relative to the message. Edition 1 has the sections 1 product definition, 2 grid
// description, 3 bitmap, 4 data. Edition 2 has 1 identification, 2 local use, 3
// grid definition, 4 product definition, 5 data representation, 6 bitmap, 7 data. A
// Span of Length 0 is an absent section.
type Sections [8]Span

// Fault describes damage in a file.
type Fault struct {
	// Message is the 1-based number of the damaged message.
	Message int
	// Offset is the byte at which the message begins.
	Offset int64
	// What is wrong, in a few words.
	What string
	// Why gives the numbers that contradict each other.
	Why string
}

// Error formats the fault in one line.
func (f *Fault) Error() string {
	return fmt.Sprintf("message %d, byte %d: %s: %s", f.Message, f.Offset, f.What, f.Why)
}

// faultf makes the fault of the message under examination. The scanner adds the
// message number and the offset.
func faultf(what, why string, args ...any) *Fault {
	return &Fault{What: what, Why: fmt.Sprintf(why, args...)}
}

// Octets holds the bytes of a section. Octet numbers count from 1, as in the WMO
// manual.
type Octets []byte

// Has reports whether octet n exists.
func (o Octets) Has(n int) bool { return n >= 1 && n <= len(o) }

// U1 returns octet n as an unsigned integer. All readers of Octets return 0 if the
// section is too short.
func (o Octets) U1(n int) int {
	if !o.Has(n) {
		return 0
	}
	return int(o[n-1])
}

// U2 returns the unsigned integer in octets n and n+1, most significant octet
// first.
func (o Octets) U2(n int) int {
	if !o.Has(n + 1) {
		return 0
	}
	return int(binary.BigEndian.Uint16(o[n-1:]))
}

// U3 returns the unsigned integer in octets n to n+2.
func (o Octets) U3(n int) int {
	if !o.Has(n + 2) {
		return 0
	}
	return int(o[n-1])<<16 | int(o[n])<<8 | int(o[n+1])
}

// U4 returns the unsigned integer in octets n to n+3.
func (o Octets) U4(n int) int64 {
	if !o.Has(n + 3) {
		return 0
	}
	return int64(binary.BigEndian.Uint32(o[n-1:]))
}

// S1 returns the signed integer in octet n. Bit 1 is the sign and the other bits
// are the magnitude (FM 92 GRIB2, regulation 92.1.5); GRIB does not use two's
// complement.
func (o Octets) S1(n int) int { return int(signed(int64(o.U1(n)), 8)) }

// S2 returns the signed integer in octets n and n+1.
func (o Octets) S2(n int) int { return int(signed(int64(o.U2(n)), 16)) }

// S3 returns the signed integer in octets n to n+2.
func (o Octets) S3(n int) int { return int(signed(int64(o.U3(n)), 24)) }

// S4 returns the signed integer in octets n to n+3.
func (o Octets) S4(n int) int64 { return signed(o.U4(n), 32) }

// signed interprets v as sign and magnitude in a number of bits.
func signed(v int64, bits int) int64 {
	if sign := int64(1) << (bits - 1); v&sign != 0 {
		return -(v &^ sign)
	}
	return v
}
