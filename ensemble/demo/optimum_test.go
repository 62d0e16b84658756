package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// proof is a benchmark of one year in which each case has a small oracle.
var proof = Optimum{Seed: 5, Years: 1, TestYears: 1, Interval: 9 * 24 * time.Hour, Members: 2, OracleMembers: 9,
	Leads: []ensemble.Lead{0, ensemble.Lead(48 * time.Hour)}}

// proofCases are made once for the tests that only look at them.
var proofCases = sync.OnceValues(func() (cases []*OptimumCase, err error) {
	err = GenerateOptimum(context.Background(), proof, proof.YearNumbers(), func(c *OptimumCase) error { cases = append(cases, c); return nil })
	return cases, err
})

// draws returns truth and the oracle's members at one lead, truth first.
func (c *OptimumCase) draws(lead, variable, level int) [][]float32 {
	out := [][]float32{c.Analyses[lead].Field(variable, level)}
	for m := range c.Oracle.Members {
		out = append(out, c.Oracle.Field(lead, m, variable, level))
	}
	return out
}

// eachProof calls visit for the variables, levels and leads of the proof.
func eachProof(t *testing.T, visit func(name string, lead, variable, level int, cases []*OptimumCase)) {
	t.Helper()
	cases, err := proofCases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 41 {
		t.Fatalf("%d cases in a year, one every nine days", len(cases))
	}
	for l, lead := range proof.Leads {
		for v, variable := range Variables {
			for k, level := range Levels {
				visit(fmt.Sprintf("%s %s +%s", variable, level, lead), l, v, k, cases)
			}
		}
	}
}

// The rank of truth among the members is uniform. Cases are independent given their analyses, neighbouring points are not, so
// each test counts one point of each case. Of 160 tests the smallest p value is above 10⁻⁶ with a probability of 0.9998.
func TestRankOfTruthIsUniform(t *testing.T) {
	chi := distuv.ChiSquared{K: float64(proof.OracleMembers)}
	eachProof(t, func(name string, lead, variable, level int, cases []*OptimumCase) {
		for p := npoint / 16; p < npoint; p += npoint / 8 {
			counts := make([]float64, proof.OracleMembers+1)
			for _, c := range cases {
				x, rank := c.draws(lead, variable, level), 0
				for _, member := range x[1:] {
					if member[p] < x[0][p] {
						rank++
					}
				}
				counts[rank]++
			}
			var sum float64
			want := float64(len(cases)) / float64(len(counts))
			for _, n := range counts {
				sum += (n - want) * (n - want) / want
			}
			if p0 := chi.Survival(sum); p0 < 1e-6 {
				t.Errorf("%s at point %d: ranks %v, p value %.2g", name, p, counts, p0)
			}
		}
	})
}

// standardScore is the mean of independent numbers divided by its standard error.
func standardScore(x []float64) float64 {
	var mean, square float64
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / (n - 1)
	}
	return mean / math.Sqrt(square/n)
}

// The variance of the members times (n+1)/n is the mean square error of their mean: the difference is 0 within its sampling
// error over the cases, which is that of a few per cent. So is the difference of truth from their mean over the area.
func TestSpreadIsError(t *testing.T) {
	weights := Grid().Weights()
	n := float64(proof.OracleMembers)
	eachProof(t, func(name string, lead, variable, level int, cases []*OptimumCase) {
		var excess, bias []float64
		var variance, mse float64
		for _, c := range cases {
			x := c.draws(lead, variable, level)
			var ownVariance, ownError, ownBias float64
			for p, w := range weights {
				var mean, square float64
				for _, member := range x[1:] {
					mean += float64(member[p]) / n
				}
				for _, member := range x[1:] {
					square += (float64(member[p]) - mean) * (float64(member[p]) - mean) / (n - 1)
				}
				e := float64(x[0][p]) - mean
				ownVariance, ownError, ownBias = ownVariance+w*square*(n+1)/n, ownError+w*e*e, ownBias+w*e
			}
			variance, mse = variance+ownVariance, mse+ownError
			excess, bias = append(excess, ownVariance-ownError), append(bias, ownBias)
		}
		ratio := math.Sqrt(variance / mse)
		if z := standardScore(excess); math.Abs(z) > 4 || ratio < 0.93 || ratio > 1.07 {
			t.Errorf("%s: spread/error %.3f, %.1f standard errors from 1", name, ratio, z)
		}
		if z := standardScore(bias); math.Abs(z) > 4 && variable != 0 { // the mean height has no meaning for the dynamics
			t.Errorf("%s: mean error of %.1f standard errors", name, z)
		}
	})
}

