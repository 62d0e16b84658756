//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"testing"
)

// modes are the ways a gradient is stored.
var modes = []GradMode{0, Accumulate, Gated, Accumulate | Gated}

// checkGrad compares a gradient, stored by mode over the old values and gated by x,
// with want; tol is the error before rounding.
func checkGrad(t *testing.T, what string, mode GradMode, dx, old, x *tensor, want []float64, tol float64) {
	t.Helper()
	for i, w := range want {
		if mode&Accumulate != 0 {
			w += float64(old.at(i))
		}
		if mode&Gated != 0 && !(x.at(i) > 0) {
			w = 0
		}
		rounded(t, what, i, dx.b16, dx.at(i), w, tol)
	}
}

func TestBlockedWindow(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, c := range []struct {
			b Blocked
			k [3]int
		}{
			{Blocked{2, 17, [3]int{2, 6, 8}}, [3]int{1, 2, 2}}, {Blocked{1, 40, [3]int{3, 7, 9}}, [3]int{1, 2, 2}},
			{Blocked{1, 15, [3]int{5, 6, 7}}, [3]int{2, 3, 2}}, {Blocked{1, 16, [3]int{2, 34, 36}}, [3]int{1, 2, 2}},
			{Blocked{2, 1, [3]int{2, 3, 5}}, [3]int{1, 1, 1}}, {Blocked{1, 3, [3]int{1, 3, 3}}, [3]int{2, 1, 1}},
		} {
			b, o := c.b, c.b.windows(c.k)
			v := random(1, b.Plain(), -1, 1)
			for i := range v { // many equal values
				v[i] = float32(math.Round(float64(v[i]) * 4))
			}
			v[7], v[len(v)/2] = float32(math.NaN()), float32(math.NaN())
			x := tensorOf(t, b, b16, v)
			y, mean := newTensor(t, o, b16), newTensor(t, o, b16)
			p.BlockedWindow(Maximum, y.stored(), x.stored(), b, c.k)
			p.BlockedWindow(Mean, mean.stored(), x.stored(), b, c.k)
			keep(fmt.Sprint("maximum ", c), y)
			keep(fmt.Sprint("mean ", c), mean)
			dy := tensorOf(t, o, b16, random(2, o.Plain(), 1, 2))
			wantMax, wantMean := make([]float64, b.Plain()), make([]float64, b.Plain())
			for i := range o.Plain() {
				w, h, d, pl := i%o.S[2], i/o.S[2]%o.S[1], i/o.S[2]/o.S[1]%o.S[0], i/o.Cells()
				best, sum := -1, 0.0
				share := 1 / float64(volume(c.k))
				for q := range volume(c.k) {
					at := ((pl*b.S[0]+d*c.k[0]+q/c.k[2]/c.k[1])*b.S[1]+h*c.k[1]+q/c.k[2]%c.k[1])*b.S[2] + w*c.k[2] + q%c.k[2]
					if best < 0 || x.at(at) > x.at(best) || x.at(at) != x.at(at) {
						best = at
					}
					sum += float64(x.at(at)) * share
					wantMean[at] = float64(dy.at(i)) * share
				}
				rounded(t, "maximum", i, b16, y.at(i), float64(x.at(best)), 0)
				rounded(t, "mean", i, b16, mean.at(i), sum, 3e-6)
				wantMax[best] = float64(dy.at(i))
			}
			for _, mode := range modes {
				old := tensorOf(t, b, b16, random(3, b.Plain(), -1, 1))
				for _, kind := range []WindowKind{Maximum, Mean} {
					dx := newTensor(t, b, b16)
					copy(dx.f, old.f)
					copy(dx.h, old.h)
					p.BlockedWindowGrad(kind, dx.stored(), dy.stored(), x.stored(), b, c.k, mode)
					keep(fmt.Sprint("gradient ", c, kind, mode), dx)
					want := [][]float64{wantMax, wantMean}[kind]
					checkGrad(t, fmt.Sprintf("gradient %+v kind %d mode %d", c, kind, mode), mode, dx, old, x, want, 2.5e-7)
				}
			}
		}
	})
}

