// Package testnetcdf writes small NetCDF files for tests, as other programs leave them: with any names, and with or
// without units and coordinates.
package testnetcdf

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// Variable is a variable of doubles. Its dimensions are named "x:3", with their lengths.
type Variable struct {
	Name       string
	Dimensions []string
	Attributes map[string]string
	Values     []float64
}

// Tags and types of the classic format.
const (
	tagDimension, tagVariable, tagAttribute = 10, 11, 12
	typeChar, typeDouble                    = 2, 6
)

// Write writes a file of the classic format (CDF-1).
//
// Source: NetCDF classic format specification, "The Classic Format".
func Write(t testing.TB, path string, variables ...Variable) {
	t.Helper()
	var dimensions []string
	for _, v := range variables {
		for _, d := range v.Dimensions {
			if !slices.Contains(dimensions, d) {
				dimensions = append(dimensions, d)
			}
		}
	}
	head := func(offsets []uint32) []byte {
		var b bytes.Buffer
		number := func(n int) { _ = binary.Write(&b, binary.BigEndian, uint32(n)) } // a buffer takes everything
		text := func(s string) {
			number(len(s))
			b.WriteString(s + strings.Repeat("\x00", (4-len(s)%4)%4))
		}
		b.WriteString("CDF\x01")
		number(0) // records
		number(tagDimension)
		number(len(dimensions))
		for _, d := range dimensions {
			name, length := split(t, d)
			text(name)
			number(length)
		}
		number(0) // no global attributes
		number(0)
		number(tagVariable)
		number(len(variables))
		for i, v := range variables {
			text(v.Name)
			number(len(v.Dimensions))
			for _, d := range v.Dimensions {
				number(slices.Index(dimensions, d))
			}
			number(tagAttribute)
			number(len(v.Attributes))
			for _, name := range sortedKeys(v.Attributes) {
				text(name)
				number(typeChar)
				text(v.Attributes[name])
			}
			number(typeDouble)
			number(8 * len(v.Values))
			number(int(offsets[i]))
		}
		return b.Bytes()
	}
	offsets := make([]uint32, len(variables))
	at := uint32(len(head(offsets)))
	for i, v := range variables {
		n := 1
		for _, d := range v.Dimensions {
			_, length := split(t, d)
			n *= length
		}
		if n != len(v.Values) {
			t.Fatalf("%s has %d values, want %d", v.Name, len(v.Values), n)
		}
		offsets[i] = at
		at += uint32(8 * n)
	}
	out := head(offsets)
	for _, v := range variables {
		for _, x := range v.Values {
			out = binary.BigEndian.AppendUint64(out, math.Float64bits(x))
		}
	}
	if err := os.WriteFile(path, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// split returns name and length of a dimension.
func split(t testing.TB, d string) (name string, length int) {
	t.Helper()
	name, digits, _ := strings.Cut(d, ":")
	for _, c := range digits {
		length = 10*length + int(c-'0')
	}
	if length == 0 {
		t.Fatalf("dimension %q has no length", d)
	}
	return name, length
}

// sortedKeys lists the keys of a map, ascending.
func sortedKeys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Range returns n numbers from first with a step.
func Range(first, step float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = first + step*float64(i)
	}
	return out
}

// Coordinates are a regular grid of ny by nx points and initialisations every 24 h from 2024-01-01 with one lead.
func Coordinates(inits, ny, nx int, leadHours float64) []Variable {
	return []Variable{
		{"lat", []string{dimension("lat", ny)}, map[string]string{"units": "degrees_north"}, Range(60, -1, ny)},
		{"lon", []string{dimension("lon", nx)}, map[string]string{"units": "degrees_east"}, Range(0, 1, nx)},
		{"init", []string{dimension("init", inits)}, map[string]string{"units": "hours since 2024-01-01", "standard_name": "forecast_reference_time"}, Range(0, 24, inits)},
		{"lead", nil, map[string]string{"units": "hours", "standard_name": "forecast_period"}, []float64{leadHours}},
	}
}

// dimension names a dimension with its length.
func dimension(name string, n int) string {
	digits := ""
	for ; n > 0; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	return name + ":" + digits
}
