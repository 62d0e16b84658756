//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestPoint: against sums in float64, with every operand that may be left out, in parts of
// whole and of other numbers of channels.
func TestPoint(t *testing.T) {
	seen := map[string][]float32{} // gradients of filters
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, s := range []Point{
			{1, 1, [2]int{1, 0}, 1}, {2, 13, [2]int{5, 0}, 17}, {1, 130, [2]int{16, 16}, 32}, {2, 300, [2]int{17, 3}, 40},
			{1, 71, [2]int{40, 33}, 50}, {3, 29, [2]int{1, 31}, 7},
		} {
			x0, x1 := s.field(s.Parts[0]), s.field(s.Parts[1])
			y := s.field(s.K)
			t0, t1 := tensorOf(t, x0, b16, random(1, x0.Plain(), -1, 1)), tensorOf(t, x1, b16, random(2, x1.Plain(), -1, 1))
			px0, px1 := t0.plain(), t1.plain()
			w, bias := random(3, s.K*s.Source(), -1, 1), random(4, s.K, -1, 1)
			tplus, tgate := tensorOf(t, y, b16, random(5, y.Plain(), -1, 1)), tensorOf(t, y, b16, random(6, y.Plain(), -1, 1))
			pplus, pgate := tplus.plain(), tgate.plain()
			source := func(n, c, i int) float64 {
				if c < s.Parts[0] {
					return float64(px0[(n*s.Parts[0]+c)*s.Cells+i])
				}
				return float64(px1[(n*s.Parts[1]+c-s.Parts[0])*s.Cells+i])
			}
			for mode := range 16 {
				flip := mode&8 > 0
				a := PointArgs{X0: t0.stored(), X1: t1.stored(), W: w, WK: s.Source(), WC: 1, ReLU: mode == 7 || mode == 15}
				if flip {
					a.WK, a.WC = 1, s.K
				}
				if mode&1 > 0 {
					a.Bias = bias
				}
				if mode&2 > 0 {
					a.Plus = tplus.stored()
				}
				if mode&4 > 0 {
					a.Gate = tgate.stored()
				}
				ty := newTensor(t, y, b16)
				scratch, ok := guarded(t, s.ScratchLen())
				p.PointConv(ty.stored(), a, scratch, s)
				ok()
				what := fmt.Sprintf("%+v, mode %d", s, mode)
				keep(what, ty)
				for i := range y.Plain() {
					n, k, at := i/s.Cells/s.K, i/s.Cells%s.K, i%s.Cells
					want := 0.0
					for c := range s.Source() {
						want += float64(w[k*a.WK+c*a.WC]) * source(n, c, at)
					}
					if a.Bias != nil {
						want += float64(bias[k])
					}
					if !a.Plus.none() {
						want += float64(pplus[i])
					}
					if a.ReLU && want < 0 || !a.Gate.none() && !(pgate[i] > 0) {
						want = 0
					}
					// each of Source+2 terms up to 1 rounds the sum
					rounded(t, what, i, b16, ty.at(i), want, 0x1p-24*float64(s.Source()+2)*(2+math.Abs(want)))
				}
				if !a.Plus.none() {
					over := tensorOf(t, y, b16, pplus)
					a.Plus = over.stored()
					p.PointConv(a.Plus, a, scratch, s)
					if !slices.Equal(over.plain(), ty.plain()) {
						t.Errorf("%s: other bits over the value to add", what)
					}
				}
			}
			dw, ok := guarded(t, s.K*s.Source())
			p.PointFilter(dw, t0.stored(), t1.stored(), tplus.stored(), s)
			ok()
			for i, got := range dw {
				k, c := i/s.Source(), i%s.Source()
				want := 0.0
				for n := range s.N {
					for at := range s.Cells {
						want += source(n, c, at) * float64(pplus[(n*s.K+k)*s.Cells+at])
					}
				}
				if math.Abs(float64(got)-want) > 0x1p-24*(16*math.Sqrt(float64(s.N*s.Cells))+math.Abs(want)) {
					t.Fatalf("filter of %+v [%d]: got %g, want %g", s, i, got, want)
				}
			}
			key := fmt.Sprint(ISA(), b16, "filter", s)
			if was, ok := seen[key]; ok && !slices.Equal(was, dw) {
				t.Errorf("filter of %+v: other bits with %d threads", s, p.Threads())
			}
			seen[key] = slices.Clone(dw)
		}
	})
}

func BenchmarkPoint(b *testing.B) {
	p, err := NewPool(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	s := Point{1, 4096, [2]int{120, 40}, 56}
	field := func(c int) Stored { return Float32(make([]float32, s.field(c).Len())) }
	x0, x1, y := field(120), field(40), field(56)
	w, scratch := make([]float32, 56*160), make([]float32, s.ScratchLen())
	for name, run := range map[string]func(){
		"result": func() { p.PointConv(y, PointArgs{X0: x0, X1: x1, W: w, WK: 160, WC: 1}, scratch, s) },
		"filter": func() { p.PointFilter(w, x0, x1, y, s) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				run()
			}
			b.ReportMetric(2*4096*160*56/1e9*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
		})
	}
}
