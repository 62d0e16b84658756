//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// directTolerance bounds the relative L2 error of sums of products of values that bfloat16 holds.
const directTolerance = 1e-6

// newDirect prepares a direct convolution, with the division d unless it is zero.
func newDirect(t *testing.T, p *Pool, s WinoSpec, d direct) *Wino {
	t.Helper()
	j, err := NewWino(p, s, WinoVariant{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.height > 0 {
		j.setDirect(d, d.words(s, halfSize, p.Threads()))
	}
	return j
}

// directSpecs are the convolutions that are tested. It skips the test where there is no AMX.
func directSpecs(t *testing.T) (all []WinoSpec) {
	t.Helper()
	if !HasAMX() {
		t.Skip("skipped: the processor has no AMX_BF16")
	}
	for _, s := range winoSpecs {
		s.FilterIn, s.FilterLo, s.BF16 = s.Parts[0]+s.Parts[1]+3, 2, true
		all = append(all, s)
	}
	return all
}

// oneAndThree are no pool, and one of three threads.
func oneAndThree(t *testing.T) []*Pool {
	t.Helper()
	p, err := NewPool(3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return []*Pool{nil, p}
}

// Direct convolutions and their adjoints agree with plain sums, and have the same bits for every division of the work.
func TestDirectAgreesWithPlainSums(t *testing.T) {
	pools := oneAndThree(t)
	for i, s := range directSpecs(t) {
		k := newWinoCase(uint64(i), s)
		x0, x1 := k.parts(t, true)
		f0, f1 := k.halos(t, true)
		back := k.adjoint()
		dy := k.field(t, k.dy, s.K, s.Size, true).stored()
		for _, y16 := range []bool{false, true} {
			for _, c := range []struct {
				pass   string
				s      WinoSpec
				want   []float64
				x0, x1 Stored
			}{{"forward", s, k.y, x0, x1}, {"data", back, k.dx, dy, Stored{}}} {
				t.Run(fmt.Sprintf("%v %s to bf16 %v", s, c.pass, y16), func(t *testing.T) {
					var first []float32
					for _, p := range pools {
						for _, d := range []direct{{}, {1, 3, 1}, {3, 70, 2}} {
							j := newDirect(t, p, c.s, d)
							if c.s.Halo != [4]int{} {
								j.SetHalos(f0, f1)
							}
							y := k.field(t, nil, c.s.K, c.s.Size, y16)
							j.Run(WinoValues{Y: y.stored(), X0: c.x0, X1: c.x1, Filter: floats(k.w), Scratch: garbage(j.ScratchLen())})
							bound := directTolerance
							if y16 {
								bound = winoTolerance16
							}
							if e := relative(k.logical(t, y), c.want); !(e <= bound) {
								t.Errorf("%+v: error %.2e", d, e)
							}
							if bits := y.plain(); first != nil && !slices.Equal(first, bits) {
								t.Errorf("%+v: other bits", d)
							} else {
								first = bits
							}
						}
					}
				})
			}
		}
	}
}

// Gradients of filters agree with plain sums, and have the same bits for any number of threads.
func TestDirectFilterAgreesWithPlainSums(t *testing.T) {
	pools := oneAndThree(t)
	for i, s := range directSpecs(t) {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			k := newWinoCase(uint64(i), s)
			x0, x1 := k.parts(t, true)
			f0, f1 := k.halos(t, true)
			dy := k.field(t, k.dy, s.K, s.Size, true).stored()
			for _, rows := range []int{0, 1, 3} { // of a band; 0 is as chosen
				var first []float32
				for _, p := range pools {
					j, err := NewWinoFilter(p, s, WinoVariant{Direct: true})
					if err != nil {
						t.Fatal(err)
					}
					if d := (direct{rows, s.Size[2], 1}); rows > 0 {
						j.setDirect(d, d.filterWords(s, p.Threads()))
					}
					if s.Halo != [4]int{} {
						j.SetHalos(f0, f1)
					}
					dw := make([]float32, len(k.w))
					j.RunFilter(dw, x0, x1, dy, garbage(j.ScratchLen()))
					got := make([]float64, len(dw))
					for i, v := range dw {
						got[i] = float64(v)
					}
					if e := relative(got, k.dw); !(e <= directTolerance) {
						t.Errorf("bands of %d: error %.2e", rows, e)
					}
					if first != nil && !slices.Equal(first, dw) {
						t.Errorf("bands of %d: other bits on several threads", rows)
					}
					first = dw
				}
			}
		})
	}
}

// garbage is scratch memory of NaN.
func garbage(n int) []float32 {
	return slices.Repeat([]float32{float32(math.NaN())}, n)
}
