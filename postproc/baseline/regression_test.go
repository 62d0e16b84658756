package baseline

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

var locationScale = []*dist.Family{dist.Normal, dist.Logistic, dist.TruncatedNormal, dist.TruncatedLogistic, dist.CensoredNormal, dist.CensoredLogistic, dist.LogNormal}

// draws makes dates × points cases of a family: location 1 + 0.8 m + season, scale by
// the link with c and d, m about level.
func draws(f *dist.Family, link Link, level, c, d float64, dates, points int, seed uint64) *Set {
	r := rand.New(rand.NewPCG(seed, 2))
	s := &Set{Valid: weekly(dates)}
	for _, v := range s.Valid {
		for range points {
			m, sd := level+2*r.NormFloat64(), 0.5+r.Float64()
			mu := 1 + 0.8*m + 0.7*math.Sin(ensemble.SeasonAngle(v))
			if regressionFamilyOf(f).moments {
				m = max(0, m)
				mu = 1 + 0.8*m
			}
			var sigma float64
			switch link {
			case LinearScale:
				sigma = c + d*sd
			case QuadraticScale:
				sigma = math.Sqrt(c + d*sd*sd)
			case LogScale:
				sigma = math.Exp(c + d*math.Log(sd))
			}
			s.Mean = append(s.Mean, float32(m))
			s.Std = append(s.Std, float32(sd))
			if regressionFamilyOf(f).moments {
				mu, sigma = dist.LogNormalFromMoments(mu, sigma)
			}
			s.Obs = append(s.Obs, float32(f.Quantile([]float64{mu, sigma}, r.Float64())))
		}
	}
	return s
}

// pointCRPS is the mean CRPS of a regression on the cases of one point.
func pointCRPS(r *Regression, s *Set, p int) float64 {
	n := s.Points()
	one := &Regression{Family: r.Family, Link: r.Link, Harmonics: r.Harmonics,
		Location: r.Location[p*r.locationTerms() : (p+1)*r.locationTerms()], Scale: r.Scale[p*scaleTerms : (p+1)*scaleTerms]}
	var sum float64
	mu, sigma := make([]float32, 1), make([]float32, 1)
	for i, v := range s.Valid {
		at := i*n + p
		one.Predict(mu, sigma, s.Mean[at:at+1], s.Std[at:at+1], v)
		sum += r.Family.CRPS(nil, []float64{float64(mu[0]), float64(sigma[0])}, float64(s.Obs[at]))
	}
	return sum / float64(len(s.Valid))
}

// The gradient is that of the value, and the curvature that of the gradient.
func TestRegressionDerivatives(t *testing.T) {
	for _, family := range locationScale {
		for _, link := range []Link{LinearScale, QuadraticScale, LogScale} {
			for harmonics := range maxHarmonics + 1 {
				if regressionFamilyOf(family).moments && harmonics > 0 {
					continue
				}
				t.Run(family.ID+"/"+string(link), func(t *testing.T) {
					s := draws(family, link, 1, 0.4, 0.6, 40, 3, 1)
					r := &Regression{Family: family, Link: link, Harmonics: harmonics}
					f := newFitter(r, len(s.Valid), seasonTable(s.Valid, harmonics))
					f.gather(s, 0, 3)
					const at = 1 // a lane that is neither first nor last
					set := func(x []float64) {
						for i, v := range x {
							*f.theta.at(i, at) = v
						}
					}
					x := make([]float64, f.terms)
					for i := range x {
						x[i] = *f.theta.at(i, at) + 0.05*float64(i+1)
					}
					q, first := newSums(), newSums()
					set(x)
					f.evaluateGo(first, f.theta)
					central := &fd.Settings{Formula: fd.Central}
					want := fd.Gradient(nil, func(x []float64) float64 { set(x); f.evaluateGo(q, f.theta); return *q.value(at) }, x, central)
					for i := range want {
						near(t, "gradient", *first.grad(i, at), want[i], 1e-7)
					}
					j := 0
					for a := range f.terms {
						row := fd.Gradient(nil, func(x []float64) float64 { set(x); f.evaluateGo(q, f.theta); return *q.grad(a, at) }, x, central)
						for b := range a + 1 {
							near(t, "curvature", *first.curv(j, at), row[b], 1e-5)
							j++
						}
					}
				})
			}
		}
	}
}

