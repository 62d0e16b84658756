package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// eachISA runs f with every set of kernels that this machine has, and with none.
func eachISA(t *testing.T, f func(t *testing.T)) {
	before := ISA()
	for _, isa := range []string{"avx512", "avx2", "base"} {
		if useISA(isa) {
			t.Run(isa, f)
		}
	}
	useISA(before)
}

// random are m members and a reference of n points about 280, with a guard behind.
func random(seed uint64, m, n int) (x [][]float32, y []float32) {
	r := rand.New(rand.NewPCG(seed, 1))
	y = make([]float32, n)
	for p := range y {
		y[p] = float32(280 + 2*r.NormFloat64())
	}
	for range m {
		f := make([]float32, n)
		for p := range f {
			f[p] = y[p] + float32(1.5*r.NormFloat64())
		}
		x = append(x, f)
	}
	return x, y
}

// members are the sizes that differ in how they are sorted: every network, and runs
// that are full, not full, and left out.
var members = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 50, 51, 64, 65, 100}

const guard = 12345

// guarded is a field of n points with a guard value behind it.
func guarded(n int) ([]float32, func() bool) {
	f := make([]float32, n+1)
	f[n] = guard
	return f[:n:n], func() bool { return f[:n+1][n] == guard }
}

// Against float64 sums over all pairs. Tolerance: values about 280 in float32 are known to
// 1.5e-5, which their differences inherit exactly; the sums of up to 100 differences of
// about 2 round to a few 1e-6.
func TestCRPS(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, m := range members {
			for _, n := range []int{1, 15, 16, 37} {
				x, y := random(uint64(m), m, n)
				dst, whole := guarded(n)
				for _, f := range []dist.Fairness{dist.Plain, dist.Fair, dist.AlmostFair(0.95)} {
					if m == 1 && f(1) != 1 {
						continue
					}
					CRPS(dst, x, y, f)
					for p := range y {
						v := make([]float64, m)
						for i := range v {
							v[i] = float64(x[i][p])
						}
						if want := dist.KernelCRPS(v, float64(y[p]), f); math.Abs(float64(dst[p])-want) > 1e-5 {
							t.Fatalf("%d members, point %d of %d: %g, want %g", m, p, n, dst[p], want)
						}
					}
				}
				if !whole() {
					t.Errorf("%d members, %d points: written behind the end", m, n)
				}
			}
		}
	})
}

func TestMeanStd(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, m := range []int{2, 3, 10, 51} {
			for _, n := range []int{5, 64, 131} {
				x, _ := random(uint64(m), m, n)
				mean, whole := guarded(n)
				std := make([]float32, n)
				for ddof := range 2 {
					MeanStd(mean, std, x, ddof)
					for p := range mean {
						var sum, square float64
						for _, f := range x {
							sum += float64(f[p]) / float64(m)
						}
						for _, f := range x {
							square += (float64(f[p]) - sum) * (float64(f[p]) - sum) / float64(m-ddof)
						}
						if math.Abs(float64(mean[p])-sum) > 3e-5 || math.Abs(float64(std[p])-math.Sqrt(square)) > 1e-5 {
							t.Fatalf("%d members, divisor M-%d: %g %g, want %g %g", m, ddof, mean[p], std[p], sum, math.Sqrt(square))
						}
					}
				}
				if !whole() {
					t.Error("written behind the end")
				}
			}
		}
	})
}

func TestQuantiles(t *testing.T) {
	levels := []float64{0, 0.05, 0.25, 0.5, 0.75, 0.95, 1}
	eachISA(t, func(t *testing.T) {
		for _, m := range members {
			const n = 37
			x, _ := random(uint64(m), m, n)
			dst := make([][]float32, len(levels))
			for q := range dst {
				dst[q] = make([]float32, n)
			}
			Quantiles(dst, x, levels)
			for p := range n {
				v := make([]float64, m)
				for i := range v {
					v[i] = float64(x[i][p])
				}
				slices.Sort(v)
				for q, level := range levels {
					place := level * float64(m-1)
					i := int(place)
					want := v[i]
					if i+1 < m {
						want += (place - float64(i)) * (v[i+1] - v[i])
					}
					if math.Abs(float64(dst[q][p])-want) > 4e-5 {
						t.Fatalf("%d members, level %g, point %d: %g, want %g", m, level, p, dst[q][p], want)
					}
				}
			}
		}
	})
}

