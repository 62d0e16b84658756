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
// If the dates do not determine a cycle (one season, or one date a year), c₀ is their mean
// and the other coefficients are 0.
//
// Shape: Cycle [point][5], Sigma [point]. Unit: that of the variable.
// Source: Wilks 2019, doi:10.1016/C2017-0-03921-6, ch. 3.
type Climatology struct {
	Cycle []float64 `json:"-"` // c₀ to c₄
	Sigma []float64 `json:"-"` // residual standard deviation

	warning string // see Warning
}

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
	whole, err := cycleSolver(terms, harmonics, nil)
	if err != nil {
		first, last := slices.MinFunc(s.Valid, time.Time.Compare), slices.MaxFunc(s.Valid, time.Time.Compare)
		c.warning = fmt.Sprintf("%d dates from %s to %s do not determine a seasonal cycle: it is their mean", len(s.Valid), first.Format(time.DateOnly), last.Format(time.DateOnly))
		whole, err = cycleSolver(terms, 1, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("climatology: %d dates: %w", len(s.Valid), err)
	}
	parallel(n, 256, func(_, lo, hi int) {
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
		own, err := cycleSolver(terms, n, func(i int) bool { return !math.IsNaN(y(i)) })
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

// cycleSolver factorises the normal matrix of the first n terms over the dates that keep
// accepts; nil: all.
//
// Errors: not more than n dates, or terms that are (nearly) linearly dependent.
func cycleSolver(terms [][harmonics]float64, n int, keep func(i int) bool) (*mat.Cholesky, error) {
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
	if c := ch.Cond(); c > 1e4 { // about 2 for dates of a whole year, about 1000 for half a year
		return nil, fmt.Errorf("the seasonal terms are nearly linearly dependent: condition number %.3g", c)
	}
	return &ch, nil
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

// seasonTerms returns 1, sin τ, cos τ, sin 2τ, cos 2τ.
func seasonTerms(t time.Time) [harmonics]float64 {
	a := ensemble.SeasonAngle(t)
	return [harmonics]float64{1, math.Sin(a), math.Cos(a), math.Sin(2 * a), math.Cos(2 * a)}
}

// dot is the scalar product of coefficients and terms.
func dot(c []float64, t [harmonics]float64) float64 {
	var sum float64
	for k, f := range t {
		sum += c[k] * f
	}
	return sum
}