// Kernels and plain loops give the same sums, with gaps and with fewer points than lanes.
// Tolerance: sums of 40 terms near 1, each to some 1e-15.
func TestRegressionKernels(t *testing.T) {
	for _, link := range []Link{LinearScale, QuadraticScale, LogScale} {
		for harmonics := range maxHarmonics + 1 {
			s := draws(dist.Normal, link, 280, 0.4, 0.6, 40, lanes-1, 9)
			for p := range lanes - 1 {
				s.Obs[(p*7%40)*(lanes-1)+p] = float32(math.NaN())
			}
			r := &Regression{Family: dist.Normal, Link: link, Harmonics: harmonics}
			f := newFitter(r, len(s.Valid), seasonTable(s.Valid, harmonics))
			f.gather(s, 0, lanes-1)
			for i := range f.terms {
				for l := range lanes {
					*f.theta.at(i, l) += 0.02 * float64(i+l%5+1)
				}
			}
			got, want := newSums(), newSums()
			f.evaluate(got, f.theta)
			f.evaluateGo(want, f.theta)
			for l := range lanes - 1 {
				near(t, "count", *got.count(l), 39, 0)
				near(t, "value", *got.value(l), *want.value(l), 1e-13)
				for i := range f.terms {
					near(t, "gradient", *got.grad(i, l), *want.grad(i, l), 1e-13)
				}
				for i := range f.terms * (f.terms + 1) / 2 {
					near(t, "curvature", *got.curv(i, l), *want.curv(i, l), 1e-12)
				}
			}
		}
	}
}

func TestRegressionFindsTheTruth(t *testing.T) {
	for _, family := range locationScale {
		for _, c := range []struct {
			link Link
			c, d float64
		}{{LinearScale, 0.3, 0.8}, {QuadraticScale, 0.2, 0.7}, {LogScale, 0.1, 0.6}} {
			const dates, points = 4000, 2
			if regressionFamilyOf(family).moments && c.link != LinearScale {
				continue // TestRegressionAsSciPy has them
			}
			s := draws(family, c.link, 3, c.c, c.d, dates, points, 3)
			r, err := FitRegression(s, RegressionOptions{Family: family, Link: c.link, Harmonics: Seasonal})
			if err != nil {
				t.Fatal(err)
			}
			for p := range points {
				what := family.ID + " " + string(c.link)
				if regressionFamilyOf(family).moments {
					near(t, what+" A", r.Location[p*2], 1, 0.15)
					near(t, what+" B", r.Location[p*2+1], 0.8, 0.08)
					continue
				}
				// 4000 cases of scatter 1 to 2: 0.03 for a mean, a few times that for a
				// slope that trades with another.
				near(t, what+" B", r.Location[p*4+1], 0.8, 0.08)
				near(t, what+" A + 3B", r.Location[p*4]+3*r.Location[p*4+1], 3.4, 0.2)
				near(t, what+" P", r.Location[p*4+2], 0.7, 0.2)
				near(t, what+" Q", r.Location[p*4+3], 0, 0.2)
				sd := func(c, d float64) float64 { // at spread 1, where it is best known
					switch r.Link {
					case QuadraticScale:
						return math.Sqrt(c + d)
					case LogScale:
						return math.Exp(c)
					}
					return c + d
				}
				near(t, what+" scale", sd(r.Scale[p*2], r.Scale[p*2+1]), sd(c.c, c.d), 0.06)
			}
		}
	}
}

