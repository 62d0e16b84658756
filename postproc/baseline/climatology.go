package baseline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// harmonics is the number of coefficients of a seasonal cycle: mean, annual and semi-annual
// sine and cosine.
const harmonics = 5

// Climatology forecasts the seasonal cycle of past analyses, with their residual standard
// deviation:
//
//	mu = c₀ + c₁ sin τ + c₂ cos τ + c₃ sin 2τ + c₄ cos 2τ,  τ the phase of the year
//	sigma = √( Σ residual² / (n−5) )
//
// If the dates do not determine all coefficients, c₃ and c₄ are 0 (dates of about eight to ten
// months); if they determine no cycle (one season, or one date a year), c₀ is their mean and
// the other coefficients are 0.
//
// Shape: Cycle [point][5], Sigma [point]. Unit: that of the variable.
// Source: Wilks 2019, doi:10.1016/C2017-0-03921-6, ch. 3.
type Climatology struct {
	Cycle []float64 `json:"-"` // c₀ to c₄
	Sigma []float64 `json:"-"` // residual standard deviation

	warning string // see Warning
}

// annual is the number of coefficients of a mean and an annual cycle.
const annual = 3

// Warning reports that the dates did not determine a seasonal cycle; "" if they did.
func (c *Climatology) Warning() string { return c.warning }

// FitClimatology fits the cycle at every point by least squares: the normal equations
// (Σ t tᵀ) c = Σ t y with the seasonal terms t of each date. Only Valid and Obs of the set
// are used.
//
// Missing: dates with a missing observation at a point are left out there. A point whose
// dates do not determine the coefficients that all dates determine has NaN.
// Errors: fewer than two dates; ErrNoCases if no point has a climatology.
func FitClimatology(s *Set) (*Climatology, error) {
	if err := s.check("climatology", false); err != nil {
		return nil, err
	}
	n := s.Points()
	terms := make([][harmonics]float64, len(s.Valid))
	for i, t := range s.Valid {
		terms[i] = seasonTerms(t)
	}
	c := &Climatology{Cycle: make([]float64, n*harmonics), Sigma: make([]float64, n)}
	// Points without missing dates share one normal matrix.
	whole, err := determineCycle(terms, harmonics, nil)
	if err != nil {
		c.warning = describeDates(s.Valid) + " determine an annual cycle only: it has no semi-annual part"
		whole, err = determineCycle(terms, annual, nil)
	}
	if err != nil {
		c.warning = describeDates(s.Valid) + " do not determine a seasonal cycle: it is their mean"
		whole, err = determineCycle(terms, 1, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("climatology: %d dates: %w", len(s.Valid), err)
	}
	s.each(s.points("points", 256, 1), func(_, lo, hi int) {
		for p := lo; p < hi; p++ {
			y := func(i int) float64 { return float64(s.Obs[i*n+p]) }
			c.fitPoint(p, terms, y, whole)
		}
	})
	if !slices.ContainsFunc(c.Sigma, func(v float64) bool { return v == v }) {
		return nil, fmt.Errorf("climatology: %w", ErrNoCases)
	}
	return c, nil
}

// fitPoint fits the cycle of point p. y returns its observations; solver is that of all dates.
func (c *Climatology) fitPoint(p int, terms [][harmonics]float64, y func(i int) float64, solver *mat.Cholesky) {
	n := solver.SymmetricDim()
	var rhs [harmonics]float64
	var origin float64 // the first value, subtracted against cancellation
	count := 0
	for i := range terms {
		v := y(i)
		if math.IsNaN(v) {
			continue
		}
		if count == 0 {
			origin = v
		}
		count++
		for k, f := range terms[i] {
			rhs[k] += f * (v - origin)
		}
	}
	cycle := c.Cycle[p*harmonics : (p+1)*harmonics]
	if count < len(terms) {
		own, err := determineCycle(terms, n, func(i int) bool { return !math.IsNaN(y(i)) })
		if err != nil {
			for k := range cycle {
				cycle[k] = math.NaN()
			}
			c.Sigma[p] = math.NaN()
			return
		}
		solver = own
	}
	out := mat.NewVecDense(n, cycle[:n])
	if err := solver.SolveVecTo(out, mat.NewVecDense(n, rhs[:n])); err != nil {
		panic("baseline: a solver of bounded condition number failed: " + err.Error())
	}
	var sq float64
	for i := range terms {
		if v := y(i); !math.IsNaN(v) {
			d := v - origin - dot(cycle, terms[i])
			sq += d * d
		}
	}
	cycle[0] += origin
	c.Sigma[p] = math.Sqrt(sq / float64(count-n))
}

// mostVariance is the largest variance of a fitted cycle at any time of the year, in units of the
// variance of a mean of as many dates: 3 for an annual cycle from dates of a whole year (5 with a
// semi-annual part), 10 from dates of eight months, 29 of half a year, 470 of a season.
const mostVariance = 10

// determineCycle factorises the normal matrix of the first n terms over the dates that keep
// accepts; nil: all.
//
// Errors: not more than n dates, or dates that leave part of the year undetermined.
func determineCycle(terms [][harmonics]float64, n int, keep func(i int) bool) (*mat.Cholesky, error) {
	normal := mat.NewSymDense(n, nil)
	count := 0
	for i, t := range terms {
		if keep != nil && !keep(i) {
			continue
		}
		count++
		normal.SymRankOne(normal, 1, mat.NewVecDense(n, t[:n]))
	}
	var ch mat.Cholesky
	if count <= n {
		return nil, ErrNoCases
	}
	if !ch.Factorize(normal) {
		return nil, errors.New("the seasonal terms are linearly dependent")
	}
	if n == 1 {
		return &ch, nil
	}
	at := mat.NewVecDense(n, nil)
	for k := range 36 {
		t := mat.NewVecDense(n, cycleTerms(2 * math.Pi * float64(k) / 36)[:n])
		if err := ch.SolveVecTo(at, t); err != nil {
			return nil, err
		}
		if v := float64(count) * mat.Dot(t, at); !(v <= mostVariance) {
			return nil, fmt.Errorf("part of the year is not determined: a variance of %.3g of a mean", v)
		}
	}
	return &ch, nil
}

// describeDates states the number of dates and the first and the last one.
func describeDates(valid []time.Time) string {
	first, last := slices.MinFunc(valid, time.Time.Compare), slices.MaxFunc(valid, time.Time.Compare)
	return fmt.Sprintf("%d dates from %s to %s", len(valid), first.Format(time.DateOnly), last.Format(time.DateOnly))
}

// Predict fills mean and standard deviation of the climatology at a valid time.
//
// Shape: mu, sigma [point].
func (c *Climatology) Predict(mu, sigma []float32, valid time.Time) {
	t := seasonTerms(valid)
	for p := range c.Sigma {
		mu[p] = float32(dot(c.Cycle[p*harmonics:(p+1)*harmonics], t))
		sigma[p] = float32(c.Sigma[p])
	}
}

// seasonTerms returns 1, sin τ, cos τ, sin 2τ, cos 2τ of a time.
func seasonTerms(t time.Time) [harmonics]float64 {
	return [harmonics]float64(cycleTerms(ensemble.SeasonAngle(t)))
}

// cycleTerms returns the terms of a phase of the year.
func cycleTerms(a float64) []float64 {
	return []float64{1, math.Sin(a), math.Cos(a), math.Sin(2 * a), math.Cos(2 * a)}
}

// dot is the scalar product of coefficients and terms.
func dot(c []float64, t [harmonics]float64) float64 {
	var sum float64
	for k, f := range t {
		sum += c[k] * f
	}
	return sum
}