// One missing member or reference makes its point missing, and no other.
func TestMissing(t *testing.T) {
	nan := float32(math.NaN())
	eachISA(t, func(t *testing.T) {
		for _, m := range []int{3, 10, 40} {
			const n = 40
			for at := range m {
				x, y := random(1, m, n)
				x[at][7], y[33] = nan, nan
				score, mean, std, low := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
				CRPS(score, x, y, dist.Fair)
				MeanStd(mean, std, x, 1)
				Quantiles([][]float32{low}, x, []float64{0.1})
				for p := range n {
					isNaN := func(v float32) bool { return v != v }
					if isNaN(score[p]) != (p == 7 || p == 33) || isNaN(mean[p]) != (p == 7) || isNaN(std[p]) != (p == 7) || isNaN(low[p]) != (p == 7) {
						t.Fatalf("member %d of %d missing: point %d gives %g %g %g %g", at, m, p, score[p], mean[p], std[p], low[p])
					}
				}
			}
		}
	})
}

// Kernels and plain loops: the same quantiles to the bit of order statistics, the same
// CRPS within rounding; also with more members than the kernels take.
func TestPlainLoops(t *testing.T) {
	for _, m := range []int{10, 50, Most + 1} {
		const n = 33
		x, y := random(9, m, n)
		a, b := make([]float32, n), make([]float32, n)
		CRPS(a, x, y, dist.Plain)
		crps(b, x, y, float32(1/float64(m*m)))
		q, r := [][]float32{make([]float32, n)}, [][]float32{make([]float32, n)}
		Quantiles(q, x, []float64{0.5})
		quantiles(r, x, []int{(m - 1) / 2}, []float32{float32((m-1)%2) / 2})
		for p := range n {
			if math.Abs(float64(a[p]-b[p])) > 1e-5 || math.Abs(float64(q[0][p]-r[0][p])) > 4e-5 {
				t.Errorf("%d members, point %d: %g %g, %g %g", m, p, a[p], b[p], q[0][p], r[0][p])
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	x, y := random(1, 3, 20)
	for what, f := range map[string]func(){
		"short reference": func() { CRPS(make([]float32, 20), x, y[:19], dist.Plain) },
		"short result":    func() { CRPS(make([]float32, 19), x, y, dist.Plain) },
		"no members":      func() { CRPS(make([]float32, 20), nil, y, dist.Plain) },
		"short member":    func() { MeanStd(y, y, append(x, y[:3]), 0) },
		"one member":      func() { MeanStd(make([]float32, 20), make([]float32, 20), x[:1], 1) },
		"level above 1":   func() { Quantiles([][]float32{y}, x, []float64{1.1}) },
		"missing field":   func() { Quantiles(nil, x, []float64{0.1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken", what)
				}
			}()
			f()
		}()
	}
	if CRPS(y, x[:1], y, dist.Fair); y[0] == y[0] {
		t.Error("the fair score of one member must be NaN")
	}
}

func ExampleCRPS() {
	members := [][]float32{{271, 280}, {273, 280}, {275, 283}} // K, two points
	out := make([]float32, 2)
	CRPS(out, members, []float32{274, 281}, dist.Fair)
	fmt.Printf("%.3f %.3f K\n", out[0], out[1])
	// Output: 0.333 0.333 K
}

// Benchmarks on a half-degree globe; benchmarks/verify_peers.py runs the same in Python.
func BenchmarkMembers(b *testing.B) {
	const n = 361 * 720
	for _, m := range []int{10, 50} {
		x, y := random(1, m, n)
		dst, std := make([]float32, n), make([]float32, n)
		five := make([][]float32, 5)
		for q := range five {
			five[q] = make([]float32, n)
		}
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"crps", func() { CRPS(dst, x, y, dist.Fair) }},
			{"mean_std", func() { MeanStd(dst, std, x, 1) }},
			{"quantiles", func() { Quantiles(five, x, []float64{0.05, 0.25, 0.5, 0.75, 0.95}) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, m), func(b *testing.B) {
				b.SetBytes(int64(4 * n * m))
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}
