package skill

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Case is one date to score: the raw members, the observation, and the model's normal
// distribution.
//
// Shape: Members [member][point]; Obs, Mean, Spread [point].
// Unit: that of the variable. Missing: NaN; such a point is left out on this date.
type Case struct {
	Init         ensemble.Init
	Valid        time.Time // valid time, for the season
	Members      [][]float32
	Obs          []float32
	Mean, Spread []float32
	// Score is the CRPS of the model at a point if its distribution is not normal; nil: normal.
	Score func(point int) float64
	// Expected is the expected CRPS ½E|X−X'| of that distribution; 0 if unknown.
	Expected func(point int) float64
}

// Options are the weights and regions of the scores. The zero value weights all points equally.
type Options struct {
	Weights []float64 // [point]; nil: equal
	Areas   [][]bool  // [area][point]: regions scored in addition to all points
}

// Corrections holds the fitted corrections at every point: N(m − Bias, s²(1+1/M)),
// N(A + B·m, C + D·s²), N(m, E + F·s²) and Seasonal; and SpreadFactor, the factor t of IdealScores.
//
// Shape: Bias and SpreadFactor [point], EMOS [point][A B C D], Dispersion [point][E F].
// Missing: NaN at points with too few cases; they are left out of scores.
type Corrections struct {
	Bias, EMOS, Dispersion, SpreadFactor []float64
	Seasonal                             *baseline.GridEMOS
	Members                              int // of the raw ensemble
}

// FitCost is the baseline.Method.Cost of Fit.
const FitCost = 480

// Fit estimates the corrections at every point: Bias is the mean of m − y, EMOS and
// Dispersion have the least mean CRPS, Seasonal is that of baseline.FitGridEMOS. Fit cases of one season and lead together, since
// biases differ between them.
//
// Errors: wrong shapes; no point with enough cases.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1 (EMOS with the least CRPS).
func Fit(s *baseline.Set, members int) (*Corrections, error) {
	n := s.Points()
	f := &Corrections{Bias: make([]float64, n), Members: members}
	short := func(err error) error {
		if errors.Is(err, baseline.ErrNoCases) {
			return fmt.Errorf("skill: %d dates are too few for EMOS at every point", len(s.Valid))
		}
		return fmt.Errorf("skill: %w", err)
	}
	emos, err := baseline.FitRegression(s, baseline.RegressionOptions{Link: baseline.QuadraticScale})
	if err != nil {
		return nil, short(err)
	}
	spread, err := baseline.FitRegression(s, baseline.RegressionOptions{Link: baseline.QuadraticScale, ScaleOnly: true})
	if err != nil {
		return nil, short(err)
	}
	if f.Seasonal, err = baseline.FitGridEMOS(s, baseline.GridEMOSOptions{}); err != nil {
		return nil, short(err)
	}
	count := make([]float64, n)
	s.EachDate(func(_ int, mean, _, obs []float32) {
		for p, m := range mean {
			if d := float64(m) - float64(obs[p]); d == d {
				f.Bias[p] += d
				count[p]++
			}
		}
	})
	enough := false
	for p := range n {
		f.Bias[p] /= count[p]
		f.EMOS = append(f.EMOS, emos.Location[2*p], emos.Location[2*p+1], emos.Scale[2*p], emos.Scale[2*p+1])
		enough = enough || emos.Scale[2*p] == emos.Scale[2*p]
	}
	f.SpreadFactor = fitSpreadFactor(f.Bias, members, func(yield func(p int, error, spread2 float64)) {
		s.EachDate(func(_ int, mean, std, obs []float32) {
			for p, m := range mean {
				if d := float64(m) - float64(obs[p]); d == d {
					yield(p, d, float64(std[p])*float64(std[p]))
				}
			}
		})
	})
	if f.Dispersion = spread.Scale; !enough {
		return nil, fmt.Errorf("skill: %d dates are too few for EMOS at every point", len(s.Valid))
	}
	return f, nil
}

// check compares the shapes of the case with m members and n points.
func (c *Case) check(m, n int) error {
	bad := len(c.Members) != m || m < 2 || len(c.Obs) != n || len(c.Mean) != n || len(c.Spread) != n
	for _, f := range c.Members {
		bad = bad || len(f) != n
	}
	if bad {
		return fmt.Errorf("skill: init %s: want %d members (at least 2) and a distribution of %d points", c.Init, m, n)
	}
	return nil
}

// Sums are those of one date: the sum of the weights of its points, then each number of a
// Scores times the weight.
type Sums []float64

// SumsLength is the length of Sums.
var SumsLength = 1 + len(Scores{}.values())

// Weight is the sum of the weights of the points.
func (s Sums) Weight() float64 { return s[0] }

// Means returns the weighted means.
func (s Sums) Means() Scores {
	v := make([]float64, len(s)-1)
	for k := range v {
		v[k] = s[1+k] / s[0]
	}
	return scoresOf(v)
}

