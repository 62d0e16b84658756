// Package testgrib makes GRIB2 messages for tests: small fields of 32-bit floats
// with any member, step, scanning mode and bitmap. It writes octets directly from
// the tables of WMO FM 92 GRIB edition 2, independent of the encoder under test.
package testgrib

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"time"
)

// The grid of the messages: rows from 70 N to 70 S, columns from 0 E.
const (
	Rows, Columns = 8, 16

	latStep = 20_000_000 // microdegrees
	lonStep = 22_500_000
)

// Variables of the messages: parameter category and number of discipline 0 (code
// tables 4.1 and 4.2).
var (
	Temperature = [2]byte{0, 0}
	Height      = [2]byte{3, 5}  // geopotential height
	Rain        = [2]byte{1, 52} // accumulated since the initialisation
)

// Message is one field.
//
// Shape: Values [Rows*Columns] from 70 N and 0 E, row by row.
type Message struct {
	Variable [2]byte
	HPa      int  // pressure level; 0 is the surface
	Member   int  // of 4; 0 is the control
	Centre   byte // code table C-11; 0 means 98
	Single   bool // deterministic forecast, product definition template 4.0
	Percent  byte // percentile (template 4.6) instead of a member; 0 for none
	Init     time.Time
	Step     int
	Unit     byte // of Step, code table 4.4; 1 is the hour
	Process  byte // number of the forecast model
	Shift    int  // southward shift of the grid in degrees
	Lon0     int  // first column in the file
	Beyond   bool // the last longitude may exceed 360 E
	Scan     byte // scanning mode, flag table 3.4
	// a constant field of the first value, with 0 bits per value (template 5.0)
	Packed bool
	Values []float32
	Bitmap []byte // section 6; nil for none
}

// be32 returns v in four octets.
func be32(v int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

// signed returns v in sign-and-magnitude form, regulation 92.1.5 of GRIB2.
func signed(v int) []byte {
	if v < 0 {
		return be32(-v | 1<<31)
	}
	return be32(v)
}

// section returns a section with its length and number.
func section(number byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(append(be32(5+len(body)), number), body...)
}

// stored returns the values in the order of the scanning mode.
func (m Message) stored() []float32 {
	out := make([]float32, 0, Rows*Columns)
	at := func(j, i int) float32 {
		if m.Scan&0x40 != 0 {
			j = Rows - 1 - j
		}
		if m.Scan&0x80 != 0 {
			i = Columns - 1 - i
		}
		return m.Values[j*Columns+(i+m.Lon0)%Columns]
	}
	// turn returns index k of row n; in boustrophedonic scanning every other row is
	// reversed.
	turn := func(n, k, length int) int {
		if m.Scan&0x10 != 0 && n%2 == 1 {
			return length - 1 - k
		}
		return k
	}
	if m.Scan&0x20 != 0 {
		for i := range Columns {
			for j := range Rows {
				out = append(out, at(turn(i, j, Rows), i))
			}
		}
		return out
	}
	for j := range Rows {
		for i := range Columns {
			out = append(out, at(j, turn(j, i, Columns)))
		}
	}
	return out
}

// Sections returns sections 1 and 3 to 7.
func (m Message) Sections() [][]byte {
	i := m.Init
	kind, ensembleKind := byte(4), byte(3)
	if m.Member == 0 {
		kind, ensembleKind = 3, 1
	}
	north, south := 70_000_000-m.Shift*1_000_000, -70_000_000-m.Shift*1_000_000
	west := m.Lon0 * lonStep
	east := west + (Columns-1)*lonStep
	if !m.Beyond {
		east %= 360_000_000
	}
	if m.Scan&0x40 != 0 {
		north, south = south, north
	}
	if m.Scan&0x80 != 0 {
		west, east = east, west
	}
	surface, level := byte(100), be32(m.HPa*100)
	if m.HPa == 0 {
		surface, level = 1, be32(0)
	}
	template := []byte{0, 1}
	product := [][]byte{m.Variable[:], {4, 0, m.Process, 0, 0, 0, m.Unit}, signed(m.Step), {surface, 0}, level, {255, 255, 255, 255, 255, 255}, {ensembleKind, byte(m.Member), 4}}
	switch {
	case m.Single:
		template, product = []byte{0, 0}, product[:len(product)-1]
	case m.Percent > 0:
		template, product[len(product)-1] = []byte{0, 6}, []byte{m.Percent}
	}
	if m.Variable == Rain { // accumulation: product definition template 4.11
		template = []byte{0, 11}
		end := i.Add(time.Duration(m.Step) * time.Hour)
		product[2] = be32(0)
		product = append(product, []byte{byte(end.Year() >> 8), byte(end.Year()), byte(end.Month()), byte(end.Day()), byte(end.Hour()), 0, 0, 1, 0, 0, 0, 0, 1, 2, 1},
			be32(m.Step), []byte{255}, be32(0))
	}
	data := m.stored()
	bits := section(6, []byte{255})
	if m.Bitmap != nil {
		bits = section(6, []byte{0}, m.Bitmap)
		kept := data[:0:0]
		for n, v := range data {
			if m.Bitmap[n/8]>>(7-n%8)&1 == 1 {
				kept = append(kept, v)
			}
		}
		data = kept
	}
	representation := section(5, be32(len(data)), []byte{0, 4, 1})
	var raw bytes.Buffer
	for _, v := range data {
		raw.Write(binary.BigEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	if m.Packed {
		representation = section(5, be32(len(data)), []byte{0, 0}, be32(int(math.Float32bits(m.Values[0]))), []byte{0, 0, 0, 0, 0, 0})
		raw.Reset()
	}
	return [][]byte{
		section(1, []byte{0, cmp.Or(m.Centre, 98), 0, 0, 18, 0, 1, byte(i.Year() >> 8), byte(i.Year()), byte(i.Month()), byte(i.Day()), byte(i.Hour()), byte(i.Minute()), byte(i.Second()), 0, kind}),
		section(3, []byte{0}, be32(Rows*Columns), []byte{0, 0, 0, 0, 6}, bytes.Repeat([]byte{0}, 15), be32(Columns), be32(Rows), be32(0), be32(-1), signed(north), be32(west),
			[]byte{48}, signed(south), be32(east), be32(lonStep), be32(latStep), []byte{m.Scan}),
		section(4, append([][]byte{{0, 0}, template}, product...)...),
		representation, bits, section(7, raw.Bytes()),
	}
}

// Bytes returns the whole message.
func (m Message) Bytes() []byte {
	body := bytes.Join(m.Sections(), nil)
	head := append([]byte("GRIB\x00\x00\x00\x02"), binary.BigEndian.AppendUint64(nil, uint64(16+len(body)+4))...)
	return append(append(head, body...), "7777"...)
}