// Truth and a member change places: the distance from the mean of all others, over the cases, is among those of the members.
func TestTruthIsAMember(t *testing.T) {
	weights := Grid().Weights()
	eachProof(t, func(name string, lead, variable, level int, cases []*OptimumCase) {
		distance := make([]float64, proof.OracleMembers+1)
		for _, c := range cases {
			x := c.draws(lead, variable, level)
			for p, w := range weights {
				var sum float64
				for _, member := range x {
					sum += float64(member[p])
				}
				for m, member := range x {
					d := float64(member[p]) - (sum-float64(member[p]))/float64(len(x)-1)
					distance[m] += w * d * d
				}
			}
		}
		var mean, square float64
		for _, d := range distance[1:] {
			mean += d / float64(proof.OracleMembers)
		}
		for _, d := range distance[1:] {
			square += (d - mean) * (d - mean) / float64(proof.OracleMembers-1)
		}
		if z := (distance[0] - mean) / math.Sqrt(square*(1+1/float64(proof.OracleMembers))); math.Abs(z) > 6 {
			t.Errorf("%s: truth is %.1f standard deviations of the members from their mean distance", name, z)
		}
	})
}

// What methods see is imperfect: the members do not start from the draws of the oracle, and their error at 48 h is
// larger than its.
func TestForecastsOfTheOptimumAreImperfect(t *testing.T) {
	weights := Grid().Weights()
	eachProof(t, func(name string, lead, variable, level int, cases []*OptimumCase) {
		if lead == 0 {
			return
		}
		var control, perfect float64
		for _, c := range cases {
			x := c.draws(lead, variable, level)
			own := c.Forecast.Field(lead, 0, variable, level)
			for p, w := range weights {
				var mean float64
				for _, member := range x[1:] {
					mean += float64(member[p]) / float64(len(x)-1)
				}
				a, b := float64(own[p]-x[0][p]), mean-float64(x[0][p])
				control, perfect = control+w*a*a, perfect+w*b*b
			}
		}
		if control < 1.1*perfect {
			t.Errorf("%s: mean square error of the control %.3g, of the oracle's mean %.3g", name, control, perfect)
		}
	})
}

// caseWriter is a Writer that keeps what it is given, and stops after some files.
type caseWriter struct {
	forecasts map[string]*ensemble.Forecast
	analyses  map[string][]*ensemble.Analysis
	stopAfter int // files; 0: never
	stop      func()
}

func (w *caseWriter) wrote() error {
	if len(w.forecasts)+len(w.analyses) == w.stopAfter {
		w.stop()
	}
	return nil
}

func (w *caseWriter) WriteEnsembleGRIB2(_ context.Context, path string, f *ensemble.Forecast) error {
	w.forecasts[path] = f
	return w.wrote()
}

func (w *caseWriter) WriteEnsembleNetCDF(context.Context, string, *ensemble.Forecast) error {
	return errors.New("not a format of the benchmark")
}

func (w *caseWriter) WriteAnalyses(_ context.Context, path string, as []*ensemble.Analysis) error {
	w.analyses[path] = as
	return w.wrote()
}

func newCaseWriter() *caseWriter {
	return &caseWriter{forecasts: map[string]*ensemble.Forecast{}, analyses: map[string][]*ensemble.Analysis{}, stop: func() {}}
}