// Score sums the scores of one date over all points and over each area.
//
// Shape: result [1+area].
// Errors: other numbers of members or points than in the fit, or no distribution.
func (s *Corrections) Score(c *Case, o Options) ([]Sums, error) {
	if err := c.check(s.Members, len(s.Bias)); err != nil {
		return nil, err
	}
	m := len(c.Members)
	rows, x := make([]Sums, 1+len(o.Areas)), make([]float64, m)
	for i := range rows {
		rows[i] = make(Sums, SumsLength)
	}
	gauss := func(mu, sigma, y float64) float64 {
		v, _, _ := dist.NormalCRPS(mu, sigma, y)
		return v
	}
	model := func(p int, y float64) float64 {
		if c.Score != nil {
			return c.Score(p)
		}
		return gauss(float64(c.Mean[p]), float64(c.Spread[p]), y)
	}
	expected := func(p int) float64 {
		if c.Score != nil {
			return c.Expected(p)
		}
		return float64(c.Spread[p]) / math.Sqrt(math.Pi)
	}
	seasonal := s.seasonal(c)
	for p, bias := range s.Bias {
		e, d := s.EMOS[4*p:][:4], s.Dispersion[2*p:][:2]
		for i, f := range c.Members {
			x[i] = float64(f[p])
		}
		y := float64(c.Obs[p])
		mean, sd := ensemble.MeanSpread(x, 1)
		wide := sd * math.Sqrt(1+1/float64(m))
		t := s.SpreadFactor[p]
		split := Scores{
			Reference:  dist.KernelCRPS(x, y, dist.Plain),
			FiniteSize: gauss(mean, wide, y),
			Unbiased:   gauss(mean-bias, wide, y),
			Calibrated: gauss(e[0]+e[1]*mean, math.Sqrt(e[2]+e[3]*sd*sd), y),
			Seasonal:   gauss(float64(seasonal.mu[p]), float64(seasonal.sigma[p]), y),
			Model:      model(p, y),
			Fair:       dist.KernelCRPS(x, y, dist.Fair),
			Dispersed:  gauss(mean, math.Sqrt(d[0]+d[1]*sd*sd), y),
			Expected:   expected(p),
		}
		split.PerfectModel = dist.HalfMeanDifference(x)
		split.PerfectModelCalibrated = t * split.PerfectModel
		split.FairUnbiased = dist.KernelCRPS(x, y+bias, dist.Fair)
		for i, v := range x {
			x[i] = mean - bias + t*(v-mean)
		}
		split.FairCalibrated = dist.KernelCRPS(x, y, dist.Fair)
		values := split.values()
		w := 1.0
		if o.Weights != nil {
			w = o.Weights[p]
		}
		var sum float64
		for _, v := range values {
			sum += v
		}
		if math.IsNaN(sum) {
			continue
		}
		for a, row := range rows {
			if a > 0 && !o.Areas[a-1][p] {
				continue
			}
			row[0] += w
			for k, v := range values {
				row[1+k] += w * v
			}
		}
	}
	return rows, nil
}

// normals are normal distributions of all points.
//
// Shape: [point].
type normals struct{ mu, sigma []float32 }

// seasonal returns the forecast of Seasonal.
func (s *Corrections) seasonal(c *Case) normals {
	n := len(s.Bias)
	mean, std := make([]float32, n), make([]float32, n)
	ensemble.MeanStd(mean, std, c.Members, 1)
	out := normals{make([]float32, n), make([]float32, n)}
	s.Seasonal.Predict(out.mu, out.sigma, mean, std, c.Valid)
	return out
}

// NewReport computes the contributions and their intervals from the sums of the dates, in
// temporal order.
//
// Errors: those of the bootstrap.
func NewReport(dates []Sums, m int, b significance.Bootstrap) (*Report, error) {
	rows := make([][]float64, len(dates))
	for i, d := range dates {
		rows[i] = d
	}
	r := &Report{Members: m, Dates: len(rows)}
	whole := make(Sums, len(rows[0]))
	for _, row := range rows {
		for k, v := range row {
			whole[k] += v
		}
	}
	r.Scores = whole.Means()
	for _, s := range []struct {
		id, name string
		crps     float64
		of       func(Components) float64
	}{
		{"finite_size", "finite size", r.FiniteSize, func(s Components) float64 { return s.FiniteSize }},
		{"bias", "bias", r.Unbiased, func(s Components) float64 { return s.Bias }},
		{"dispersion", "dispersion", r.Calibrated, func(s Components) float64 { return s.Dispersion }},
		{"season", "season and shrinkage", r.Seasonal, func(s Components) float64 { return s.Season }},
		{"information", "information", r.Model, func(s Components) float64 { return s.Information }},
		{"total", "total", r.Model, func(s Components) float64 { return s.Total }},
		{"over_infinite_ensemble", "over an infinite ensemble", r.Fair, func(s Components) float64 { return s.OverInfiniteEnsemble }},
		{"dispersion_first", "dispersion first", r.Dispersed, func(s Components) float64 { return s.DispersionFirst }},
		{"bias_second", "then bias", r.Calibrated, func(s Components) float64 { return s.BiasSecond }},
	} {
		value, low, high, err := b.Interval(rows, func(sums []float64) float64 { return s.of(Sums(sums).Means().Components()) })
		if err != nil {
			return nil, err
		}
		r.Components = append(r.Components, Component{s.id, s.name, s.crps, Interval{value, low, high}})
	}
	var err error
	r.IdealScores, err = idealScores(rows, r.Scores, b)
	return r, err
}
