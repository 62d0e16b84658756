//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// directInt8Specs are the convolutions that are tested. It skips the test where there is no AMX.
func directInt8Specs(t *testing.T) []WinoSpec {
	t.Helper()
	if !HasAMXInt8() {
		t.Skip("skipped: the processor has no AMX_INT8")
	}
	return append(int8Specs[:len(int8Specs):len(int8Specs)],
		WinoSpec{N: 1, Parts: [2]int{70, 0}, K: 80, Size: [3]int{2, 11, 75}, KD: 3, Side: 3, Wrap: true},
		WinoSpec{N: 2, Parts: [2]int{16, 0}, K: 16, Size: [3]int{1, 5, 140}, KD: 1, Side: 3, ReLU: true})
}

// runDirect runs the direct variant, with the division d unless it is zero.
func (k *int8Case) runDirect(t *testing.T, p *Pool, d direct) []float64 {
	t.Helper()
	s := k.spec
	j, err := NewWinoInt8(p, s, WinoVariant{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if d.height > 0 {
		j.setDirect(d)
	}
	return k.with(j, garbage(j.ScratchLen()))
}

var divisions = []direct{{}, {1, 3, 1}, {3, 70, 2}}

// Direct convolutions of codes agree with the reference for every division of the work: float32 to its rounding, codes but for ties.
func TestDirectInt8AgreesWithTheReference(t *testing.T) {
	specs, pools := directInt8Specs(t), oneAndThree(t)
	for i, s := range specs {
		for _, out := range []bool{false, true} {
			out = out && s.ReLU
			t.Run(fmt.Sprintf("%v, codes %v", s, out), func(t *testing.T) {
				k := newInt8Case(uint64(i), s, [2]int{128 * (i % 2), 128}, out)
				k.attrs.Direct = true
				want := k.want()
				most := slices.Max(want)
				var first []float64
				for _, p := range pools {
					for _, d := range divisions {
						got := k.runDirect(t, p, d)
						if first == nil {
							first = got
						}
						if !slices.Equal(got, first) {
							t.Errorf("%+v: other bits", d)
						}
					}
				}
				other := 0
				for i, v := range first {
					e := math.Abs(v - want[i])
					if out && e > 1 || !out && e > 1e-2*most {
						t.Fatalf("value %d is %v, want %v", i, v, want[i])
					}
					if out && e > 0 || !out && e > 2e-6*most {
						other++ // a filter or a result beside a tie
					}
				}
				if other > 1+len(first)/200 {
					t.Errorf("%d of %d values differ", other, len(first))
				}
			})
		}
	}
}

// Where filters are whole numbers up to 127 and scales are powers of 2, nothing is rounded: results have the bits of the reference.
// Codes are at the ends of their range.
func TestDirectInt8IsExact(t *testing.T) {
	for i, s := range directInt8Specs(t) {
		k := newInt8Case(uint64(i), s, [2]int{128 * (i % 2), 128}, false)
		k.attrs.Direct = true
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		for c := range k.spec.InScales {
			k.spec.InScales[c] = 0x1p-4
		}
		each := len(k.w) / s.K
		for f := range k.w {
			if k.w[f] = float32(rng.IntN(255) - 127); f%each == 0 {
				k.w[f] = 127
			}
		}
		for o := range k.bias {
			k.bias[o] = float32(o)
		}
		for _, x := range k.x {
			for c := range x {
				x[c] = 255 * float64(rng.IntN(2))
			}
		}
		if got, want := k.runDirect(t, nil, direct{}), k.want(); !slices.Equal(got, want) {
			t.Errorf("%+v: other bits than the reference", s)
		}
	}
}

// Codes of a plain field are those of the blocked one.
func TestQuantisePlain(t *testing.T) {
	pools := oneAndThree(t)
	everyISA(t, func(t *testing.T) {
		for _, b := range []Blocked{{2, 37, [3]int{2, 7, 81}}, {1, 16, [3]int{1, 1, 5}}, {1, 3, [3]int{1, 1, 16}}} {
			for _, zero := range []int{0, 128} {
				x, scales := random(1, b.Plain(), -1, 1), random(2, b.C, 0.001, 0.01)
				blocked := make([]float32, b.Len())
				pools[0].Block(Float32(blocked), b, x, 0, b.C)
				want, got := make([]uint8, b.Len()), make([]uint8, b.Len())
				pools[0].Quantise(want, Float32(blocked), scales, zero, b)
				pools[1].QuantisePlain(got, x, scales, zero, b)
				if !slices.Equal(got, want) {
					t.Errorf("%+v, zero point %d: other codes than of the blocked field", b, zero)
				}
			}
		}
	})
}

// Sums that an int32 does not hold are refused.
func TestDirectInt8RefusesLongSums(t *testing.T) {
	s := directInt8Specs(t)[0]
	for channels, ok := range map[int]bool{2455: true, 2456: false} {
		s.Parts[0] = channels
		if SupportsDirectInt8(s) != ok {
			t.Errorf("%d channels: supported %v", channels, !ok)
		}
	}
	s.Parts[0] = 2456
	if _, err := NewWinoInt8(nil, WinoInt8Spec{WinoSpec: s}, WinoVariant{Direct: true}); err == nil {
		t.Error("a convolution whose sums overflow is prepared")
	}
}
