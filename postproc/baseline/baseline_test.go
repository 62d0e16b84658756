package baseline

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/optimize"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: got %.9g, want %.9g within %g", what, got, want, tol)
	}
}

func weekly(n int) []time.Time {
	out := make([]time.Time, n)
	for i := range out {
		out[i] = time.Date(1990, 1, 3+7*i, 0, 0, 0, 0, time.UTC)
	}
	return out
}

// synthetic makes dates × points cases: mean and spread at random about 280 K,
// and observations drawn from the distribution that truth gives.
func synthetic(dates, points int, seed uint64, truth func(p int, valid time.Time, m, s float64) (mu, sigma float64)) *Set {
	r := rand.New(rand.NewPCG(seed, 1))
	set := &Set{Valid: weekly(dates), Weights: make([]float64, points)}
	for p := range set.Weights {
		set.Weights[p] = 0.5 + float64(p%3)
	}
	for _, v := range set.Valid {
		for p := range points {
			m, s := 280+5*r.NormFloat64(), 0.5+2*r.Float64()
			mu, sigma := truth(p, v, m, s)
			set.Mean = append(set.Mean, float32(m))
			set.Std = append(set.Std, float32(s))
			set.Obs = append(set.Obs, float32(mu+sigma*r.NormFloat64()))
		}
	}
	return set
}

