package gain

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Case is one date: raw members, what came true, and on dates that are scored the model's
// normal distribution.
//
// Shape: Members [member][point]; Obs, Mean, Spread [point]. Missing: NaN; such a point is
// left out of its date.
type Case struct {
	Init         ensemble.Init
	Members      [][]float32
	Obs          []float32
	Mean, Spread []float32
}

// Options say how a gain is split.
type Options struct {
	Weights   []float64 // [point], nil for equal ones
	Gaussian  bool      // score the raw ensemble as a normal distribution, not as members
	Bootstrap score.Bootstrap
}

// Steps fits the steps on training cases, point by point, and scores them on others.
// Cases of one season and one lead belong together: biases differ between them.
//
// Errors: no cases, shapes that differ, a date in both, points with too few cases for EMOS.
func Steps(train, test []Case, o Options) (*Report, error) {
	if len(train) == 0 || len(test) == 0 {
		return nil, errors.New("gain: no dates to train or to score on")
	}
	m, n := len(test[0].Members), len(test[0].Obs)
	dates := map[int64]bool{}
	set := &baseline.Set{}
	for _, c := range train {
		if err := c.check(m, n, false); err != nil {
			return nil, err
		}
		dates[c.Init.Unix()] = true
		mean, std := make([]float32, n), make([]float32, n)
		ensemble.MeanStd(mean, std, c.Members, 1)
		set.Valid = append(set.Valid, c.Init.Time)
		set.Mean, set.Std, set.Obs = append(set.Mean, mean...), append(set.Std, std...), append(set.Obs, c.Obs...)
	}
	emos, err := baseline.FitEMOSByPoint(set, baseline.EMOSOptions{})
	if err != nil {
		return nil, fmt.Errorf("gain: %w", err)
	}
	fits := make([]local, n)
	for p := range fits {
		if emos[p] == nil {
			return nil, fmt.Errorf("gain: %d dates do not suffice for EMOS at point %d", len(train), p)
		}
		if fits[p], err = fit(set, p, n); err != nil {
			return nil, err
		}
		fits[p].emos = emos[p]
	}
	rows := make([][]float64, len(test)) // weight, then weight × every number of the split
	for i, c := range test {
		if err := c.check(m, n, true); err != nil {
			return nil, err
		}
		if dates[c.Init.Unix()] {
			return nil, fmt.Errorf("gain: start %s is trained and scored on", c.Init)
		}
		rows[i] = c.score(fits, o)
	}
	return report(rows, m, o)
}

func (c *Case) check(m, n int, scored bool) error {
	bad := len(c.Members) != m || m < 2 || len(c.Obs) != n || scored && (len(c.Mean) != n || len(c.Spread) != n)
	for _, f := range c.Members {
		bad = bad || len(f) != n
	}
	if bad {
		return fmt.Errorf("gain: start %s has other members, points or no distribution", c.Init)
	}
	return nil
}

// local is what was learned at one point.
type local struct {
	bias float64
	c, d float64 // N(m, c²+d²s²)
	emos *baseline.EMOS
}

// fit finds bias and dispersion of one point.
func fit(s *baseline.Set, p, n int) (local, error) {
	var l local
	var miss, std []float64 // m−y and s
	for i := p; i < len(s.Obs); i += n {
		d := float64(s.Mean[i]) - float64(s.Obs[i])
		if !math.IsNaN(d) {
			miss, std = append(miss, d), append(std, float64(s.Std[i]))
		}
	}
	var square, variance float64
	for k, d := range miss {
		l.bias += d / float64(len(miss))
		square += d * d / float64(len(miss))
		variance += std[k] * std[k] / float64(len(miss))
	}
	problem := optimize.Problem{
		Func: func(x []float64) (sum float64) {
			for k, d := range miss {
				c, _, _ := dist.NormalCRPS(d, math.Hypot(x[0], x[1]*std[k]), 0)
				sum += c
			}
			return sum
		},
		Grad: func(g, x []float64) {
			g[0], g[1] = 0, 0
			for k, d := range miss {
				s := math.Hypot(x[0], x[1]*std[k])
				if s > 0 {
					_, _, ds := dist.NormalCRPS(d, s, 0)
					g[0] += ds * x[0] / s
					g[1] += ds * x[1] * std[k] * std[k] / s
				}
			}
		},
	}
	r, err := optimize.Minimize(problem, []float64{math.Sqrt(math.Max(square-variance, square/4)), 0.8}, nil, &optimize.BFGS{})
	if r == nil {
		return l, fmt.Errorf("gain: dispersion at point %d: %w", p, err)
	}
	l.c, l.d = math.Abs(r.X[0]), math.Abs(r.X[1]) // where the line search could not go on, what it had is good
	return l, nil
}

