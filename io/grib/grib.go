// Package grib reads the structure of GRIB files of both editions: where
// messages and their sections lie, and from their octets the time, member,
// product, level and grid of each field. It decodes no values and trusts no
// number it has not bounded by the size of the file. What a parameter is called,
// but for the commonest ones, and what its values are, ecCodes says (package eccodes), in another process; values of
// simple packing come from package numbers.
//
// Source: WMO Manual on Codes, FM 92 GRIB edition 1 and 2; ECMWF local
// definitions for section 1 of edition 1.
package grib

import (
	"encoding/binary"
	"fmt"
)

// Span is a run of octets.
type Span struct{ Offset, Length int64 }

// Message is one GRIB message, structurally sound.
type Message struct {
	Number  int // 1-based, counted over the sound and the damaged ones of a file
	Offset  int64
	Length  int64
	Edition int
	Fields  []Sections

	partial bool // the file ends inside it, behind the Fields
}

// Sections are the places of one field's sections relative to its message. In
// edition 1 they are 1 product, 2 grid, 3 bitmap, 4 data; Length 0 is absent.
type Sections [8]Span

// Fault is damage found in a file.
type Fault struct {
	Message int   // number the damaged message would have
	Offset  int64 // byte where it starts
	What    string
	Why     string
}

// Error is the fault on one line.
func (f *Fault) Error() string {
	return fmt.Sprintf("message %d, byte %d: %s: %s", f.Message, f.Offset, f.What, f.Why)
}

// faultf makes the fault of a message under examination; the scanner adds where.
func faultf(what, why string, args ...any) *Fault {
	return &Fault{What: what, Why: fmt.Sprintf(why, args...)}
}

// Octets are the bytes of a section; positions count from 1 as in the manual.
type Octets []byte

// Has says whether octet n is there.
func (o Octets) Has(n int) bool { return n >= 1 && n <= len(o) }

// U1 is octet n, 0 if the section is too short; likewise the others.
func (o Octets) U1(n int) int {
	if !o.Has(n) {
		return 0
	}
	return int(o[n-1])
}

// U2 is the unsigned number in two octets from n.
func (o Octets) U2(n int) int {
	if !o.Has(n + 1) {
		return 0
	}
	return int(binary.BigEndian.Uint16(o[n-1:]))
}

// U3 is the unsigned number in three octets from n.
func (o Octets) U3(n int) int {
	if !o.Has(n + 2) {
		return 0
	}
	return int(o[n-1])<<16 | int(o[n])<<8 | int(o[n+1])
}

// U4 is the unsigned number in four octets from n.
func (o Octets) U4(n int) int64 {
	if !o.Has(n + 3) {
		return 0
	}
	return int64(binary.BigEndian.Uint32(o[n-1:]))
}

// S1 is the number in octet n whose first bit is its sign.
func (o Octets) S1(n int) int { return int(signed(int64(o.U1(n)), 8)) }

// S2 is the number in two octets whose first bit is its sign.
func (o Octets) S2(n int) int { return int(signed(int64(o.U2(n)), 16)) }

// S3 is the number in three octets whose first bit is its sign.
func (o Octets) S3(n int) int { return int(signed(int64(o.U3(n)), 24)) }

// S4 is the number in four octets whose first bit is its sign.
func (o Octets) S4(n int) int64 { return signed(o.U4(n), 32) }

func signed(v int64, bits int) int64 {
	if sign := int64(1) << (bits - 1); v&sign != 0 {
		return -(v &^ sign)
	}
	return v
}
