package skill

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: got %.10g, want %.10g", what, got, want)
	}
}

// Rows of the specification: ten members with bias ½ and spread 0.7, a model that explains
// a fifth; and perfect members, where the model has the true distribution.
func TestTheory(t *testing.T) {
	s := Theory(0.5, 0.7, 1, 10, 0.2)
	for i, want := range []float64{0.6990858069, 0.6783026238, 0.5995134477, 0.5778469266, 0.5778469266, 0.5046265044, 0.6595925361} {
		near(t, "score", s.values()[i], want, 1e-9)
	}
	f := s.Components()
	for i, got := range []float64{f.FiniteSize, f.Bias, f.Dispersion, f.Information, f.Total} {
		near(t, "share in %", 100*got, []float64{2.9729, 11.2703, 3.0993, 10.4737, 27.8162}[i], 5e-5)
	}
	near(t, "sum of shares", f.FiniteSize+f.Bias+f.Dispersion+f.Season+f.Information, f.Total, 1e-15)
	// Ideal scores: members half as wide as they should be, about their mean.
	near(t, "fair_unbiased", s.FairUnbiased, math.Sqrt(2*1.49/math.Pi)-0.7/math.Sqrt(math.Pi), 1e-9)
	near(t, "fair_calibrated", s.FairCalibrated, math.Sqrt((1+0.049)/1.1/math.Pi), 1e-9)
	s = Theory(0, 1, 1, 10, 0)
	for _, got := range []float64{s.PerfectModel, s.Fair, s.FairUnbiased, s.FairCalibrated, s.PerfectModelCalibrated, s.Expected} {
		near(t, "CRPS of a perfect ensemble", got, 0.5641895835, 1e-9)
	}
	for i, want := range []float64{0.6206085419, 0.6001416361, 0.6001416361, 0.5917270273, 0.5917270273, 0.5641895835} {
		near(t, "perfect members", s.values()[i], want, 1e-9)
	}
	// Rows of the table for M = 5 and 10, in units of 1/√π.
	for m, want := range map[int][2]float64{5: {1.1308917700, 1.0954451150}, 10: {1.0637233540, 1.0488088482}} {
		s := Theory(0, 1, 1, m, 0)
		near(t, "N(m, s²(1+1/M))", s.FiniteSize*math.Sqrt(math.Pi), want[0], 1e-9)
		near(t, "known spread", s.Calibrated*math.Sqrt(math.Pi), want[1], 1e-9)
	}
}

// world draws dates of a Gaussian world at points with a signal and biases of their own.
func world(r *rand.Rand, first, dates, points, m int, bias, spread, explained float64) (out []Case) {
	for k := range dates {
		start := time.Date(2001, 1, 1+first+k, 0, 0, 0, 0, time.UTC)
		c := Case{Init: ensemble.InitAt(start), Valid: start, Obs: make([]float32, points),
			Mean: make([]float32, points), Spread: make([]float32, points), Members: make([][]float32, m)}
		for i := range c.Members {
			c.Members[i] = make([]float32, points)
		}
		for p := range points {
			signal := 10 * r.NormFloat64()
			known := math.Sqrt(explained) * r.NormFloat64()
			c.Obs[p] = float32(signal + known + math.Sqrt(1-explained)*r.NormFloat64())
			c.Mean[p], c.Spread[p] = float32(signal+known), float32(math.Sqrt(1-explained))
			for i := range c.Members {
				c.Members[i][p] = float32(signal + bias*float64(1-2*(p%2)) + spread*r.NormFloat64())
			}
		}
		out = append(out, c)
	}
	return out
}

// Fitted and scored on random draws, the components agree with theory. Tolerances: four standard
// errors of 400 dates × 40 points, plus the error of a fit to 600 dates.
func TestSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	train, test := world(r, 0, 600, 16, 10, 0.5, 0.7, 0.2), world(r, 600, 700, 16, 10, 0.5, 0.7, 0.2)
	rep := decompose(t, train, test)
	want := Theory(0.5, 0.7, 1, 10, 0.2)
	for i, w := range want.values()[:7] {
		near(t, "score", rep.values()[i], w, 0.015)
	}
	share := map[string]Interval{}
	for _, s := range rep.Components {
		share[s.Name] = s.Interval
		if !(s.Low <= s.Value && s.Value <= s.High) {
			t.Errorf("%s: %+v", s.Name, s.Interval)
		}
	}
	f := want.Components()
	for i, w := range want.values()[8:] {
		near(t, "ideal score "+strconv.Itoa(i), rep.values()[8+i], w, 0.012)
	}
	if len(rep.IdealScores) != len(IdealScores) {
		t.Fatalf("%d ideal scores", len(rep.IdealScores))
	}
	for _, y := range rep.IdealScores {
		if !(y.CRPS.Low <= y.CRPS.Value && y.CRPS.Value <= y.CRPS.High+1e-12) || math.Abs(y.Ratio.Value*y.CRPS.Value-rep.Model) > 1e-12 {
			t.Errorf("%s: %+v", y.ID, y)
		}
	}
	near(t, "finite size", share["finite size"].Value, f.FiniteSize, 0.004)
	near(t, "bias", share["bias"].Value, f.Bias, 0.01)
	near(t, "dispersion", share["dispersion"].Value, f.Dispersion, 0.006)
	near(t, "season", share["season and shrinkage"].Value, 0, 0.003)
	near(t, "information", share["information"].Value, f.Information, 0.015)
	near(t, "either order", share["dispersion first"].Value+share["then bias"].Value, share["bias"].Value+share["dispersion"].Value, 1e-9)
}