// What is found is a minimum: the general minimiser of EMOS finds none that is lower.
func TestRegressionAgreesWithEMOS(t *testing.T) {
	s := draws(dist.Normal, QuadraticScale, 280, 0.3, 0.9, 120, 20, 4)
	r, err := FitRegression(s, RegressionOptions{Link: QuadraticScale})
	if err != nil {
		t.Fatal(err)
	}
	for p := range 20 {
		own := &Set{Valid: s.Valid}
		for i := range s.Valid {
			own.Mean = append(own.Mean, s.Mean[i*20+p])
			own.Std = append(own.Std, s.Std[i*20+p])
			own.Obs = append(own.Obs, s.Obs[i*20+p])
		}
		e, err := FitEMOS(own, EMOSOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// The constant part of the variance is 1e-6 of the scatter's at least, and Predict
		// rounds to float32 at 280: 2e-5.
		near(t, "mean CRPS", pointCRPS(r, s, p), e.MeanCRPS(own), 2e-6)
	}
}

// Properties: the bits of a point depend neither on its neighbours nor on the number of
// processors; missing cases have no effect; a fit is never worse than its initial
// coefficients; a change of unit changes only the unit.
func TestRegressionLaws(t *testing.T) {
	const dates, points = 60, 37
	o := RegressionOptions{Harmonics: 1}
	s := draws(dist.Normal, LinearScale, 280, 0.3, 0.9, dates, points, 5)
	all, err := FitRegression(s, o)
	if err != nil {
		t.Fatal(err)
	}
	own := &Set{Valid: s.Valid}
	const at = 21
	for i := range s.Valid {
		own.Mean = append(own.Mean, s.Mean[i*points+at])
		own.Std = append(own.Std, s.Std[i*points+at])
		own.Obs = append(own.Obs, s.Obs[i*points+at])
	}
	alone, err := FitRegression(own, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := all.Location[at*4:(at+1)*4], alone.Location; !reflect.DeepEqual(got, want) {
		t.Errorf("among neighbours %v, alone %v", got, want)
	}
	procs := runtime.GOMAXPROCS(1)
	again, err := FitRegression(s, o)
	runtime.GOMAXPROCS(procs)
	if err != nil || !reflect.DeepEqual(again.Location, all.Location) {
		t.Errorf("one processor gives other bits (%v)", err)
	}

	nan := float32(math.NaN())
	cut := &Set{Valid: own.Valid[:50], Mean: own.Mean[:50], Std: own.Std[:50], Obs: own.Obs[:50]}
	want, err := FitRegression(cut, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := 50; i < dates; i++ {
		[][]float32{own.Mean, own.Std, own.Obs}[i%3][i] = nan
	}
	got, err := FitRegression(own, o)
	if err != nil || !reflect.DeepEqual(got.Location, want.Location) || !reflect.DeepEqual(got.Scale, want.Scale) {
		t.Errorf("with gaps %v, without these dates %v (%v)", got.Location, want.Location, err)
	}
	for i := range 41 { // fewer than twice six cases are left
		own.Obs[i] = nan
	}
	if few, err := FitRegression(own, o); !errors.Is(err, ErrNoCases) {
		t.Errorf("nine cases give %v (%v)", few, err)
	}

	milli := &Set{Valid: s.Valid}
	for i := range s.Obs {
		milli.Mean = append(milli.Mean, 1024*s.Mean[i])
		milli.Std = append(milli.Std, 1024*s.Std[i])
		milli.Obs = append(milli.Obs, 1024*s.Obs[i])
	}
	m, err := FitRegression(milli, o)
	if err != nil {
		t.Fatal(err)
	}
	for p := range points {
		near(t, "slope in another unit", m.Location[p*4+1], all.Location[p*4+1], 1e-9)
		near(t, "scale in another unit", m.Scale[p*2], 1024*all.Scale[p*2], 1e-6)
	}
}

func TestRegressionIsNeverWorseThanItsStart(t *testing.T) {
	for _, family := range locationScale {
		for _, link := range []Link{LinearScale, QuadraticScale, LogScale} {
			// Few cases, many zeros, spread without information: minima on the bounds.
			s := draws(family, LogScale, -1, 0.3, 0, 20, lanes, 6)
			r := &Regression{Family: family, Link: link, Steps: make([]int, lanes)}
			f := newFitter(r, len(s.Valid), nil)
			f.gather(s, 0, lanes)
			start, end := newSums(), newSums()
			active := f.active
			f.evaluateGo(start, f.theta)
			f.minimise(r.Steps)
			f.active = active
			f.evaluateGo(end, f.theta)
			for l := range lanes {
				if !active[l] || !(*end.value(l) <= *start.value(l)) || r.Steps[l] == 0 || r.Steps[l] >= newtonSteps {
					t.Errorf("%s %s lane %d: from %g to %g in %d steps", family.ID, link, l, *start.value(l), *end.value(l), r.Steps[l])
				}
			}
		}
	}
}

func TestRegressionRefuses(t *testing.T) {
	s := draws(dist.Normal, LinearScale, 280, 0.3, 0.9, 20, 2, 7)
	for _, o := range []RegressionOptions{{Family: dist.CSGamma}, {Link: "cubic"}, {Harmonics: 3}, {Harmonics: -2}} {
		if _, err := FitRegression(s, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	s.Std = s.Std[1:]
	if _, err := FitRegression(s, RegressionOptions{}); err == nil {
		t.Error("a set of unequal lengths was taken")
	}
}

// innsbruck reads a table of station forecasts of 11 members with the results of R. Rows with
// equal members are left out, as in R.
func innsbruck(t *testing.T, name, obs, member, date string, f func(float64) float64) (s *Set, reference map[string]json.RawMessage) {
	t.Helper()
	path := filepath.Join(testdata.Dir(t, "stations"), name)
	file, err := os.Open(path + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path + "_reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &reference); err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, head := range rows[0] {
		column[head] = i
	}
	number := func(row []string, head string) float64 {
		v, err := strconv.ParseFloat(row[column[head]], 64)
		if err != nil {
			t.Fatal(err)
		}
		return f(v)
	}
	s = &Set{}
	for _, row := range rows[1:] {
		var sum, square float64
		for m := range 11 {
			sum += number(row, member+"."+strconv.Itoa(m+1)) / 11
		}
		for m := range 11 {
			d := number(row, member+"."+strconv.Itoa(m+1)) - sum
			square += d * d / 10
		}
		if square < 1e-20 { // rounding of a mean of equal numbers
			continue
		}
		valid, err := time.Parse(time.DateOnly, row[column[date]][:10])
		if err != nil {
			t.Fatal(err)
		}
		s.Valid = append(s.Valid, valid)
		s.Mean = append(s.Mean, float32(sum))
		s.Std = append(s.Std, float32(math.Sqrt(square)))
		s.Obs = append(s.Obs, float32(number(row, obs)))
	}
	return s, reference
}

// The coefficients of least CRPS that R's crch finds, for rain (square root, censored at
// 0) and for minimum temperature. Tolerances: R stops where its score changes by less
// than 1e-8 of itself, which leaves coefficients some 1e-4 from the minimum; Predict
// rounds to float32, which moves a mean score by some 1e-9.
func TestRegressionAsR(t *testing.T) {
	values := func(raw json.RawMessage) (v []float64) {
		if json.Unmarshal(raw, &v) != nil {
			v = make([]float64, 1)
			if err := json.Unmarshal(raw, &v[0]); err != nil {
				t.Fatal(err)
			}
		}
		return v
	}
	compare := func(key string, s *Set, family *dist.Family, link Link, want []float64) *Regression {
		r, err := FitRegression(s, RegressionOptions{Family: family, Link: link})
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range []float64{r.Location[0], r.Location[1], r.Scale[0], r.Scale[1]} {
			near(t, key, got, want[i], 2e-3*max(1, math.Abs(want[i])))
		}
		rs := &Regression{Family: family, Link: link, Location: want[:2], Scale: want[2:]}
		if ours, theirs := pointCRPS(r, s, 0), pointCRPS(rs, s, 0); ours > theirs+1e-8 {
			t.Errorf("%s: mean CRPS %.9f, R's coefficients have %.9f", key, ours, theirs)
		}
		return r
	}
	rain, ref := innsbruck(t, "innsbruck_rain_gefs_day5-8", "rain", "rainfc", "date", math.Sqrt)
	for name, family := range map[string]*dist.Family{"logistic": dist.CensoredLogistic, "gaussian": dist.CensoredNormal} {
		key := "censored." + name + ".crps"
		r := compare(key, rain, family, LogScale, values(ref[key+".coef"]))
		near(t, key, pointCRPS(r, rain, 0), values(ref[key+".mean_crps_insample"])[0], 1e-7)
	}
	cold, ref := innsbruck(t, "innsbruck_tmin_gefs_18-30h", "temp", "tempfc", "time", func(v float64) float64 { return v })
	train := cold.subset(func(i int) bool { return cold.Valid[i].Year() < 2011 })
	test := cold.subset(func(i int) bool { return cold.Valid[i].Year() >= 2011 })
	for name, family := range map[string]*dist.Family{"logistic": dist.Logistic, "gaussian": dist.Normal} {
		for link, part := range map[Link]string{LogScale: "", QuadraticScale: ".quadratic"} {
			key := name + ".crps" + part
			r := compare(key, train, family, link, values(ref[key+".coef"]))
			near(t, key, pointCRPS(r, test, 0), values(ref[name+".crps"+part+".test_mean_crps"])[0], 1e-4)
		}
	}
}

func BenchmarkFitRegression(b *testing.B) {
	for _, dates := range []int{200, 1500} {
		s := draws(dist.Normal, LinearScale, 280, 0.3, 0.9, dates, 512, 8)
		b.Run(strconv.Itoa(dates), func(b *testing.B) {
			for b.Loop() {
				if _, err := FitRegression(s, RegressionOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/512, "µs/point")
		})
	}
}

// Coefficients that SciPy finds with a score by quadrature (testdata/regression.py).
// Tolerances: Nelder-Mead stops where the score is flat to 1e-13, and so coefficients
// within 1e-6; a constant part of the scale that wants to be 0 ends at its bound, a
// millionth of the variance above, which moves its partner too. Predict rounds to float32.
func TestRegressionAsSciPy(t *testing.T) {
	text, err := os.ReadFile("testdata/regression.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Family         string
		Link           Link
		Mean, Std, Obs []float32
		Coefficients   []float64
		CRPS           float64
	}
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) != 22 {
		t.Fatal(err, len(rows))
	}
	for _, c := range rows {
		what := c.Family + " " + string(c.Link)
		s := &Set{Valid: weekly(len(c.Obs)), Mean: c.Mean, Std: c.Std, Obs: c.Obs}
		if c.Family == dist.CSGamma.ID {
			e, err := FitGammaEMOS(s)
			if err != nil {
				t.Fatal(err)
			}
			near(t, what+" mean CRPS", MethodByID("emos_csg").crps(e, s), c.CRPS, 1e-7)
			for i, got := range []float64{e.A, e.B, e.C, e.D, e.Q} {
				near(t, what, got, c.Coefficients[i], 1e-3) // BFGS ends where the score is flat to 1e-11
			}
			continue
		}
		r, err := FitRegression(s, RegressionOptions{Family: dist.FamilyByID(c.Family, 2), Link: c.Link})
		if err != nil {
			t.Fatal(err)
		}
		near(t, what+" mean CRPS", pointCRPS(r, s, 0), c.CRPS, 2e-8)
		tolerance := 1e-6
		if c.Coefficients[2] < 1e-6 && c.Link != LogScale {
			tolerance = 5e-6
		}
		for i, got := range []float64{r.Location[0], r.Location[1], r.Scale[0], r.Scale[1]} {
			near(t, what, got, c.Coefficients[i], tolerance)
		}
	}
}

// One set of coefficients for all points: of a single point it is the point's own; it is
// the minimum that the general minimiser finds; weights and gaps count; processors do not.
func TestRegressionPooled(t *testing.T) {
	for _, family := range locationScale {
		s := draws(family, LinearScale, 3, 0.4, 0.6, 60, 1, 12)
		o := RegressionOptions{Family: family}
		own, err := FitRegression(s, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Pooled = true
		pooled, err := FitRegression(s, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range append(slices.Clone(own.Location), own.Scale...) {
			near(t, family.ID, append(slices.Clone(pooled.Location), pooled.Scale...)[i], v, 1e-6)
		}
	}
	const dates, points = 30, 300
	s := draws(dist.Normal, QuadraticScale, 280, 0.3, 0.9, dates, points, 13)
	for p := range points {
		s.Weights = append(s.Weights, float64(1+p%3))
		s.Obs[(p%dates)*points+p] = float32(math.NaN())
	}
	o := RegressionOptions{Link: QuadraticScale, Pooled: true}
	r, err := FitRegression(s, o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := FitEMOS(s, EMOSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "B", r.Location[1], e.Beta, 1e-5)
	near(t, "mean", r.Location[0]+280*r.Location[1], e.Alpha+280*e.Beta, 1e-4)
	near(t, "C", r.Scale[0], e.Gamma*e.Gamma, 1e-4)
	near(t, "D", r.Scale[1], e.Delta*e.Delta, 1e-4)
	procs := runtime.GOMAXPROCS(1)
	again, err := FitRegression(s, o)
	runtime.GOMAXPROCS(procs)
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("one processor gives other bits (%v)", err)
	}
	for _, o := range []RegressionOptions{{Pooled: true, ScaleOnly: true}, {Family: dist.LogNormal, Harmonics: 1}, {Family: dist.LogNormal, ScaleOnly: true}} {
		if _, err := FitRegression(s, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// Where a point has no fit of its own a method forecasts with that of all points.
func TestRegressionEverywhere(t *testing.T) {
	s := wind(80, 5, 4, 6)
	for i := range 75 {
		s.Obs[i*5+2] = float32(math.NaN())
	}
	f, err := MethodByID("emos_point").Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	out := f.Forecast(s.raw(77))
	all, err := FitRegression(s, RegressionOptions{Pooled: true, Harmonics: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := all.Forecast(s.raw(77))
	if out[0][2] != want[0][2] || out[1][2] != want[1][2] || out[0][1] == want[0][1] {
		t.Errorf("got %v, that of all points is %v", out, want)
	}
}

// SAMOS finds the truth that all places and seasons share, though these differ.
func TestSAMOSFindsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	const dates, points = 520, 30
	s := &Set{Valid: weekly(dates)}
	for _, v := range s.Valid {
		season := math.Sin(ensemble.SeasonAngle(v))
		for p := range points {
			k := float64(p)
			sf, so := 1+k/30, 2+k/10
			z, sd := r.NormFloat64(), 0.3+0.4*r.Float64()
			s.Mean = append(s.Mean, float32(270+k+8*season+sf*z))
			s.Std = append(s.Std, float32(sf*sd))
			s.Obs = append(s.Obs, float32(280-k+5*season+so*(0.8*z+0.6*math.Sqrt(sd/0.5)*r.NormFloat64())))
		}
	}
	b, err := FitSAMOS(s)
	if err != nil {
		t.Fatal(err)
	}
	// The anomalies' own scatter is √(0.64 + 0.36) = 1; 15 600 cases.
	near(t, "a", b.Regression.Location[0], 0, 0.02)
	near(t, "b", b.Regression.Location[1], 0.8, 0.02)
	near(t, "log scale at 0.5", b.Regression.Scale[0]+b.Regression.Scale[1]*math.Log(0.5), math.Log(0.6), 0.03)
	near(t, "d", b.Regression.Scale[1], 0.5, 0.05)
	short := s.subset(func(i int) bool { return s.Valid[i].Month() < time.April })
	if b, err = FitSAMOS(short); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.Warning(), "do not determine a seasonal cycle") {
		t.Errorf("a climatology of three months: note %q", b.Warning())
	}
}

// Rain that follows the censored, shifted gamma distribution gives its coefficients back;
// nothing but zeros gives none.
func TestGammaEMOSFindsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	s := &Set{}
	truth := &GammaEMOS{A: 0.5, B: 0.9, C: 0.4, D: 1.5, Q: 0.3}
	for range 4000 {
		m := max(0, 4*r.ExpFloat64()-1)
		k, theta, q := truth.parameters(m)
		s.Mean, s.Std = append(s.Mean, float32(m)), append(s.Std, 1)
		s.Obs = append(s.Obs, float32(dist.CSGammaQuantile(k, theta, q, r.Float64())))
	}
	s.Valid = weekly(len(s.Obs))
	e, err := FitGammaEMOS(s)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean at 0, less the shift", e.A-e.Q, truth.A-truth.Q, 0.05)
	near(t, "B", e.B, truth.B, 0.05)
	near(t, "variance at 3", e.C+3*e.D, truth.C+3*truth.D, 0.5)
	clear(s.Obs)
	if e, err := FitGammaEMOS(s); !errors.Is(err, ErrNoCases) {
		t.Errorf("never rain gives %v (%v)", e, err)
	}
}

// The gradient of its score is that of the score.
func TestGammaEMOSDerivatives(t *testing.T) {
	e := &GammaEMOS{A: 0.5, B: 0.9, C: 0.4, D: 1.5, Q: 0.3}
	for _, y := range []float64{0, 0.7, 6} {
		score := func(x []float64) float64 {
			return dist.CSGamma.CRPS(nil, []float64{x[0] * x[0] / x[1], x[1] / x[0], x[2]}, y)
		}
		_, dm, dv, dq := e.crps(2, y)
		want := fd.Gradient(nil, score, []float64{e.A + 2*e.B, e.C + 2*e.D, e.Q}, &fd.Settings{Formula: fd.Central})
		for i, got := range []float64{dm, dv, dq} {
			near(t, fmt.Sprintf("derivative %d at %g", i, y), got, want[i], 1e-7)
		}
	}
}

// ScaleOnly leaves the location at the ensemble mean, even with a large bias, and the scale is
// a local optimum.
func TestRegressionScaleOnly(t *testing.T) {
	for _, link := range []Link{LinearScale, QuadraticScale, LogScale} {
		s := draws(dist.Normal, link, 280, 0.4, 0.6, 60, 3, 5)
		for i := range s.Obs {
			s.Obs[i] += float32(i % 3) // a bias of 0, 1 and 2
		}
		r, err := FitRegression(s, RegressionOptions{Link: link, ScaleOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for p := range 3 {
			near(t, "constant", r.Location[2*p], 0, 1e-9)
			near(t, "slope", r.Location[2*p+1], 1, 1e-12)
			best := pointCRPS(r, s, p)
			for _, step := range [][2]float64{{1.05, 1}, {0.95, 1}, {1, 1.05}, {1, 0.95}} {
				c := r.Scale[2*p:][:2]
				kept := [2]float64(c)
				c[0], c[1] = step[0]*c[0], step[1]*c[1]
				if v := pointCRPS(r, s, p); v < best*(1-1e-6) { // predictions are rounded to 24 bits
					t.Errorf("%s, point %d: %.10g times %v scores %.10g, the fit %.10g", link, p, kept, step, v, best)
				}
				copy(c, kept[:])
			}
		}
	}
	if _, err := FitRegression(draws(dist.Normal, LinearScale, 1, 0.4, 0.6, 20, 1, 1), RegressionOptions{ScaleOnly: true, Harmonics: 1}); err == nil {
		t.Error("a season of what is not fitted: accepted")
	}
}
