package demo

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"
)

// TestFourier64 compares with gonum's transform of radix 4: on amd64, where no compiler joins products
// and sums, to the last bit.
func TestFourier64(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var x [nlon]complex128
		for i := range x {
			x[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		for name, c := range map[string]struct {
			order *[nlon]uint8
			want  func([]complex128) []complex128
		}{"to waves": {&forwardOrder, fourier.CoefficientsRadix4}, "from waves": {&inverseOrder, fourier.SequenceRadix4}} {
			got, want := x, x
			fourier64(&got, c.order)
			c.want(want[:])
			for i := range got {
				d := got[i] - want[i]
				if runtime.GOARCH == "amd64" && d != 0 || real(d)*real(d)+imag(d)*imag(d) > 1e-26 {
					t.Fatalf("%s: value %d is %g, want %g", name, i, got[i], want[i])
				}
			}
		}
	}
}

func BenchmarkFourier64(b *testing.B) {
	var x [nlon]complex128
	for b.Loop() {
		fourier64(&x, &forwardOrder)
	}
}