// score sums a date: its weight, then each number of a split times the weight.
func (c *Case) score(fits []local, o Options) []float64 {
	m := len(c.Members)
	row, x := make([]float64, 8), make([]float64, m)
	gauss := func(mu, sigma, y float64) float64 {
		v, _, _ := dist.NormalCRPS(mu, sigma, y)
		return v
	}
	for p, l := range fits {
		for i, f := range c.Members {
			x[i] = float64(f[p])
		}
		y := float64(c.Obs[p])
		mean, s := ensemble.MeanSpread(x, 1)
		wide := s * math.Sqrt(1+1/float64(m))
		reference := gauss(mean, s, y)
		if !o.Gaussian {
			reference = dist.KernelCRPS(x, y, dist.Plain)
		}
		e := l.emos
		split := Split{
			Reference:  reference,
			FiniteSize: gauss(mean, wide, y),
			Unbiased:   gauss(mean-l.bias, wide, y),
			Calibrated: gauss(e.Alpha+e.Beta*mean, math.Hypot(e.Gamma, e.Delta*s), y),
			Model:      gauss(float64(c.Mean[p]), float64(c.Spread[p]), y),
			Fair:       dist.KernelCRPS(x, y, dist.Fair),
			Dispersed:  gauss(mean, math.Hypot(l.c, l.d*s), y),
		}.list()
		w := 1.0
		if o.Weights != nil {
			w = o.Weights[p]
		}
		var sum float64
		for _, v := range split {
			sum += v
		}
		if math.IsNaN(sum) {
			continue
		}
		row[0] += w
		for k, v := range split {
			row[1+k] += w * v
		}
	}
	return row
}

// report makes shares and their intervals out of the sums of the dates.
func report(rows [][]float64, m int, o Options) (*Report, error) {
	r := &Report{Members: m, Dates: len(rows)}
	at := func(sums []float64) Split {
		v := make([]float64, 7)
		for k := range v {
			v[k] = sums[1+k] / sums[0]
		}
		return splitOf(v)
	}
	shares := []struct {
		name string
		of   func(Shares) float64
	}{
		{"finite size", func(s Shares) float64 { return s.FiniteSize }},
		{"bias", func(s Shares) float64 { return s.Bias }},
		{"dispersion", func(s Shares) float64 { return s.Dispersion }},
		{"information", func(s Shares) float64 { return s.Information }},
		{"total", func(s Shares) float64 { return s.Total }},
		{"beyond more members", func(s Shares) float64 { return s.BeyondMembers }},
		{"dispersion first", func(s Shares) float64 { return s.DispersionFirst }},
		{"then bias", func(s Shares) float64 { return s.BiasSecond }},
	}
	for _, s := range shares {
		value, low, high, err := o.Bootstrap.Interval(rows, func(sums []float64) float64 { return s.of(at(sums).Shares()) })
		if err != nil {
			return nil, err
		}
		r.Shares = append(r.Shares, Share{s.name, Interval{value, low, high}})
	}
	whole := make([]float64, 8)
	for _, row := range rows {
		for k, v := range row {
			whole[k] += v
		}
	}
	r.Split = at(whole)
	return r, nil
}