// A generation that stops in the second year and continues with three threads and fewer members of the oracle has the same
// bits as one without a stop on one thread.
func TestOptimumIsRepeated(t *testing.T) {
	o := Optimum{Seed: 2, Years: 2, TestYears: 2, Interval: 183 * 24 * time.Hour, Members: 2, OracleMembers: 3, Leads: []ensemble.Lead{0, ensemble.Lead(6 * time.Hour)}, Threads: 1}
	whole := newCaseWriter()
	var all []OptimumYear
	if err := WriteOptimum(t.Context(), o, "d", o.YearNumbers(), whole, func(y OptimumYear) error { all = append(all, y); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(all[0].Forecasts) != 2 || len(all[0].Oracle) != 2 || all[0].Analyses != "d/optimum_an_2001.nc" || all[0].Forecasts[0] != "d/optimum_fc_2001010100.grib2" ||
		all[0].Oracle[1] != "d/optimum_or_2001070300.grib2" || len(whole.analyses[all[0].Analyses]) != 4 {
		t.Errorf("files %+v", all)
	}
	parts := newCaseWriter()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	parts.stopAfter, parts.stop = 6, cancel // the first year has five files
	o.Threads = 3
	var done []int
	finished := func(y OptimumYear) error { done = append(done, y.Year); return nil }
	if err := WriteOptimum(ctx, o, "d", o.YearNumbers(), parts, finished); !errors.Is(err, context.Canceled) || !slices.Equal(done, []int{2001}) {
		t.Fatalf("stopped in the second year: error %v, finished %v", err, done)
	}
	parts.stopAfter = 0
	o.OracleMembers = 2
	if err := WriteOptimum(t.Context(), o, "d", []int{2002}, parts, finished); err != nil || !slices.Equal(done, []int{2001, 2002}) {
		t.Fatalf("continued: error %v, finished %v", err, done)
	}
	if len(parts.forecasts) != len(whole.forecasts) || len(parts.analyses) != len(whole.analyses) {
		t.Errorf("%d and %d files, want %d and %d", len(parts.forecasts), len(parts.analyses), len(whole.forecasts), len(whole.analyses))
	}
	for path, f := range parts.forecasts {
		of := whole.forecasts[path]
		for l := range f.Axes.Leads {
			for m := range f.Members {
				if f.Members[m] != of.Members[m] || !slices.Equal(f.Field(l, m, 0, 0), of.Field(l, m, 0, 0)) || !slices.Equal(f.Field(l, m, 4, 1), of.Field(l, m, 4, 1)) {
					t.Errorf("%s: member %s differs at lead %s", path, f.Members[m], f.Axes.Leads[l])
				}
			}
		}
	}
	for path, as := range parts.analyses {
		for i, a := range as {
			if of := whole.analyses[path][i]; !a.Valid.Equal(of.Valid.Time) || !slices.Equal(a.Values, of.Values) {
				t.Errorf("%s: analysis of %s differs", path, a.Valid)
			}
		}
	}
}

// Draws of different cases and members differ, also where the index of one ends as that of another begins.
func TestDrawsDiffer(t *testing.T) {
	w, err := newOptimumWorld(proof)
	if err != nil {
		t.Fatal(err)
	}
	psi := &w.world.analysis[0]
	noise(psi, stream(1, forSpinUp, 0), seedPeak, 0.5)
	for i := range w.cfg.Inits {
		w.natural.vorticity(&w.world.analysis[i], psi)
		w.breeding[i] = w.world.analysis[i]
	}
	f := w.newForecaster()
	norms := map[float64]string{}
	first := f.errorsOf(0)
	for _, i := range []int{0, 1, 2} {
		d := *first // the same weather and season
		d.i = i
		for _, m := range []int{truthMember, 1, 2} {
			e := d.draw(m)
			n := windNorm(&e)
			if other, twice := norms[n]; twice {
				t.Errorf("case %d, member %d has the draw of %s", i, m, other)
			}
			norms[n] = fmt.Sprintf("case %d, member %d", i, m)
		}
	}
}

func TestOptimumIsChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Optimum
	}{
		{"more test years than years", Optimum{Years: 2, TestYears: 3}},
		{"no years", Optimum{Years: -1}},
		{"an oracle of one member", Optimum{OracleMembers: 1}},
		{"more members than the random streams", Optimum{OracleMembers: 1 << memberBits}},
		{"analyses of one time", Optimum{Interval: 24 * time.Hour}},
		{"more members of reforecasts than of forecasts", Optimum{Members: 4, ReforecastMembers: 5}},
		{"a lead between the cycles", Optimum{Leads: []ensemble.Lead{ensemble.Lead(time.Hour)}}},
	} {
		err := GenerateOptimum(t.Context(), c.o, []int{2001}, func(*OptimumCase) error { return nil })
		if err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	small := Optimum{Years: 1, TestYears: 1}
	for _, year := range []int{2000, 2002} {
		if err := GenerateOptimum(t.Context(), small, []int{year}, func(*OptimumCase) error { return nil }); err == nil {
			t.Errorf("year %d is not one of %v, but there is no error", year, small.YearNumbers())
		}
	}
	o, err := Optimum{}.WithDefaults()
	if err != nil || o.Years != 23 || o.TestYears != 2 || o.OracleMembers != 100 || o.Members != 10 || o.Interval != 7*24*time.Hour || len(o.Leads) != 3 {
		t.Errorf("defaults %+v, %v", o, err)
	}
}

// Reforecasts start on the days of the test years and have fewer members, which are the first of those of one series; the cost
// counts them.
func TestReforecasts(t *testing.T) {
	o := Optimum{Seed: 2, Years: 2, TestYears: 1, Interval: 100 * 24 * time.Hour, Members: 3, OracleMembers: 2, Leads: []ensemble.Lead{0, ensemble.Lead(6 * time.Hour)}}
	generate := func(o Optimum, years []int) (cases []*OptimumCase) {
		if err := GenerateOptimum(t.Context(), o, years, func(c *OptimumCase) error { cases = append(cases, c); return nil }); err != nil {
			t.Fatal(err)
		}
		return cases
	}
	series := generate(o, []int{2001}) // 1 January, 11 April, 20 July, 28 October
	o.ReforecastMembers = 2
	cases := generate(o, o.YearNumbers())
	days := []string{"01-01", "04-11", "07-20"}
	if len(series) != 4 || len(cases) != 6 {
		t.Fatalf("%d cases in a series, %d with reforecasts", len(series), len(cases))
	}
	for i, c := range cases {
		f, members := c.Forecast, 2+i/3
		if f.Init.Format("01-02") != days[i%3] || f.Init.Year() != 2001+i/3 || len(f.Members) != members || (c.Oracle != nil) != (i >= 3) {
			t.Errorf("%s: %d members, oracle %v", f.Init, len(f.Members), c.Oracle != nil)
		}
		for m := range f.Members {
			if i < 3 && !slices.Equal(f.Field(1, m, 0, 0), series[i].Forecast.Field(1, m, 0, 0)) {
				t.Errorf("%s: member %d is not that of a series", f.Init, m)
			}
		}
	}
	if cost, err := o.Cost(o.YearNumbers()); err != nil || cost.Cases != 6 || cost.Fields != (6+3*2+3*3+3*2)*2*10 {
		t.Errorf("cost %+v, %v", cost, err)
	}
}

// The predicted numbers of cases, fields and steps are those of the generation.
func TestOptimumCost(t *testing.T) {
	o := Optimum{Seed: 2, Years: 3, TestYears: 1, Interval: 100 * 24 * time.Hour, Members: 2, OracleMembers: 3}
	c, err := o.Cost([]int{2002, 2003})
	if err != nil {
		t.Fatal(err)
	}
	// 2002: 5 February, 16 May, 24 August, 2 December; 2003: 12 March, 20 June, 28 September.
	const cases, oracles = 7, 3
	history := (90 + 30 + 1000) * 24
	steps := history + cases*(5*36+2*48) + cases*36 + (cases+oracles*3)*(36+48)
	if c.Cases != cases || c.Oracles != oracles || c.Steps != int64(steps) || c.Fields != (cases+cases*2+oracles*3)*30 || c.Processor <= 0 || c.Bytes <= 0 {
		t.Errorf("%+v, want %d cases, %d oracles, %d steps", c, cases, oracles, steps)
	}
	if c, err := o.Cost(nil); err != nil || c != (OptimumCost{}) {
		t.Errorf("no years cost %+v, %v", c, err)
	}
}
