//go:build cgo && linux

package kern

import (
	"math"
	"testing"
)

func TestSoftmax(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, d := range []Dims{{1, 1, 5}, {3, 4, 1}, {2, 10, 300}, {5, 51, 17}} {
			x, dy := random(1, d.Len(), -40, 60), random(2, d.Len(), -1, 1)
			y, ok := guarded(t, d.Len())
			p.Softmax(y, x, d)
			ok()
			dx, ok := guarded(t, d.Len())
			p.SoftmaxGrad(dx, y, dy, d)
			ok()
			for o := range d.Outer {
				for i := range d.Inner {
					at := func(m int) int { return (o*d.Mid+m)*d.Inner + i }
					top, sum, dot := math.Inf(-1), 0.0, 0.0
					for m := range d.Mid {
						top = max(top, float64(x[at(m)]))
					}
					for m := range d.Mid {
						sum += math.Exp(float64(x[at(m)]) - top)
						dot += float64(y[at(m)]) * float64(dy[at(m)])
					}
					for m := range d.Mid {
						near(t, "softmax", at(m), y[at(m)], math.Exp(float64(x[at(m)])-top)/sum, 1e-6)
						if want := float64(y[at(m)]) * (float64(dy[at(m)]) - dot); math.Abs(float64(dx[at(m)])-want) > 1e-7 {
							t.Fatalf("softmax gradient [%d]: got %v, want %v", at(m), dx[at(m)], want)
						}
					}
				}
			}
		}
	})
}

func TestSetDotAndMix(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, a := range []Attention{
			{2, 3, 3, 2, 1, 1, 1, 77}, {1, 2, 5, 3, 2, 1, 1, 2000}, {2, 4, 4, 2, 2, 1, 700, 1}, {1, 3, 2, 2, 2, 1, 5, 600},
			{1, 2, 3, 2, 1, 9, 40, 1}, {1, 1, 4, 1, 3, 2, 3, 5},
		} {
			q, k := random(1, a.rows(a.Queries), -1, 1), random(2, a.rows(a.Keys), -1, 1)
			w, ok := guarded(t, a.weights())
			p.SetDot(w, q, k, a)
			ok()
			y, ok := guarded(t, len(q))
			p.SetMix(y, w, k, a, false)
			ok()
			z, ok := guarded(t, len(k))
			p.SetMix(z, w, q, a, true)
			ok()
			wantW, wantY, wantZ := make([]float64, len(w)), make([]float64, len(q)), make([]float64, len(k))
			plane := a.Before * a.Cells * a.Within
			for n := range a.Samples {
				for j := range a.Queries {
					for i := range a.Keys {
						for c := range a.Heads * a.HeadChannels {
							for at := range plane {
								e := (((n*a.Queries+j)*a.Heads+c/a.HeadChannels)*a.Keys+i)*a.Cells + at/a.Within%a.Cells
								x, y := ((n*a.Queries+j)*a.Heads*a.HeadChannels+c)*plane+at, ((n*a.Keys+i)*a.Heads*a.HeadChannels+c)*plane+at
								wantW[e] += float64(q[x]) * float64(k[y])
								wantY[x] += float64(w[e]) * float64(k[y])
								wantZ[y] += float64(w[e]) * float64(q[x])
							}
						}
					}
				}
			}
			largest := 1.0
			for _, v := range w {
				largest = max(largest, math.Abs(float64(v)))
			}
			for _, c := range []struct {
				name string
				got  []float32
				want []float64
			}{{"dot", w, wantW}, {"mix", y, wantY}, {"transposed mix", z, wantZ}} {
				for i, v := range c.want { // sums of weights of either sign cancel
					if d := math.Abs(float64(c.got[i]) - v); d > 1e-6*largest {
						t.Fatalf("%+v: %s[%d] is %v, want %v", a, c.name, i, c.got[i], v)
					}
				}
			}
		}
	})
}
