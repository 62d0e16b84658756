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

// harmonics is the number of coefficients of a seasonal cycle: mean, annual and
// semi-annual sine and cosine.
const harmonics = 5

// Climatology forecasts what is usual at the place and season: the seasonal
// cycle of past analyses with their scatter about it.
//
//	mu = c₀ + c₁ sin τ + c₂ cos τ + c₃ sin 2τ + c₄ cos 2τ,  τ the season's angle
//	sigma = √( Σ residual² / (n−5) )
//
// Dates that do not determine a cycle (those of one season, one a year) give c₀ alone, their
// mean; the others are 0.
//
// Shape: Cycle [point][5], Sigma [point].
type Climatology struct {
	Cycle []float64 `json:"-"`
	Sigma []float64 `json:"-"`

	warning string // what the dates did not determine
}

// Warning says what the dates did not suffice for; "" if nothing.
func (c *Climatology) Warning() string { return c.warning }

// FitClimatology fits the cycle at every point by least squares. Of the set only
// Valid and Obs are looked at.
//
// Missing: dates whose observation is missing at a point are left out there; a
// point whose dates do not determine the coefficients that all dates do has no climatology (NaN).
// Errors: fewer than two dates, ErrNoCases where no point has a climatology.
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
	// Points without gaps share one normal matrix; others get their own.
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

// fitPoint solves for one point's cycle.
func (c *Climatology) fitPoint(p int, terms [][harmonics]float64, y func(i int) float64, solver *mat.Cholesky) {
	n := solver.SymmetricDim()
	var rhs [harmonics]float64
	var origin float64 // the first value, taken off so that squares keep their digits
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
		panic("baseline: a solver that was checked refused to solve: " + err.Error())
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

// cycleSolver factorises the normal matrix of the first n terms of the dates that keep
// accepts, which must be more than n.
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
		return nil, errors.New("the seasonal terms are dependent")
	}
	if c := ch.Cond(); c > 1e4 { // a whole year has about 2, half a year about 1000
		return nil, fmt.Errorf("the seasonal terms are nearly dependent, condition number %.3g", c)
	}
	return &ch, nil
}

// Predict fills mean and spread of the climatology at a valid time.
//
// Shape: mu, sigma [point].
func (c *Climatology) Predict(mu, sigma []float32, valid time.Time) {
	t := seasonTerms(valid)
	for p := range c.Sigma {
		mu[p] = float32(dot(c.Cycle[p*harmonics:(p+1)*harmonics], t))
		sigma[p] = float32(c.Sigma[p])
	}
}

func seasonTerms(t time.Time) [harmonics]float64 {
	a := ensemble.SeasonAngle(t)
	return [harmonics]float64{1, math.Sin(a), math.Cos(a), math.Sin(2 * a), math.Cos(2 * a)}
}

func dot(c []float64, t [harmonics]float64) float64 {
	var sum float64
	for k, f := range t {
		sum += c[k] * f
	}
	return sum
}