func TestBlockedUpsample(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, c := range []struct {
			b    Blocked
			f    [3]int
			wrap bool
		}{
			{Blocked{2, 17, [3]int{2, 5, 7}}, [3]int{1, 2, 2}, false}, {Blocked{1, 40, [3]int{2, 5, 7}}, [3]int{1, 2, 2}, true},
			{Blocked{1, 15, [3]int{3, 4, 6}}, [3]int{2, 3, 5}, true}, {Blocked{1, 16, [3]int{3, 4, 6}}, [3]int{2, 2, 2}, false},
			{Blocked{2, 1, [3]int{2, 1, 1}}, [3]int{1, 2, 2}, true}, {Blocked{2, 1, [3]int{2, 2, 1}}, [3]int{1, 2, 2}, false},
			{Blocked{1, 3, [3]int{1, 1, 2}}, [3]int{3, 1, 2}, false}, {Blocked{1, 16, [3]int{2, 12, 48}}, [3]int{1, 2, 2}, true},
			{Blocked{1, 2, [3]int{1, 3, 9}}, [3]int{1, 1, 1}, false}, {Blocked{1, 2, [3]int{1, 2, 1}}, [3]int{1, 4, 3}, true},
		} {
			b, o := c.b, c.b.times(c.f)
			x := tensorOf(t, b, b16, random(1, b.Plain(), -1, 1))
			y := newTensor(t, o, b16)
			p.BlockedUpsample(y.stored(), x.stored(), b, c.f, c.wrap)
			what := fmt.Sprintf("upsample %+v", c)
			keep(what, y)
			dy := tensorOf(t, o, b16, random(2, o.Plain(), -1, 1))
			want := make([]float64, b.Plain()) // of the gradient: the transpose of the weights
			for i := range o.Plain() {
				at := [3]int{i / o.S[1] / o.S[2] % o.S[0], i / o.S[2] % o.S[1], i % o.S[2]}
				var idx [3][2]int
				var wt [3][2]float64
				for a := range 3 {
					s := (float64(at[a])+0.5)/float64(c.f[a]) - 0.5
					n, lo := b.S[a], int(math.Floor(s))
					wt[a] = [2]float64{1 - (s - float64(lo)), s - float64(lo)}
					for k, v := range []int{lo, lo + 1} {
						if c.wrap && a == 2 {
							idx[a][k] = (v + n) % n
						} else {
							idx[a][k] = min(max(v, 0), n-1)
						}
					}
				}
				var sum float64
				for k := range 8 {
					d, h, w := k>>2, k>>1&1, k&1
					q := ((i/o.Cells()*b.S[0]+idx[0][d])*b.S[1]+idx[1][h])*b.S[2] + idx[2][w]
					m := wt[0][d] * wt[1][h] * wt[2][w]
					sum += m * float64(x.at(q))
					want[q] += m * float64(dy.at(i))
				}
				rounded(t, what, i, b16, y.at(i), sum, 5e-7)
			}
			for _, mode := range modes {
				old := tensorOf(t, b, b16, random(3, b.Plain(), -1, 1))
				dx := newTensor(t, b, b16)
				copy(dx.f, old.f)
				copy(dx.h, old.h)
				p.BlockedUpsampleGrad(dx.stored(), dy.stored(), x.stored(), b, c.f, c.wrap, mode)
				keep(fmt.Sprint("gradient ", c, mode), dx)
				// Sums of 4·f values of order 1, each with a rounding.
				tol := 1e-7 * float64(4*volume(c.f))
				checkGrad(t, fmt.Sprintf("gradient %+v mode %d", c, mode), mode, dx, old, x, want, tol)
				if mode == 0 && !b16 {
					adjoint(t, "upsample", y.plain(), dy.plain(), x.plain(), dx.plain())
				}
			}
		}
	})
}