func TestEMOSFindsTheTruth(t *testing.T) {
	set := synthetic(200, 200, 1, func(_ int, _ time.Time, m, s float64) (float64, float64) {
		return 28 + 0.9*m, math.Sqrt(0.8*0.8 + 1.3*1.3*s*s)
	})
	e, err := FitEMOS(set, EMOSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// 40 000 cases of scatter about 2: coefficients to about 0.5 %.
	near(t, "beta", e.Beta, 0.9, 0.01)
	near(t, "alpha + beta·280", e.Alpha+e.Beta*280, 280, 0.05)
	near(t, "gamma", e.Gamma, 0.8, 0.06)
	near(t, "delta", e.Delta, 1.3, 0.03)
	// It is a minimum: no step away is better, and the simplex ends no lower.
	best := e.MeanCRPS(set)
	for k := range 4 {
		for _, h := range []float64{-1e-3, 1e-3} {
			f := *e
			*[]*float64{&f.Alpha, &f.Beta, &f.Gamma, &f.Delta}[k] += h
			if c := f.MeanCRPS(set); c < best {
				t.Errorf("step %g of coefficient %d is better by %g", h, k, best-c)
			}
		}
	}
	s, err := FitEMOS(set, EMOSOptions{NelderMead: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.MeanCRPS(set); c < best-1e-9 || c > best+5e-3 { // it stops early in the valley of alpha and beta
		t.Errorf("simplex %.9f, BFGS %.9f", c, best)
	}
}

func TestEMOSTruncatedNormal(t *testing.T) {
	set := synthetic(100, 100, 2, func(_ int, _ time.Time, m, s float64) (float64, float64) { return m, s })
	r := rand.New(rand.NewPCG(5, 5))
	for i := range set.Obs { // wind: mean about 3, observations from the truncated law by rejection
		m, s := 1.5+3*r.Float64(), 0.4+r.Float64()
		y := -1.0
		for y < 0 {
			y = 0.3 + 0.9*m + 1.4*s*r.NormFloat64()
		}
		set.Mean[i], set.Std[i], set.Obs[i] = float32(m), float32(s), float32(y)
	}
	e, err := FitEMOS(set, EMOSOptions{Family: TruncatedNormal})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "alpha", e.Alpha, 0.3, 0.2)
	near(t, "beta", e.Beta, 0.9, 0.05)
	near(t, "delta", e.Delta, 1.4, 0.15)
	n, err := FitEMOS(set, EMOSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := e.MeanCRPS(set), n.MeanCRPS(set); a >= b {
		t.Errorf("the right family scores %.6f, the plain normal %.6f", a, b)
	}
	near(t, "median", TruncatedNormal.Quantile(-1, 1, 0.5), dist.TruncatedNormalQuantile(-1, 1, 0.5), 0)
	near(t, "normal quartile", Normal.Quantile(1, 2, 0.75), 1+2*0.6744897501960817, 1e-12)
}

// SciPy's own end points (testdata/neldermead.py).
func TestNelderMeadIsSciPys(t *testing.T) {
	raw, err := os.ReadFile("testdata/neldermead.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		X0, X   []float64
		Tol, F  float64
		MaxIter int
	}
	if err := json.Unmarshal(raw, &rows); err != nil || len(rows) == 0 {
		t.Fatal(err, len(rows))
	}
	rosen := func(x []float64) float64 {
		var sum float64
		for i := range len(x) - 1 {
			sum += 100*math.Pow(x[i+1]-x[i]*x[i], 2) + math.Pow(1-x[i], 2)
		}
		return sum
	}
	for _, c := range rows {
		x, f := nelderMead(rosen, c.X0, simplexOptions{tolerance: c.Tol, iterations: c.MaxIter})
		for k := range x {
			near(t, "coordinate", x[k], c.X[k], 1e-10)
		}
		near(t, "value", f, c.F, 1e-12)
	}
}

func TestClimatologyFindsTheCycle(t *testing.T) {
	set := synthetic(156, 4, 4, func(p int, v time.Time, _, _ float64) (float64, float64) {
		a := ensemble.SeasonAngle(v)
		return 270 + float64(p) + 8*math.Sin(a) - 3*math.Cos(2*a), 1.5
	})
	set.Mean, set.Std = nil, nil
	c, err := FitClimatology(set)
	if err != nil {
		t.Fatal(err)
	}
	mu, sigma := make([]float32, 4), make([]float32, 4)
	later := time.Date(2001, 7, 1, 0, 0, 0, 0, time.UTC)
	c.Predict(mu, sigma, later)
	a := ensemble.SeasonAngle(later)
	for p := range mu {
		near(t, "mu", float64(mu[p]), 270+float64(p)+8*math.Sin(a)-3*math.Cos(2*a), 0.8) // 1.5·√(5/156)·3
		near(t, "sigma", float64(sigma[p]), 1.5, 0.3)
	}
	// Gaps: a point without some dates is as if these dates did not exist.
	nan := float32(math.NaN())
	short := &Set{Valid: set.Valid[:100], Obs: set.Obs[:400]}
	want, err := FitClimatology(short)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < 156; i++ {
		set.Obs[i*4+2] = nan
	}
	for i := range 156 {
		set.Obs[i*4+3] = nan
	}
	got, err := FitClimatology(set)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "sigma with gaps", got.Sigma[2], want.Sigma[2], 1e-9)
	near(t, "cycle with gaps", got.Cycle[2*harmonics+1], want.Cycle[2*harmonics+1], 1e-9)
	if !math.IsNaN(got.Sigma[3]) {
		t.Errorf("a point without dates has sigma %g", got.Sigma[3])
	}
	if got.Warning() != "" {
		t.Errorf("three years are said not to suffice: %s", got.Warning())
	}
}

// Eight winter weeks determine no cycle: what is left is their mean, and the same all year.
func TestClimatologyOfASeasonIsItsMean(t *testing.T) {
	set := &Set{Valid: weekly(8), Obs: []float32{1, 2, 3, 4, 5, 6, 7, 8}}
	c, err := FitClimatology(set)
	if err != nil {
		t.Fatal(err)
	}
	mu, sigma := make([]float32, 1), make([]float32, 1)
	c.Predict(mu, sigma, time.Date(2001, 7, 1, 0, 0, 0, 0, time.UTC))
	near(t, "mean", float64(mu[0]), 4.5, 1e-6)
	near(t, "deviation", float64(sigma[0]), math.Sqrt(6), 1e-6)
	if !strings.Contains(c.Warning(), "it is their mean") {
		t.Errorf("note %q", c.Warning())
	}
	if _, err := FitClimatology(&Set{Valid: weekly(1), Obs: make([]float32, 1)}); err == nil {
		t.Error("one date has no scatter, but a fit was given")
	}
}

// gridSums are value, gradient and second derivatives of the objective of a GridEMOS at its first point.
type gridSums struct {
	value      float64
	grad, curv []float64
}

// sumsAtPoint evaluates the objective of a GridEMOS at point 0, with coefficients in the order of Theta.
func sumsAtPoint(g *GridEMOS, s *Set, theta []float64, strength float64) gridSums {
	f := g.newGridFitter(s)
	f.gatherShifts(s, 0, 1)
	f.strength = strength
	for i, k := range g.fitOrder() {
		*f.theta.at(i, 0) = theta[k]
	}
	f.sums(f.at, f.theta)
	out := gridSums{*f.at.value(0), make([]float64, gridTerms), make([]float64, gridTerms*gridTerms)}
	for i, a := range g.fitOrder() {
		out.grad[a] = *f.at.grad(i, 0)
		for j, b := range g.fitOrder()[:i+1] {
			out.curv[a*gridTerms+b] = *f.at.curv(i*(i+1)/2+j, 0)
			out.curv[b*gridTerms+a] = out.curv[a*gridTerms+b]
		}
	}
	return out
}

// The objective is that of the formula in float64; the gradient is that of the value, and the curvature
// that of the gradient where the softplus bends upwards.
func TestGridEMOSDerivatives(t *testing.T) {
	set := synthetic(30, 1, 6, func(_ int, _ time.Time, m, s float64) (float64, float64) { return m + 0.5, 0.5 + s })
	g := &GridEMOS{seasonal: true, Theta: make([]float64, gridTerms), MeanBar: []float64{float64(set.Mean[0])}, Scale: 1, Global: [gridTerms]float64{1, 1, 0, 0, 0, 0}}
	const strength = 0.7
	at := func(x []float64) gridSums { return sumsAtPoint(g, set, x, strength) }
	narrow, wide := []float64{0.1, -0.2, 0.3, 0.05, -1, 0.2}, []float64{0.1, -0.2, 0.3, 0.05, 1, 2}
	for _, x := range [][]float64{narrow, wide} {
		q := at(x)
		near(t, "value", q.value, gridObjective(g, set, x, strength), 1e-6)
		want := fd.Gradient(nil, func(x []float64) float64 { return at(x).value }, x, &fd.Settings{Formula: fd.Central})
		for k := range want {
			near(t, "gradient", q.grad[k], want[k], 1e-6)
		}
	}
	q := at(wide) // the score falls with σ in narrow: only here all second derivatives count
	for a := range gridTerms {
		row := fd.Gradient(nil, func(x []float64) float64 { return at(x).grad[a] }, wide, &fd.Settings{Formula: fd.Central})
		for b := range gridTerms {
			near(t, "curvature", q.curv[a*gridTerms+b], row[b], 1e-5)
		}
	}
}

// gridObjective is the objective of GridEMOS at point 0 by its formula, case by case in float64.
func gridObjective(g *GridEMOS, s *Set, t []float64, strength float64) float64 {
	var sum float64
	for i, v := range s.Valid {
		sin, cos := math.Sincos(ensemble.SeasonAngle(v))
		m, n := float64(s.Mean[i*s.Points()]), s.Points()
		mu := (m + g.Scale*(t[0]+t[1]*sin+t[2]*cos) + t[3]*(m-g.MeanBar[0])) / g.Scale
		sigma := math.Log1p(math.Exp(t[4])) + math.Log1p(math.Exp(t[5]))*float64(s.Std[i*n])/g.Scale
		c, _, _ := dist.NormalCRPS(mu, sigma, float64(s.Obs[i*n])/g.Scale)
		sum += c
	}
	for k, v := range t {
		sum += strength * (v - g.Global[k]) * (v - g.Global[k])
	}
	return sum / float64(len(s.Valid))
}

// The minimum at each point, and that for all points, are those that BFGS of gonum finds in float64 case by case.
func TestNewtonAgreesWithBFGS(t *testing.T) {
	set := synthetic(120, 1, 7, func(_ int, v time.Time, m, s float64) (float64, float64) {
		return m + 1 + math.Sin(ensemble.SeasonAngle(v)), 0.5 + 0.8*s
	})
	for _, strength := range []float64{0, 2, 50} {
		g, err := FitGridEMOS(set, GridEMOSOptions{Strengths: []float64{strength}})
		if err != nil {
			t.Fatal(err)
		}
		f := func(x []float64) float64 { return gridObjective(g, set, x, strength) }
		res, err := optimize.Minimize(optimize.Problem{
			Func: f,
			Grad: func(d, x []float64) { fd.Gradient(d, f, x, &fd.Settings{Formula: fd.Central}) },
		}, make([]float64, gridTerms), nil, &optimize.BFGS{})
		if res == nil {
			t.Fatal(err)
		}
		near(t, "minimum", f(g.Theta), res.F, 1e-9)
		for k, v := range res.X {
			near(t, "coefficient", g.Theta[k], v, 1e-4)
		}
	}
}

// Two kinds of points with opposite bias and season: the grid fit must find
// them, the global one cannot; a huge strength makes them equal.
func TestGridEMOSIsLocal(t *testing.T) {
	truth := func(p int, v time.Time, m, s float64) (float64, float64) {
		side := float64(1 - 2*(p%2))
		return m + side*(2+math.Cos(ensemble.SeasonAngle(v))), 0.3 + 0.9*s
	}
	train, test := synthetic(156, 60, 8, truth), synthetic(100, 60, 9, truth)
	g, err := FitGridEMOS(train, GridEMOSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.CV) != 7 || g.Strength > 30 {
		t.Errorf("strength %g of %+v", g.Strength, g.CV)
	}
	near(t, "bias of point 0", g.Scale*g.Theta[0], 2, 0.5)
	near(t, "bias of point 1", g.Scale*g.Theta[gridTerms], -2, 0.5)
	e, err := FitEMOS(train, EMOSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sum, weight := scoreSum(g, test)
	if local, global := sum/weight, e.MeanCRPS(test); local > 0.85*global {
		t.Errorf("grid EMOS %.4f against global %.4f on other dates", local, global)
	}
	// The score of the cross-validation and Predict are the same forecast.
	mu, sigma := make([]float32, 60), make([]float32, 60)
	var c, w float64
	for i, v := range test.Valid {
		g.Predict(mu, sigma, test.Mean[i*60:(i+1)*60], test.Std[i*60:(i+1)*60], v)
		for p := range mu {
			x, _, _ := dist.NormalCRPS(float64(mu[p]), float64(sigma[p]), float64(test.Obs[i*60+p]))
			c += test.Weights[p] * x
			w += test.Weights[p]
		}
	}
	near(t, "score by Predict", c/w, sum/weight, 1e-5)
	stiff, err := FitGridEMOS(train, GridEMOSOptions{Strengths: []float64{1e9}})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range stiff.Theta {
		near(t, "stiff coefficient", v, stiff.Global[i%gridTerms], 1e-5)
	}
}

// scoreSum is the weighted sum of the CRPS over a set, in the unit of the variable, and the sum of the weights.
func scoreSum(g *GridEMOS, s *Set) (crps, weight float64) {
	f := g.newGridFitter(s)
	for lo := 0; lo < len(g.MeanBar); lo += lanes {
		hi := min(len(g.MeanBar), lo+lanes)
		f.gatherShifts(s, lo, hi)
		f.load(lo, hi)
		c, w := f.score(s, lo, hi)
		crps, weight = crps+g.Scale*c, weight+w
	}
	return crps, weight
}

// Laws: another unit changes nothing but the unit; missing cases are as if they
// were not there; the number of processors does not matter.
func TestGridEMOSLaws(t *testing.T) {
	truth := func(p int, _ time.Time, m, s float64) (float64, float64) { return m + float64(p%3), 0.5 + s }
	set := synthetic(110, 70, 10, truth)
	one := GridEMOSOptions{Strengths: []float64{3}}
	g, err := FitGridEMOS(set, one)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	again, err := FitGridEMOS(set, one)
	if err != nil || !reflect.DeepEqual(g, again) {
		t.Errorf("one processor gives other bits (%v)", err)
	}
	milli := &Set{Valid: set.Valid, Weights: set.Weights}
	for i := range set.Obs {
		milli.Mean = append(milli.Mean, 1024*set.Mean[i])
		milli.Std = append(milli.Std, 1024*set.Std[i])
		milli.Obs = append(milli.Obs, 1024*set.Obs[i])
	}
	m, err := FitGridEMOS(milli, one)
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Theta {
		near(t, "coefficient in another unit", m.Theta[i], g.Theta[i], 1e-7)
	}
	gaps := &Set{Valid: set.Valid, Mean: set.Mean, Std: set.Std, Obs: slices.Clone(set.Obs), Weights: set.Weights}
	for i := range 110 {
		gaps.Obs[i*70+5] = float32(math.NaN())
	}
	b, err := FitGridEMOS(gaps, one)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Theta[5*gridTerms : 6*gridTerms]; !slices.Equal(got, b.Global[:]) {
		t.Errorf("a point without observations has %v, not the global %v", got, b.Global)
	}
}

func TestAffineSpread(t *testing.T) {
	few := []float32{1, 2, 3, 4, float32(math.NaN()), 9}
	full := []float32{2.5, 3, 3.5, 4, 1, float32(math.NaN())}
	a, err := FitAffineSpread(&Set{Valid: weekly(3), Std: few, Obs: full, Weights: []float64{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a", a.A, 2, 1e-9)
	near(t, "b", a.B, 0.5, 1e-9)
	dst := make([]float32, 2)
	a.Predict(dst, []float32{10, -10})
	if dst[0] != 7 || dst[1] != 0 {
		t.Errorf("predicted %v", dst)
	}
	if _, err := FitAffineSpread(&Set{Valid: weekly(2), Std: []float32{1, 1}, Obs: []float32{1, 2}}); !errors.Is(err, ErrNoCases) {
		t.Errorf("constant predictor: %v", err)
	}
}

// subset returns the dates for which keep is true.
func (s *Set) subset(keep func(i int) bool) *Set {
	var dates []int
	for i := range s.Valid {
		if keep(i) {
			dates = append(dates, i)
		}
	}
	out, err := s.Subset(dates)
	if err != nil {
		panic(err)
	}
	return out
}

func TestFitsRefuse(t *testing.T) {
	nan := float32(math.NaN())
	empty := &Set{Valid: weekly(9), Mean: make([]float32, 9), Std: make([]float32, 9), Obs: make([]float32, 9)}
	for i := range empty.Obs {
		empty.Obs[i] = nan
	}
	short := &Set{Valid: weekly(9), Mean: make([]float32, 9), Std: make([]float32, 8), Obs: make([]float32, 9)}
	for name, fit := range map[string]func(s *Set) error{
		"emos": func(s *Set) error { _, err := FitEMOS(s, EMOSOptions{}); return err },
		"grid": func(s *Set) error { _, err := FitGridEMOS(s, GridEMOSOptions{}); return err },
	} {
		if err := fit(empty); !errors.Is(err, ErrNoCases) {
			t.Errorf("%s of nothing: %v", name, err)
		}
		if err := fit(short); err == nil {
			t.Errorf("%s took a set of unequal lengths", name)
		}
	}
}

func TestFolds(t *testing.T) {
	two := weekly(105) // 1990-01-03 to 1991-12-31
	two[104] = time.Date(1992, 1, 3, 0, 0, 0, 0, time.UTC)
	f := folds(two)
	if f[0] != 0 || f[51] != 0 || f[52] != 1 || f[104] != 1 {
		t.Errorf("years and a spilled date: %v", f)
	}
	if f := folds(weekly(8)); !slices.Equal(f, []int{0, 0, 1, 1, 2, 2, 3, 3}) {
		t.Errorf("one year: %v", f)
	}
	var many []time.Time
	for y := range 12 {
		many = append(many, time.Date(1990+y, 7, 1, 0, 0, 0, 0, time.UTC))
	}
	if f := folds(many); !slices.Equal(f, []int{0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4}) {
		t.Errorf("twelve years: %v", f)
	}
}

func BenchmarkFitGridEMOS(b *testing.B) {
	set := synthetic(105, 2048, 11, func(p int, _ time.Time, m, s float64) (float64, float64) { return m + float64(p%5), 0.5 + s })
	for b.Loop() {
		if _, err := FitGridEMOS(set, GridEMOSOptions{Strengths: []float64{1}}); err != nil {
			b.Fatal(err)
		}
	}
}

// A season does not determine a cycle of the bias, whatever its number of years; points
// whose dates lack part of the year have the coefficients of all points.
func TestNoSeasonFromLessThanMostOfAYear(t *testing.T) {
	bias := func(_ int, _ time.Time, m, s float64) (float64, float64) { return m - 2, 0.5 + s }
	whole := synthetic(200, 6, 3, bias)
	spring := whole.subset(func(i int) bool { m := whole.Valid[i].Month(); return m >= time.March && m <= time.May })
	for _, c := range []struct {
		of     *Set
		season bool
	}{{whole, true}, {spring, false}, {whole.subset(func(i int) bool { return whole.Valid[i].Month() <= time.June }), false},
		{whole.subset(func(i int) bool { return whole.Valid[i].Month() <= time.September }), true}} {
		g, err := FitGridEMOS(c.of, GridEMOSOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if has := g.Global[1] != 0 || g.Theta[1] != 0 || g.Theta[2] != 0; has != c.season || (g.Warning() == "") != c.season {
			t.Errorf("%s: coefficients %v, warning %q", describeDates(c.of.Valid), g.Theta[:gridTerms], g.Warning())
		}
		mu, sigma := make([]float32, 6), make([]float32, 6)
		g.Predict(mu, sigma, slices.Repeat([]float32{280}, 6), slices.Repeat([]float32{1.5}, 6), time.Date(2003, 9, 15, 0, 0, 0, 0, time.UTC))
		for p, v := range mu {
			if math.Abs(float64(v)-278) > 1.5 {
				t.Errorf("%s: %g K at point %d in September, want about 278", describeDates(c.of.Valid), v, p)
			}
		}
	}
	clim, err := FitClimatology(whole.subset(func(i int) bool { return whole.Valid[i].Month() <= time.September }))
	if err != nil || clim.Cycle[1] == 0 || clim.Cycle[3] != 0 || !strings.Contains(clim.Warning(), "no semi-annual part") {
		t.Errorf("nine months: %v, %q, %v", clim.Cycle[:harmonics], clim.Warning(), err)
	}
	gaps := &Set{Valid: whole.Valid, Mean: whole.Mean, Std: whole.Std, Obs: slices.Clone(whole.Obs), Weights: whole.Weights}
	for i, v := range gaps.Valid {
		if v.Month() > time.April {
			gaps.Obs[i*6+2] = float32(math.NaN())
		}
	}
	r, err := fitWithFallback(gaps, RegressionOptions{Harmonics: Seasonal})
	if err != nil {
		t.Fatal(err)
	}
	all, err := FitRegression(gaps, RegressionOptions{Harmonics: 1, Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Location[8:12], all.Location) || slices.Equal(r.Location[:4], all.Location) {
		t.Errorf("a point of four months has %v, all points %v", r.Location[8:12], all.Location)
	}
}
