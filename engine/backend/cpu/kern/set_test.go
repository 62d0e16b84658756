//go:build cgo && linux

package kern

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// setDims are sets of every kind of size: of one, two and more rows, and so many that a strip is
// narrow.
var setDims = []Dims{{2, 1, 7}, {3, 2, 65}, {2, 3, 1}, {1, 10, 200}, {2, 13, 64}, {1, 51, 70}, {1, 300, 5}, {1, 4096, 1}}

// setOf are the values of a set.
func setOf(x []float32, d Dims, o, i int) []float64 {
	v := make([]float64, d.Mid)
	for m := range v {
		v[m] = float64(x[(o*d.Mid+m)*d.Inner+i])
	}
	return v
}

// shuffled exchanges the rows of every sample.
func shuffled(x []float32, d Dims, seed uint64) (y []float32, order []int) {
	order = rand.New(rand.NewPCG(seed, 5)).Perm(d.Mid)
	y = make([]float32, len(x))
	for o := range d.Outer {
		for m, from := range order {
			copy(y[(o*d.Mid+m)*d.Inner:][:d.Inner], x[(o*d.Mid+from)*d.Inner:][:d.Inner])
		}
	}
	return y, order
}

// ties makes some members equal to others at a third of the points.
func ties(x []float32, d Dims) {
	for i := range d.Inner / 3 {
		for m := 1; m < d.Mid; m += 2 {
			x[m*d.Inner+3*i] = x[3*i]
		}
	}
	if d.Inner > 4 {
		x[(d.Mid-1)*d.Inner+4] = float32(math.NaN())
	}
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s[%d]: %v with rows in another order, %v before", what, i, got[i], want[i])
		}
	}
}

func TestSetPool(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, d := range setDims {
			x := random(uint64(d.Len()), d.Len(), -3, 1e4)
			ties(x, d)
			other, _ := shuffled(x, d, 9)
			for kind := SetSum; kind <= SetMax; kind++ {
				if kind == SetStd && d.Mid == 1 {
					continue
				}
				y, ok := guarded(t, d.Outer*d.Inner)
				p.SetPool(kind, y, x, d)
				ok()
				for o := range d.Outer {
					for i := range d.Inner {
						near(t, "pool", i, y[o*d.Inner+i], reference(setOf(x, d, o, i), kind), 1e-6)
					}
				}
				again := make([]float32, len(y))
				p.SetPool(kind, again, other, d)
				same(t, "pool", again, y)
			}
		}
	})
}

func reference(v []float64, kind SetReduction) float64 {
	var sum, q float64
	for _, x := range v {
		sum += x
	}
	if math.IsNaN(sum) {
		return sum
	}
	for _, x := range v {
		q += math.Pow(x-sum/float64(len(v)), 2)
	}
	switch kind {
	case SetMean:
		return sum / float64(len(v))
	case SetStd:
		return math.Sqrt(q / float64(len(v)-1))
	case SetMin:
		return slices.Min(v)
	case SetMax:
		return slices.Max(v)
	}
	return sum
}

func TestSetCRPS(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, d := range setDims {
			x, y := random(1, d.Len(), -3, 3), random(2, d.Outer*d.Inner, -3, 3)
			ties(x, d)
			dy := random(3, len(y), -2, 2)
			y[0] = x[0]
			for first := range min(d.Mid, 4) {
				if first > 0 && d.Mid > 100 {
					break // the reference uses all pairs
				}
				f, m := dist.AlmostFair(0.95), float64(d.Mid)
				pair := (1 - f(d.Mid)) / (m * (m - 1))
				if first > 0 {
					pair = 1 / (2 * float64(first) * (m - float64(first)))
				}
				if d.Mid == 1 {
					f, pair = dist.Plain, 0
				}
				refCRPS := func(dx, v []float64, y float64) float64 {
					if first > 0 {
						return dist.CrossPairCRPSGrad(dx, v, first, y)
					}
					return dist.KernelCRPSGrad(dx, v, y, f)
				}
				score, ok := guarded(t, len(y))
				p.SetCRPS(score, x, y, d, first, pair)
				ok()
				dx, ok := guarded(t, len(x))
				p.SetCRPSGrad(dx, x, y, dy, d, first, pair)
				ok()
				want := make([]float64, d.Mid)
				for o := range d.Outer {
					for i := range d.Inner {
						at := o*d.Inner + i
						v := refCRPS(want, setOf(x, d, o, i), float64(y[at]))
						if diff := math.Abs(float64(score[at]) - v); diff > 1e-6 || (diff != diff) != (v != v) {
							t.Fatalf("%+v, first %d: score[%d] is %v, want %v", d, first, at, score[at], v)
						}
						for k, w := range want {
							g := float64(dx[(o*d.Mid+k)*d.Inner+i])
							if diff := math.Abs(g - w*float64(dy[at])); diff > 1e-6 || (diff != diff) != (w != w) {
								t.Fatalf("%+v, first %d: gradient of member %d at %d is %v, want %v", d, first, k, at, g, w*float64(dy[at]))
							}
						}
					}
				}
				if first > 0 {
					continue
				}
				other, order := shuffled(x, d, 4)
				again := make([]float32, len(score))
				p.SetCRPS(again, other, y, d, 0, pair)
				same(t, "score", again, score)
				grad := make([]float32, len(dx))
				p.SetCRPSGrad(grad, other, y, dy, d, 0, pair)
				for o := range d.Outer {
					for m, from := range order {
						same(t, "gradient", grad[(o*d.Mid+m)*d.Inner:][:d.Inner], dx[(o*d.Mid+from)*d.Inner:][:d.Inner])
					}
				}
			}
		}
	})
}