// A bias that changes with the season is no information of the model: local EMOS takes it for variance, so that its CRPS
// exceeds that of the theory, and the next step removes it. Tolerances as in TestSteps.
func TestSeason(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const amplitude = 1.2
	seasonal := func(cases []Case) []Case {
		for _, c := range cases {
			sin, _ := math.Sincos(ensemble.SeasonAngle(c.Valid))
			for _, x := range c.Members {
				for p := range x {
					x[p] += float32(amplitude * sin)
				}
			}
		}
		return cases
	}
	train, test := seasonal(world(r, 0, 731, 16, 10, 0.5, 0.7, 0.2)), seasonal(world(r, 731, 731, 16, 10, 0.5, 0.7, 0.2))
	rep := decompose(t, train, test)
	want := Theory(0.5, 0.7, 1, 10, 0.2)
	near(t, "S₄ of a seasonal world", rep.Seasonal, want.Calibrated, 0.015)
	near(t, "information", rep.Seasonal-rep.Model, want.Calibrated-want.Model, 0.015)
	if rep.Calibrated-rep.Seasonal < 0.1 {
		t.Errorf("local EMOS without season has the CRPS %g, with season %g", rep.Calibrated, rep.Seasonal)
	}
}

// decompose fits the steps to some cases and scores others.
func decompose(t *testing.T, train, test []Case) *Report {
	t.Helper()
	steps := fit(t, train)
	rows := make([]Sums, len(test))
	for i := range test {
		sums, err := steps.Score(&test[i], Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = sums[0]
	}
	rep, err := NewReport(rows, len(test[0].Members), significance.Bootstrap{})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// fit learns the steps from cases.
func fit(t *testing.T, train []Case) *Corrections {
	t.Helper()
	set := &baseline.Set{}
	for _, c := range train {
		mean, std := make([]float32, len(c.Obs)), make([]float32, len(c.Obs))
		ensemble.MeanStd(mean, std, c.Members, 1)
		set.Valid = append(set.Valid, c.Init.Time)
		set.Mean, set.Std, set.Obs = append(set.Mean, mean...), append(set.Std, std...), append(set.Obs, c.Obs...)
	}
	steps, err := Fit(set, len(train[0].Members))
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func TestStepsRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	train, test := world(r, 0, 20, 2, 3, 0, 1, 0), world(r, 20, 4, 2, 3, 0, 1, 0)
	steps := fit(t, train)
	for what, c := range map[string]Case{
		"no model":      {Init: test[0].Init, Members: test[0].Members, Obs: test[0].Obs},
		"other members": world(r, 40, 1, 2, 4, 0, 1, 0)[0],
		"other points":  world(r, 40, 1, 3, 3, 0, 1, 0)[0],
	} {
		if _, err := steps.Score(&c, Options{}); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// Sums of areas add up to those of all points, and fits without SpreadFactor give no ideal
// scores of members.
func TestAreas(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	train, test := world(r, 0, 60, 6, 4, 0.5, 0.7, 0.2), world(r, 60, 8, 6, 4, 0.5, 0.7, 0.2)
	steps := fit(t, train)
	west, east := []bool{true, true, false, false, false, false}, []bool{false, false, true, true, true, true}
	rows, err := steps.Score(&test[0], Options{Weights: []float64{1, 2, 3, 4, 5, 6}, Areas: [][]bool{west, east}})
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range rows[0] {
		near(t, "parts "+strconv.Itoa(k), rows[1][k]+rows[2][k], v, 1e-12)
	}
	if rows[1].Weight() != 3 || rows[2].Weight() != 18 {
		t.Errorf("weights %g and %g", rows[1].Weight(), rows[2].Weight())
	}
}
