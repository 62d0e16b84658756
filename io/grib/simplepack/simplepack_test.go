package simplepack

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/io/grib"
)

// packedBits packs numbers of a width in bits, most significant bit first.
func packedBits(x []uint64, bits int) []byte {
	data := make([]byte, (len(x)*bits+7)/8)
	for i, v := range x {
		for b := range bits {
			if v>>(bits-1-b)&1 == 1 {
				at := i*bits + b
				data[at/8] |= 0x80 >> (at % 8)
			}
		}
	}
	return data
}

// Every width gives exactly the values of the formula, up to the last byte of the
// data.
func TestSimple(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for bits := 1; bits <= 32; bits++ {
		for _, n := range []int{1, 2, 7, 8, 9, 63, 64, 65, 1000} {
			x := make([]uint64, n)
			for i := range x {
				x[i] = rng.Uint64() >> (64 - bits)
			}
			x[0], x[n-1] = 1<<bits-1, 1<<bits-1
			p := grib.SimplePacking{Data: packedBits(x, bits), Count: n, Bits: bits, Reference: float64(float32(rng.NormFloat64() * 100)), BinaryScale: rng.IntN(20) - 15, DecimalScale: rng.IntN(7) - 3}
			out := make([]float32, n)
			if err := Unpack(out, &p, AllValues(&p)); err != nil {
				t.Fatal(err)
			}
			for i, v := range out {
				if want := float32(p.Value(x[i])); math.Float32bits(v) != math.Float32bits(want) {
					t.Fatalf("%d bits, value %d of %d: %v, want %v", bits, i, n, v, want)
				}
			}
		}
	}
}

// A rectangle is written exactly to its destination, with the bits of the reference
// kernel, in both row orders.
func TestRect(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	const ny, nx = 5, 24
	x := make([]uint64, ny*nx)
	for bits := 1; bits <= 32; bits++ {
		for i := range x {
			x[i] = rng.Uint64() >> (64 - bits)
		}
		p := grib.SimplePacking{Data: packedBits(x, bits), Count: ny * nx, Bits: bits, Reference: 3, BinaryScale: -2}
		for _, r := range []Rect{
			{Rows: 3, Columns: 7, First: nx + 8, Stride: nx, To: 2, Step: 9},
			{Rows: ny, Columns: 16, First: 8, Stride: nx, To: 4 * 16, Step: -16},
		} {
			got, want := make([]float32, ny*nx), make([]float32, ny*nx)
			if err := Unpack(got, &p, r); err != nil {
				t.Fatal(err)
			}
			unpackReference(want, &p, r)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%d bits, %+v, place %d: %v, want %v", bits, r, i, got[i], want[i])
				}
			}
		}
	}
}

func TestUnpackRefuses(t *testing.T) {
	p := grib.SimplePacking{Data: make([]byte, 30), Count: 20, Bits: 12}
	short := p
	short.Data = p.Data[:29]
	coded := p
	coded.CCSDS = &grib.CCSDS{}
	for _, c := range []struct {
		name string
		p    grib.SimplePacking
		r    Rect
	}{
		{"data too short", short, Rect{Rows: 1, Columns: 20}},
		{"coded numbers", coded, Rect{Rows: 1, Columns: 20}},
		{"a row too many", p, Rect{Rows: 3, Columns: 10, Stride: 10, Step: 10}},
		{"negative first", p, Rect{Rows: 1, Columns: 2, First: -2}},
		{"half a byte", p, Rect{Rows: 1, Columns: 2, First: 1}},
		{"rows at half a byte", p, Rect{Rows: 2, Columns: 2, Stride: 3, Step: 2}},
		{"before the values", p, Rect{Rows: 2, Columns: 2, Stride: 2, To: 1, Step: -2}},
		{"behind the values", p, Rect{Rows: 2, Columns: 2, Stride: 2, To: 17, Step: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if Unpack(make([]float32, 20), &c.p, c.r) == nil {
				t.Error("no error")
			}
		})
	}
}

func BenchmarkSimple(b *testing.B) {
	const n = 361 * 720
	for _, bits := range []int{16, 12, 24} {
		p := grib.SimplePacking{Data: make([]byte, n*bits/8+1), Count: n, Bits: bits, Reference: 200, BinaryScale: -9}
		out := make([]float32, n)
		b.Run(fmt.Sprintf("%d bits", bits), func(b *testing.B) {
			for b.Loop() {
				if err := Unpack(out, &p, AllValues(&p)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpoint/s")
		})
	}
}
