//go:build cgo && linux

package kern

import (
	"math"
	"testing"
)

// Sums run in double: the order of the reference differs by 1e-13 at most; a result
// stored as float32 by half a unit of its last place.
func TestSums(t *testing.T) {
	bits := map[string]float64{}
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, n := range lengths {
			a, b := random(1, n, -1, 3), random(2, n, 0.5, 1)
			var s, d, m float64
			for i := range a {
				s += float64(a[i])
				d += float64(a[i]) * float64(b[i])
				m += math.Abs(float64(a[i]))
			}
			for what, c := range map[string][2]float64{"sum": {p.Sum(a), s}, "dot": {p.Dot(a, b), d}, "abs": {p.SumAbs(a), m}} {
				if math.Abs(c[0]-c[1]) > 1e-12*float64(n) {
					t.Fatalf("%s of %d: got %.17g, want %.17g", what, n, c[0], c[1])
				}
			}
			// The same bits for every number of threads.
			key := ISA() + string(rune(n))
			if was, ok := bits[key]; ok && was != p.Dot(a, b) {
				t.Errorf("dot of %d: %g with %d threads, %g before", n, p.Dot(a, b), p.Threads(), was)
			}
			bits[key] = p.Dot(a, b)
		}
		if got := p.Sum(nil); got != 0 {
			t.Errorf("sum of nothing: got %g, want 0", got)
		}
	})
}

func TestSumsByAxis(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, d := range []Dims{{5, 6, 7}, {3, 1, 2000}, {2, 40, 513}, {1, 3, 9001}, {700, 3, 1}, {4, 900, 1}} {
			x, z := random(1, d.Len(), -1, 3), random(2, d.Len(), 0.5, 1)
			mid, midz, q := make([]float64, d.Mid), make([]float64, d.Mid), make([]float64, d.Mid)
			rest := make([]float64, d.Outer*d.Inner)
			for i, v := range x {
				m := i / d.Inner % d.Mid
				mid[m] += float64(v)
				midz[m] += float64(v) * float64(z[i])
				rest[i/d.Inner/d.Mid*d.Inner+i%d.Inner] += float64(v)
			}
			n := float64(d.Outer * d.Inner)
			for i, v := range x {
				m := i / d.Inner % d.Mid
				q[m] += (float64(v) - mid[m]/n) * (float64(v) - mid[m]/n)
			}
			check := func(what string, got []float32, want func(i int) float64) {
				t.Helper()
				for i := range got {
					if w := want(i); math.Abs(float64(got[i])-w) > 1e-6*(1+math.Abs(w)) {
						t.Fatalf("%s %v [%d]: got %g, want %g", what, d, i, got[i], w)
					}
				}
			}
			y, ok := guarded(t, d.Mid)
			p.SumMid(y, x, nil, d)
			ok()
			check("sum_mid", y, func(i int) float64 { return mid[i] })
			p.SumMid(y, x, z, d)
			ok()
			check("sum_mid of products", y, func(i int) float64 { return midz[i] })
			v, ok2 := guarded(t, d.Mid)
			p.MomentsMid(y, v, x, d)
			ok()
			ok2()
			check("mean", y, func(i int) float64 { return mid[i] / n })
			check("variance", v, func(i int) float64 { return q[i] / n })
			r, ok := guarded(t, d.Outer*d.Inner)
			p.SumAxis(r, x, 0.5, d)
			ok()
			check("sum_axis", r, func(i int) float64 { return rest[i] / 2 })
		}
	})
}

// A variance next to a large mean keeps its digits.
func TestMomentsLargeMean(t *testing.T) {
	x := random(1, 5000, 100000, 100001)
	mean, variance := make([]float32, 1), make([]float32, 1)
	var p *Pool
	p.MomentsMid(mean, variance, x, Dims{1, 1, len(x)})
	var s, q float64
	for _, v := range x {
		s += float64(v) / float64(len(x))
	}
	for _, v := range x {
		q += (float64(v) - s) * (float64(v) - s) / float64(len(x))
	}
	near(t, "variance", 0, variance[0], q, 1e-6)
}
