package simd

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// eachISA runs f with every kernel that this machine has.
func eachISA(t *testing.T, f func(t *testing.T)) {
	for _, isa := range []string{"avx512", "avx2", "base"} {
		if useISA(isa) {
			t.Run(isa, f)
		}
	}
	useISA("")
}

// Against the formulas of dist case by case, from the middle of the distribution to 60
// scales away. Tolerance: derivatives are at most a few, each to some 1e-15.
func TestNormalSums(t *testing.T) {
	const dates = 37
	scale := func(link Link, eta float64) (sigma, first, second float64) {
		switch link {
		case Quadratic:
			s := math.Sqrt(eta)
			return s, 0.5 / s, -0.25 / (s * eta)
		case Log:
			s := math.Exp(eta)
			return s, s, s
		}
		return eta, 1, 0
	}
	eachISA(t, func(t *testing.T) {
		for _, link := range []Link{Linear, Quadratic, Log} {
			for _, seasons := range []int{0, 2, 4} {
				r := rand.New(rand.NewPCG(uint64(seasons), uint64(link)))
				season := make([]float64, dates*seasons)
				for i := range season {
					season[i] = r.NormFloat64()
				}
				anomaly, spread, obs := make([]float32, dates*Lanes), make([]float32, dates*Lanes), make([]float32, dates*Lanes)
				for i := range obs {
					anomaly[i], spread[i] = float32(r.NormFloat64()), float32(0.01+r.Float64())
					obs[i] = float32(math.Pow(60, r.Float64()) * r.NormFloat64() / 2)
					if r.IntN(9) == 0 {
						obs[i] = float32(math.NaN())
					}
				}
				for d := range dates {
					obs[d*Lanes+5] = float32(math.NaN())
				}
				theta := make([]float64, MaxTerms*Lanes)
				for i := range theta {
					theta[i] = 0.2 + r.Float64()
				}
				out := make([]float64, SumRows*Lanes)
				if !NormalSums(out, theta, season, anomaly, spread, obs, link) {
					t.Fatal("kernels without kernels")
				}
				k := 2 + seasons
				n := k + 2
				for l := range Lanes {
					var value, count float64
					grad, curv := make([]float64, n), make([]float64, n*n)
					for d := range dates {
						at := d*Lanes + l
						y := float64(obs[at])
						if y != y {
							continue
						}
						x := append([]float64{1, float64(anomaly[at])}, season[d*seasons:(d+1)*seasons]...)
						x = append(x, 1, float64(spread[at]))
						var mu, eta float64
						for i, v := range x {
							if i < k {
								mu += theta[i*Lanes+l] * v
							} else {
								eta += theta[i*Lanes+l] * v
							}
						}
						sigma, first, second := scale(link, eta)
						c, dmu, dsigma := dist.NormalCRPS(mu, sigma, y)
						curvature, z := dist.NormalCRPSCurvature(dsigma, sigma), (y-mu)/sigma
						count++
						value += c
						for a := range n {
							da, sa := dmu, 1.0
							if a >= k {
								da, sa = dsigma*first, z*first
							}
							grad[a] += da * x[a]
							for b := range n {
								sb := 1.0
								if b >= k {
									sb = z * first
								}
								curv[a*n+b] += curvature * sa * sb * x[a] * x[b]
								if a >= k && b >= k {
									curv[a*n+b] += dsigma * second * x[a] * x[b]
								}
							}
						}
					}
					check := func(what string, row int, want float64) {
						want /= count
						if got := out[row*Lanes+l]; !(math.Abs(got-want) <= 2e-14*max(1, math.Abs(want))) && (got == got || want == want) {
							t.Errorf("link %d, %d terms of the season, lane %d: %s %.17g, want %.17g", link, seasons, l, what, got, want)
						}
					}
					check("value", 0, value)
					if out[Lanes+l] != count {
						t.Errorf("count %g, want %g", out[Lanes+l], count)
					}
					if l == 5 { // a point without dates
						if out[l] == out[l] || out[Lanes+l] != 0 {
							t.Errorf("no dates: value %g, count %g", out[l], out[Lanes+l])
						}
						continue
					}
					j := 0
					for a := range n {
						check("gradient", 2+a, grad[a])
						for b := range a + 1 {
							check("curvature", 2+MaxTerms+j, curv[a*n+b])
							j++
						}
					}
				}
			}
		}
	})
}

func TestNormalSumsRefuses(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("fields of unequal length were taken")
		}
	}()
	f := make([]float32, Lanes)
	NormalSums(make([]float64, SumRows*Lanes), make([]float64, MaxTerms*Lanes), nil, f, f[1:], f, Linear)
}

func BenchmarkNormalSums(b *testing.B) {
	const dates = 1500
	f, s, o := make([]float32, dates*Lanes), make([]float32, dates*Lanes), make([]float32, dates*Lanes)
	theta := make([]float64, MaxTerms*Lanes)
	for i := range f {
		f[i], s[i], o[i] = float32(i%7)-3, 1, float32(i%5)-2
	}
	for i := range theta {
		theta[i] = 0.5
	}
	out := make([]float64, SumRows*Lanes)
	for b.Loop() {
		NormalSums(out, theta, nil, f, s, o, Linear)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(o)), "ns/case")
}
