package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// A value lies inside its interval, even if resampling moves it to one side; limits stay
// within the range of the score; the dates that a value rests on are counted.
func TestValueInsideItsInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	systems := []System{{Name: "network", Provides: Mean | Spread}, {Name: "raw", Provides: Members}}
	a, err := New(Target{Variable: "tp", Unit: "kg m-2"}, Grid{Weights: []float64{1, 1, 1, 1, 1, 1}}, systems, Options{Scores: IDs(), Thresholds: []float64{0.15, 0.55}})
	if err != nil {
		t.Fatal(err)
	}
	rain := func(int) float64 { return max(0, r.ExpFloat64()-0.5) }
	for k := range 20 {
		members := [][]float32{field(6, rain), field(6, rain), field(6, rain), field(6, rain)}
		mean, spread := field(6, rain), field(6, func(int) float64 { return 0.6 })
		if err := a.Add(day(k), Reference{Obs: field(6, rain)}, []Sample{{Mean: mean, Spread: spread}, {Members: members}}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := a.Result(significance.Bootstrap{}, a.Pairs("network", "raw"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range res.Scores {
		if !(v.CILow <= v.Value && v.Value <= v.CIHigh) && !math.IsNaN(float64(v.CILow)) {
			t.Errorf("%s of %s: %g, interval %g to %g", v.ID, v.System, v.Value, v.CILow, v.CIHigh)
		}
		if (v.NoInterval == "") == math.IsNaN(float64(v.CILow)) {
			t.Errorf("%s of %s: interval %g to %g, reason %q", v.ID, v.System, v.CILow, v.CIHigh, v.NoInterval)
		}
		if ByID(v.ID).Better == Nominal && (v.CILow < 0 || v.CIHigh > 1) {
			t.Errorf("%s: %g to %g", v.ID, v.CILow, v.CIHigh)
		}
		if v.ID == "crps_gauss" && !(v.Independent > 6 && v.Independent <= 20) {
			t.Errorf("%g independent dates of 20", v.Independent)
		}
	}
	for _, c := range res.Comparisons {
		if (c.NoInterval == "") == math.IsNaN(float64(c.CILow)) || c.NoInterval == "" && !(c.CILow <= c.SkillScore && c.SkillScore <= c.CIHigh && c.CIHigh <= 1 && c.Independent > 2) {
			t.Errorf("%s relative to %s: %g, interval %g to %g, reason %q, %g independent dates", c.ID, c.Reference, c.SkillScore, c.CILow, c.CIHigh, c.NoInterval, c.Independent)
		}
	}
	for _, d := range res.Diagrams {
		column := slices.Index(d.Columns, d.IntervalColumn)
		for i, row := range d.Rows {
			if x := row[column]; !(d.Low[i] <= x && x <= d.High[i]) && !math.IsNaN(float64(d.Low[i])) {
				t.Errorf("%s of %s: %g, interval %g to %g", d.ID, d.System, x, d.Low[i], d.High[i])
			}
		}
	}
}

// Reliability and resolution of a distribution and of members are taken over the same groups:
// equal probabilities have equal parts. A date without any value is no date of the sample.
func TestDecompositionsHaveTheSameGroups(t *testing.T) {
	systems := []System{{Name: "family", Provides: Mean | Spread}, {Name: "raw", Provides: Members}}
	a, err := New(t850, Grid{Weights: []float64{1}}, systems, Options{Scores: []string{"brier_resolution", "brier_reliability"}, Thresholds: []float64{0}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for k := range 40 {
		above := k % 5 // of 4 members
		members := make([][]float32, 4)
		for m := range members {
			members[m] = []float32{-1}
			if m < above {
				members[m] = []float32{1}
			}
		}
		// A normal distribution with nearly the same probability, another one on each date.
		p := min(max(float64(above)/4+0.1*(r.Float64()-0.5), 0.001), 0.999)
		mean := math.Sqrt2 * math.Erfinv(2*p-1)
		obs := float32(1 - 2*(k*k%3%2))
		if k == 7 {
			obs = float32(math.NaN())
		}
		if err := a.Add(day(k), Reference{Obs: []float32{obs}}, []Sample{{Mean: []float32{float32(mean)}, Spread: []float32{1}}, {Members: members}}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := a.Result(significance.Bootstrap{Resamples: 50}, nil)
	if err != nil {
		t.Fatal(err)
	}
	one, other := res.Find("brier_resolution", "family", "t", "850hPa", "96h"), res.Find("brier_resolution", "raw", "t", "850hPa", "96h")
	if math.Abs(float64(one.Value-other.Value)) > 1e-12 || one.Formula != "sum_k n_k (o_k-<o>)^2 / n, p in 5 groups" {
		t.Errorf("resolution %g of %q, and %g of the members", one.Value, one.Formula, other.Value)
	}
	if one.N != 39 || one.Missing != 1 {
		t.Errorf("%d dates, %d points missing, want 39 and 1", one.N, one.Missing)
	}
}

// A value that a file states as 0.1 is not above 0.1, whatever its precision: all thresholds
// count in one way.
func TestThresholdsInThePrecisionOfData(t *testing.T) {
	thresholds := []float64{0.1, 0.2, 0.3, 0.7, 1, 280.15}
	systems := []System{{Name: "raw", Provides: Members}}
	a, err := New(t850, Grid{Weights: []float64{1, 1, 1, 1, 1, 1}}, systems, Options{Scores: []string{"brier", "brier_uncertainty", "rps"}, Thresholds: thresholds})
	if err != nil {
		t.Fatal(err)
	}
	// Each point has the value of one threshold, converted from degC or not.
	equal := field(6, func(p int) float64 { return thresholds[p] })
	equal[5] = float32(float64(float32(7)) + 273.15)
	if err := a.Add(day(0), Reference{Obs: equal}, []Sample{{Members: [][]float32{equal, equal}}}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Scores {
		if v.ID != "brier_uncertainty" {
			near(t, v.ID+" of members that are equal to the observation", v.Value, 0, 0)
			continue
		}
		above := float64(5-slices.Index(thresholds, float64(v.Threshold))) / 6
		if want := above * (1 - above); math.Abs(float64(v.Value)-want) > 1e-12 {
			t.Errorf("above %g: uncertainty %g, want %g of %g exceedances", v.Threshold, v.Value, want, above)
		}
	}
}

// overconfident are normal forecasts with too small a spread. Their errors have unit variance, of which a part is common
// to the points of a date, with memory from date to date.
type overconfident struct {
	points            int
	spread, threshold float64
	common            float64 // part of the variance of errors that is common to the points of a date
}

// dates adds n dates to a new accumulator, with correlation rho of neighbouring dates. Scores are added to
// calibrationScores.
func (o overconfident) dates(t *testing.T, r *rand.Rand, n int, rho float64, scores ...string) *Accumulator {
	t.Helper()
	weights := slices.Repeat([]float64{1}, o.points)
	a, err := New(t850, Grid{Weights: weights}, []System{{Name: "network", Provides: Mean | Spread}}, Options{Scores: append(scores, calibrationScores...), Thresholds: []float64{o.threshold}})
	if err != nil {
		t.Error(err)
	}
	shared := r.NormFloat64()
	for k := range n {
		mean, obs := make([]float32, o.points), make([]float32, o.points)
		for p := range mean {
			m := r.NormFloat64()
			mean[p], obs[p] = float32(m), float32(m+math.Sqrt(o.common)*shared+math.Sqrt(1-o.common)*r.NormFloat64())
		}
		sample := Sample{Mean: mean, Spread: slices.Repeat([]float32{float32(o.spread)}, o.points)}
		if err := a.Add(day(k), Reference{Obs: obs}, []Sample{sample}); err != nil {
			t.Error(err)
		}
		shared = rho*shared + math.Sqrt(1-rho*rho)*r.NormFloat64()
	}
	return a
}

// calibrationScores are the scores of calibration whose true values are known.
var calibrationScores = []string{"brier_reliability", "brier_resolution", "pit_flatness"}

// Parts of a score and distances from a flat histogram have no interval of few dates, and say why; that of the resolution is
// symmetric.
func TestIntervalsOfParts(t *testing.T) {
	o := overconfident{points: 20, spread: 0.7, threshold: 0.5, common: 0.05}
	for _, n := range []int{significance.MinDatesOfParts - 1, significance.MinDatesOfParts} {
		res, err := o.dates(t, rand.New(rand.NewPCG(1, 2)), n, 0, Bias.ID).Result(significance.Bootstrap{Resamples: 100}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range append([]string{Bias.ID}, calibrationScores...) {
			v := res.Find(id, "network", "t", "850hPa", "96h")
			want := ""
			if n < significance.MinDatesOfParts && id != Bias.ID {
				want = string(significance.FewDates)
			}
			if v.NoInterval != want || math.IsNaN(float64(v.CILow)) != (want != "") {
				t.Errorf("%s of %d dates: %g to %g, reason %q", id, n, v.CILow, v.CIHigh, v.NoInterval)
			}
			above, below := float64(v.CIHigh-v.Value), float64(v.Value-v.CILow)
			if id == BrierResolution.ID && want == "" && math.Abs(above/below-1) > 1e-9 {
				t.Errorf("%s: %g below, %g above", id, below, above)
			}
		}
	}
}

// The memory of the bias widens the intervals of scores that hide it, and the interval of a sum of squares is that of a root: more
// above the value than below.
func TestIntervalsWithTheMemoryOfTheBias(t *testing.T) {
	o := overconfident{points: 50, spread: 0.7, threshold: 0.5, common: 0.05}
	r := rand.New(rand.NewPCG(1, 2))
	var width, skewed [2]float64 // without and with the bias
	for range 20 {
		seed := r.Uint64()
		for i, scores := range [][]string{nil, {Bias.ID}} {
			res, err := o.dates(t, rand.New(rand.NewPCG(seed, 3)), 52, 0.8, scores...).Result(significance.Bootstrap{Resamples: 200}, nil)
			if err != nil {
				t.Fatal(err)
			}
			v := res.Find(BrierResolution.ID, "network", "t", "850hPa", "96h")
			width[i] += float64(v.CIHigh - v.CILow)
			v = res.Find(BrierReliability.ID, "network", "t", "850hPa", "96h")
			skewed[i] += math.Log(float64((v.CIHigh-v.Value)/(v.Value-v.CILow))) / 20
		}
	}
	if width[1] < 1.05*width[0] || min(skewed[0], skewed[1]) < 0.4 {
		t.Errorf("widths %.3f, above relative to below e^%.2f", width, skewed)
	}
}

// TestLimits: an interval is cut to the values that a score can take, but always has the score itself.
func TestLimits(t *testing.T) {
	const low, high = -0.5, 1.5
	for _, c := range []struct {
		s         *Score
		low, high float64
	}{
		{CRPSPlain, 0, high}, {RMSE, 0, high}, {SpreadSkill, 0, high}, {SpreadScore, 0, high}, {BrierReliability, 0, high}, {BrierUncertainty, 0, high}, // lower, near 1 and descriptive
		{Bias, low, high}, {LogGauss, low, high}, {MeanAbsEFI, low, high}, {SOTUpper, low, high}, // any value
		{Correlation, low, 1}, {BrierSkill, low, 1}, {ROCArea, 0, 1}, {Coverage50, 0, 1}, {BrierResolution, 0, 1}, {EconomicValue, low, 1}, // at most 1
	} {
		if gotLow, gotHigh := c.s.limits(0.5, low, high); gotLow != c.low || gotHigh != c.high {
			t.Errorf("%s: %g to %g, want %g to %g", c.s.ID, gotLow, gotHigh, c.low, c.high)
		}
		if gotLow, gotHigh := c.s.limits(-1, low, high); gotLow > -1 && c.low == 0 || gotHigh != c.high {
			t.Errorf("%s: %g to %g of the value -1", c.s.ID, gotLow, gotHigh)
		}
		if gotLow, gotHigh := c.s.limits(2, 0.5, high); gotLow != 0.5 || c.high == 1 && gotHigh != 2 {
			t.Errorf("%s: %g to %g of the value 2", c.s.ID, gotLow, gotHigh)
		}
	}
}
