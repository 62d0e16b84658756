package grib_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/io/grib"
)

// section returns a section of edition 2. Octets of numbers are set by position, counted
// from 1, with the width of each number in octets.
func section(number byte, length int, numbers ...[3]uint64) []byte {
	b := make([]byte, length)
	binary.BigEndian.PutUint32(b, uint32(length))
	b[4] = number
	for _, n := range numbers {
		octet, width, value := n[0], n[1], n[2]
		for k := range width {
			b[octet-1+width-1-k] = byte(value >> (8 * k))
		}
	}
	return b
}

// message returns a GRIB2 message: temperature of member 7 at 850 hPa, 24 h after 00 UTC
// on 1 January 2026, at the corners of an area of 10 by 10 degrees.
func message() []byte {
	m := append([]byte("GRIB\x00\x00\x00\x02"), make([]byte, 8)...)
	for _, s := range [][]byte{
		section(1, 21, [3]uint64{6, 2, 98}, [3]uint64{10, 1, 2}, [3]uint64{13, 2, 2026}, [3]uint64{15, 1, 1}, [3]uint64{16, 1, 1}),
		// Template 3.0: 2 x 2 points from 50 N, 0 E to 40 N, 10 E.
		section(3, 72, [3]uint64{7, 4, 4}, [3]uint64{15, 1, 6}, [3]uint64{31, 4, 2}, [3]uint64{35, 4, 2}, [3]uint64{47, 4, 50e6}, [3]uint64{56, 4, 40e6}, [3]uint64{60, 4, 10e6}),
		// Template 4.1: temperature, 24 h, 85000 Pa, member 7 of 51.
		section(4, 37, [3]uint64{8, 2, 1}, [3]uint64{18, 1, 1}, [3]uint64{19, 4, 24}, [3]uint64{23, 1, 100}, [3]uint64{25, 4, 85000}, [3]uint64{29, 1, 255}, [3]uint64{36, 1, 7}, [3]uint64{37, 1, 51}),
		// Template 5.0: reference value 270, 8 bits.
		section(5, 21, [3]uint64{6, 4, 4}, [3]uint64{12, 4, uint64(math.Float32bits(270))}, [3]uint64{20, 1, 8}),
		section(6, 6, [3]uint64{6, 1, 255}),
		section(7, 9, [3]uint64{7, 1, 5}, [3]uint64{8, 1, 10}, [3]uint64{9, 1, 15}),
	} {
		m = append(m, s...)
	}
	m = append(m, "7777"...)
	binary.BigEndian.PutUint64(m[8:], uint64(len(m)))
	return m
}

// Reads the headers of a file with two messages.
func ExampleReadIndex() {
	file := append(message(), message()...)
	var grids grib.GridCache
	idx, err := grib.ReadIndex(context.Background(), bytes.NewReader(file), int64(len(file)), &grids)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range idx.Fields {
		fmt.Println(grib.CentreName(f.Centre), f.Parameter, f.Level, f.Time.Init.Format("2006-01-02 15h"), f.Time.Lead, "member", f.Member.ID, "of", f.Member.EnsembleSize)
	}
	fmt.Println(grids.Get(idx.Fields[0].Grid).Grid)
	// Output:
	// ecmf param0.0.0 850hPa 2026-01-01 00h 24h0m0s member 7 of 51
	// ecmf param0.0.0 850hPa 2026-01-01 00h 24h0m0s member 7 of 51
	// regular_ll 2x2, 50 to 40 N, 0 to 10 E
}

// Finds damage and continues with the next message.
func ExampleScan() {
	first := message()
	first[len(first)-1] = 'x' // the end marker
	file := append(first, message()...)
	found, err := grib.Scan(context.Background(), bytes.NewReader(file), int64(len(file)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(found.Messages), "valid message at byte", found.Messages[0].Offset)
	fmt.Println(found.Faults[0])
	// Output:
	// 1 valid message at byte 186
	// message 1, byte 0: end marker missing: "777x" instead of 7777
}

// Computes the values of a message in memory.
func ExampleParseSimplePacking() {
	p, ok, err := grib.ParseSimplePacking(message(), 4)
	if err != nil || !ok {
		fmt.Println(ok, err)
		return
	}
	fmt.Println(p.Count, "values of", p.Bits, "bits")
	for _, x := range p.Data {
		fmt.Println(p.Value(uint64(x)), "K")
	}
	// Output:
	// 4 values of 8 bits
	// 270 K
	// 275 K
	// 280 K
	// 285 K
}

// Finds the sections of a message in memory; section 2 is optional and absent.
func ExampleParseSections() {
	s, err := grib.ParseSections(message())
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := 1; n < len(s); n++ {
		fmt.Println("section", n, "at byte", s[n].Offset, "of", s[n].Length, "bytes")
	}
	// Output:
	// section 1 at byte 16 of 21 bytes
	// section 2 at byte 0 of 0 bytes
	// section 3 at byte 37 of 72 bytes
	// section 4 at byte 109 of 37 bytes
	// section 5 at byte 146 of 21 bytes
	// section 6 at byte 167 of 6 bytes
	// section 7 at byte 173 of 9 bytes
}

// Reads the grid of a message from section 3 of edition 2.
func ExampleParseGrid() {
	m := message()
	s, err := grib.ParseSections(m)
	if err != nil {
		fmt.Println(err)
		return
	}
	grid, fault := grib.ParseGrid(2, m[s[3].Offset:s[3].Offset+s[3].Length], int64(len(m)))
	if fault != nil {
		fmt.Println(fault)
		return
	}
	fmt.Println(grid.Grid)
	// Output: regular_ll 2x2, 50 to 40 N, 0 to 10 E
}
