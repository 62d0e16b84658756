package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// The points with the largest |index| are marked until they have the requested share of the
// weights of non-missing points.
func TestLargestPoints(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name    string
		index   []float32
		weights []float64
		share   float64
		want    []bool
	}{
		{"a third of six", []float32{0.1, -0.9, 0.3, 0.8, -0.2, 0}, nil, 1. / 3, []bool{false, true, false, true, false, false}},
		{"ties go to the first", []float32{0.5, -0.5, 0.5, 0.5}, nil, 0.5, []bool{true, true, false, false}},
		{"missing points have no share", []float32{nan, 0.1, 0.4, nan}, nil, 0.5, []bool{false, false, true, false}},
		{"by weight", []float32{0.9, 0.8, 0.1}, []float64{1, 1, 8}, 0.2, []bool{true, true, false}},
		{"none", []float32{nan}, nil, 0.5, []bool{false}},
	} {
		if got := LargestPoints(c.index, c.weights, c.share); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A forecast that is bad where the index is large, and only there, shows in that region.
func TestLargestEFIIsARegion(t *testing.T) {
	const points = 40
	a, err := New(t850, Grid{Weights: field64(points, func(int) float64 { return 1 })}, []System{{Name: "net", Provides: Mean}},
		Options{Scores: []string{"bias"}, Extremes: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 4 {
		extreme := field(points, func(p int) float64 { return 0.1 })
		mean := field(points, func(int) float64 { return 0 })
		for i := range 4 {
			p := (7*k + 5*i) % points
			extreme[p], mean[p] = -0.9, 2
		}
		if err := a.Add(day(7*k), Reference{Obs: field(points, func(int) float64 { return 0 }), Extremes: extreme}, []Sample{{Mean: mean}}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Result(significance.Bootstrap{Resamples: 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scores) != 2 || r.Scores[1].Region != LargestEFI || r.Scores[1].Points != 16 {
		t.Fatalf("%+v", r.Scores)
	}
	near(t, "bias where the index is largest", r.Scores[1].Value, 2, 1e-12)
	near(t, "bias everywhere", r.Scores[0].Value, 0.2, 1e-12)
}

// Quantiles are those of the values in the window, and a date gets the window nearest to it,
// over the end of the year too.
func TestClimate(t *testing.T) {
	const points, dates, members = 5, 60, 3
	r := rand.New(rand.NewPCG(1, 2))
	c := Climate{Steps: 20, Windows: 12, Days: 60, Quantiles: make([]float32, 12*21*points)}
	var valid []time.Time
	var fields [][][]float32
	for k := range dates {
		valid = append(valid, time.Date(2001, 1, 1+14*k, 12, 0, 0, 0, time.UTC))
		of := make([][]float32, members)
		for m := range of {
			of[m] = field(points, func(int) float64 { return r.NormFloat64() })
		}
		fields = append(fields, of)
	}
	fields[14][1][2] = float32(math.NaN()) // in July
	cut := func(lo, hi int) (out [][][]float32) {
		for _, date := range fields {
			var of [][]float32
			for _, f := range date {
				of = append(of, f[lo:hi])
			}
			out = append(out, of)
		}
		return out
	}
	for _, band := range [][2]int{{0, 2}, {2, 5}} { // in pieces
		if n := c.Fit(band[0], band[1], valid, cut(band[0], band[1])); n < 8*members || n > 13*members {
			t.Errorf("the window with the fewest values has %d", n)
		}
	}
	for day, centre := range map[time.Time]float64{ // the 12th and the 7th window
		time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC): 11.5 / 12 * 365.2425, time.Date(2004, 7, 20, 0, 0, 0, 0, time.UTC): 6.5 / 12 * 365.2425} {
		got := c.At(day)
		for p := range points {
			var values []float64
			for k, v := range valid {
				apart := math.Abs(float64(v.YearDay()) - 0.5 - centre)
				for _, f := range fields[k] {
					if x := float64(f[p]); min(apart, 365.2425-apart) <= 30 && x == x {
						values = append(values, x)
					}
				}
			}
			slices.Sort(values)
			if len(got) != 21 || math.Abs(float64(got[10][p])-dist.EmpiricalQuantile(values, 0.5)) > 1e-6 || math.Abs(float64(got[19][p])-dist.EmpiricalQuantile(values, 0.95)) > 1e-6 {
				t.Errorf("%s, point %d: median %g, want %g of %d values", day.Format("2 January"), p, got[10][p], dist.EmpiricalQuantile(values, 0.5), len(values))
			}
		}
	}
	whole := Climate{Steps: 100, Windows: 1, Quantiles: make([]float32, 101*points)}
	if n := whole.Fit(0, points, valid, fields); n != dates*members || len(TwentiethQuantiles(whole.At(valid[0]))) != 21 {
		t.Errorf("%d values of the year", n)
	}
	if q := whole.At(valid[0]); !slices.Equal(TwentiethQuantiles(q)[19], q[95]) {
		t.Error("the quantile of 0.95 is not among the twentieths")
	}
	empty := Climate{Steps: 20, Windows: 2, Days: 10, Quantiles: make([]float32, 2*21)}
	if n := empty.Fit(0, 1, nil, nil); n != 0 || empty.Quantiles[0] == empty.Quantiles[0] {
		t.Errorf("%d values of no dates", n)
	}
}

// drawnCalibration is the calibration of forecasts whose members or distribution are those of draws, shifted and wider, on 30 dates.
func drawnCalibration(t *testing.T, r *rand.Rand, shift, width float64, members int) Calibration {
	t.Helper()
	s := System{Name: "raw", Provides: Members}
	if members == 0 {
		s.Provides = Mean | Spread
	}
	const points = 50
	a, err := New(t850, Grid{Weights: field64(points, func(int) float64 { return 1 })}, []System{s}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 30 {
		x, y := draws(r, max(members, 1), points)
		for _, f := range x.Members {
			for p := range f {
				f[p] = float32(shift + width*float64(f[p]))
			}
		}
		if members == 0 {
			x = Sample{Mean: field(points, func(int) float64 { return shift }), Spread: field(points, func(int) float64 { return width })}
		}
		if err := a.Add(day(7*k), Reference{Obs: y}, []Sample{x}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := a.Result(significance.Bootstrap{Resamples: 200}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Calibration) != 1 {
		t.Fatalf("%d histograms", len(res.Calibration))
	}
	return res.Calibration[0]
}

// TestFlat: a histogram is flat if nothing excludes it: neither the interval of its slope or convexity, nor the number of places outside
// of their bands. Each of them alone excludes it.
func TestFlat(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[string]int{}
	for k := 0; k < 400 && len(seen) < 5; k++ {
		shift, width := 0.16*(r.Float64()-0.5), math.Exp(0.3*(r.Float64()-0.5))
		c := drawnCalibration(t, r, shift, width, 8*(k%2))
		var against []string
		for name, excluded := range map[string]bool{"falling": c.SlopeHigh < 0, "rising": c.SlopeLow > 0, "full middle": c.ConvexityHigh < 0, "full tails": c.ConvexityLow > 0, "places": c.Outside > c.Allowed} {
			if excluded {
				against = append(against, name)
			}
		}
		if c.Flat != (len(against) == 0) {
			t.Errorf("flat %v, but %v: %+v", c.Flat, against, c)
		}
		if len(against) == 1 {
			seen[against[0]]++
		}
	}
	if len(seen) != 5 {
		t.Errorf("reasons that were seen alone: %v", seen)
	}
}

// Histograms in words: of forecasts that are right, shifted, and too narrow or too wide.
// Of 40 independent draws of right forecasts some 10 % are called not flat.
func TestCalibrationInWords(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, c := range []struct {
		name             string
		shift, width     float64
		bias, dispersion string
	}{
		{"too high", 0.3, 1, "too_high", ""},
		{"too low", -0.3, 1, "too_low", ""},
		{"too narrow", 0, 0.7, "", "too_small"},
		{"too wide", 0, 1.4, "", "too_large"},
	} {
		for _, m := range []int{0, 8} {
			got := drawnCalibration(t, r, c.shift, c.width, m)
			if got.Flat || c.bias != "" && got.Bias != c.bias || c.dispersion != "" && got.Dispersion != c.dispersion {
				t.Errorf("%s, %d members: %+v", c.name, m, got)
			}
		}
	}
	flat := 0
	for k := range 20 {
		if drawnCalibration(t, r, 0, 1, 8*(k%2)).Flat {
			flat++
		}
	}
	if flat < 13 { // of 20, each with a chance of about 0.9: 13 or more in all but one of 1000
		t.Errorf("%d of 20 right forecasts are called flat", flat)
	}
	if slope, convexity := contrasts([]float64{1, 0, 0, 1}); slope != 0 || math.Abs(convexity-0.8) > 1e-12 {
		t.Errorf("slope %g and convexity %g of the outer two of four places", slope, convexity)
	}
	if allowed(20, 0.05) != 3 || allowed(11, 0.05) != 2 {
		t.Errorf("%d of 20, %d of 11 places may be outside", allowed(20, 0.05), allowed(11, 0.05))
	}
}

// The CRPS of calibrated forecasts equals its expectation, σ/√π for a normal distribution.
func TestExpectedCRPS(t *testing.T) {
	const n = 20000
	r := rand.New(rand.NewPCG(4, 5))
	o := Options{Scores: []string{"crps_expected", "crps_over_expected"}}
	s, y := draws(r, 6, n)
	res := once(t, n, y, s, o)
	near(t, "expected by members", of(res, "crps_expected", "raw")[0], 1/math.Sqrt(math.Pi), 0.006)
	near(t, "members", of(res, "crps_over_expected", "raw")[0], 1, 0.025)
	res = once(t, n, y, Sample{Mean: field(n, func(int) float64 { return 0 }), Spread: field(n, func(int) float64 { return 2 })}, o)
	near(t, "expected by N(0, 4)", of(res, "crps_expected", "raw")[0], 2/math.Sqrt(math.Pi), 1e-12)
	// N(0, 4) against draws of N(0, 1): √(10/π) − 2/√π over 2/√π.
	near(t, "too wide", of(res, "crps_over_expected", "raw")[0], math.Sqrt(10)/2-1, 0.01)
}

// TestShiftWithoutTail: points where the climate has no tail do not count in the mean shift of tails, and a shift is bounded by 10.
func TestShiftWithoutTail(t *testing.T) {
	point := func(member float64, climate func(k int) float64) *Case {
		c := &Case{Members: []float64{member}, Climate: make([]float64, 101)}
		for k := range c.Climate {
			c.Climate[k] = climate(k)
		}
		return c
	}
	rising := func(k int) float64 { return float64(k) }
	for _, c := range []struct {
		what string
		of   *Score
		in   *Case
		want []float64
	}{
		{"as the climate", SOTUpper, point(90, rising), []float64{-1, 1}}, {"at the extreme", SOTUpper, point(99, rising), []float64{0, 1}}, {"beyond", SOTUpper, point(108, rising), []float64{1, 1}},
		{"far beyond", SOTUpper, point(1e6, rising), []float64{10, 1}}, {"far below", SOTUpper, point(-1e6, rising), []float64{-10, 1}},
		{"as the climate below", SOTLower, point(10, rising), []float64{-1, 1}}, {"at the low extreme", SOTLower, point(1, rising), []float64{0, 1}},
		{"no tail", SOTUpper, point(5, func(int) float64 { return 5 }), []float64{0, 0}}, {"no lower tail", SOTLower, point(5, func(k int) float64 { return float64(max(k, 20)) }), []float64{0, 0}},
	} {
		got := []float64{7, 7}
		if c.of.Point(got, c.in); !(math.Abs(got[0]-c.want[0]) < 1e-9) || got[1] != c.want[1] {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	if got := SOTUpper.Value([]float64{0.5, 0.25}, 3); got != 2 {
		t.Errorf("the mean over a quarter of the area is %g, want 2", got)
	}
}
