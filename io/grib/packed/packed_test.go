package packed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/io/grib"
)

// packedBits writes numbers of some bits, the highest first.
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

// Every width gives the values of the formula, to the bit, up to the last byte of the data.
func TestSimple(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for bits := 1; bits <= 32; bits++ {
		for _, n := range []int{1, 2, 7, 8, 9, 63, 64, 65, 1000} {
			x := make([]uint64, n)
			for i := range x {
				x[i] = rng.Uint64() >> (64 - bits)
			}
			x[0], x[n-1] = 1<<bits-1, 1<<bits-1
			p := grib.Simple{Data: packedBits(x, bits), Values: n, Bits: bits, Reference: float64(float32(rng.NormFloat64() * 100)), Binary: rng.IntN(20) - 15, Decimal: rng.IntN(7) - 3}
			out := make([]float32, n)
			if err := Unpack(out, &p); err != nil {
				t.Fatal(err)
			}
			for i, v := range out {
				if want := float32(p.Value(x[i])); math.Float32bits(v) != math.Float32bits(want) {
					t.Fatalf("%d bits, value %d of %d: %v, want %v", bits, i, n, v, want)
				}
			}
		}
	}
	if Unpack(make([]float32, 9), &grib.Simple{Data: make([]byte, 17), Values: 9, Bits: 16}) == nil {
		t.Error("data that are too short are read")
	}
}

func BenchmarkSimple(b *testing.B) {
	const n = 361 * 720
	for _, bits := range []int{16, 12, 24} {
		p := grib.Simple{Data: make([]byte, n*bits/8+1), Values: n, Bits: bits, Reference: 200, Binary: -9}
		out := make([]float32, n)
		b.Run(fmt.Sprintf("%d bits", bits), func(b *testing.B) {
			for b.Loop() {
				if err := Unpack(out, &p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpoint/s")
		})
	}
}
