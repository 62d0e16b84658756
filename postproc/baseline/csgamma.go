package baseline

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// GammaEMOS is EMOS for precipitation with a censored, shifted gamma distribution, with one
// set of coefficients for all points and dates. With m the ensemble mean, the gamma
// distribution, which is then shifted left by Q and censored at 0, has
//
//	mean = A + B·m,  variance = C + D·m,  A, C > 0, B, D, Q ≥ 0, Q ≤ ȳ
//
// Unit: A and Q that of the variable, C its square, D that of the variable.
// Source: Scheuerer and Hamill 2015, doi:10.1175/MWR-D-15-0061.1, for the distribution;
// Baran and Nemoda 2016, doi:10.1002/env.2391, for the regression.
type GammaEMOS struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
	C float64 `json:"c"`
	D float64 `json:"d"`
	Q float64 `json:"q"`
}

// gammaTerms is the number of coefficients.
const gammaTerms = 5

// Bounds in units of the mean observation. minGamma is the least A and √C, since a gamma
// distribution has a positive mean. maxShift bounds Q: without observations of 0 the fit
// would tend to the normal distribution with an unbounded shift.
const (
	minGamma = 1e-4
	maxShift = 1
)

// FitGammaEMOS finds the coefficients of least weighted mean CRPS by BFGS. Bounds hold by
// substitution: A, B, C and D are squares of free parameters plus their bounds.
//
// Missing: a case with any NaN is left out; an ensemble mean below 0 counts as 0.
// Errors: wrong shapes; ErrNoCases, also if all observations or all means are 0; a
// minimisation that fails.
// Cost: about 100 µs per case: for stations and small areas.
func FitGammaEMOS(s *Set) (*GammaEMOS, error) {
	if err := s.check("gamma emos", true); err != nil {
		return nil, err
	}
	l, err := s.leastSquares("regression line", s.Mean, s.Obs, s.Std)
	if err == nil && !(l.x > 0 && l.y > 0) {
		err = fmt.Errorf("mean forecast %g, mean observation %g: %w", l.x, l.y, ErrNoCases)
	}
	if err != nil {
		return nil, fmt.Errorf("gamma emos: %w", err)
	}
	// The roots of the coefficients, in units of the mean observation, are near 1 and unbounded.
	u, per := l.y, l.y/l.x
	model := func(x []float64) *GammaEMOS {
		return &GammaEMOS{u * (minGamma + x[0]*x[0]), per * x[1] * x[1], u * u * (minGamma*minGamma + x[2]*x[2]), u * per * x[3] * x[3], u * maxShift * x[4] * x[4] / (1 + x[4]*x[4])}
	}
	value := func(x, grad []float64) float64 {
		e := model(x)
		return meanCRPS(s, grad, func(g []float64, m, _, y float64) float64 {
			m = max(0, m)
			c, dmean, dvariance, dshift := e.crps(m, y)
			g[0] += dmean * u * 2 * x[0]
			g[1] += dmean * per * m * 2 * x[1]
			g[2] += dvariance * u * u * 2 * x[2]
			g[3] += dvariance * u * per * m * 2 * x[3]
			free := 1 + x[4]*x[4]
			g[4] += dshift * u * maxShift * 2 * x[4] / (free * free)
			return c
		})
	}
	x, err := minimise(value, []float64{0.4, 0.9, 0.7, 0.7, 0.3}, u)
	if err != nil {
		return nil, fmt.Errorf("gamma emos: %w", err)
	}
	return model(x), nil
}

// parameters returns the parameters of dist.CSGamma for an ensemble mean m: k = mean²/variance, θ = variance/mean.
func (e *GammaEMOS) parameters(m float64) (shape, scale, shift float64) {
	mean, variance := e.A+e.B*m, e.C+e.D*m
	return mean * mean / variance, variance / mean, e.Q
}

// crps is the CRPS with its derivatives with respect to mean, variance and shift, by the
// chain rule through k = mean²/variance and θ = variance/mean:
//
//	∂/∂mean = (2k ∂_k − θ ∂_θ)/mean,   ∂/∂variance = (θ ∂_θ − k ∂_k)/variance
func (e *GammaEMOS) crps(m, y float64) (crps, dmean, dvariance, dshift float64) {
	mean, variance := e.A+e.B*m, e.C+e.D*m
	k, theta, q := e.parameters(m)
	crps, dk, dtheta, dshift := dist.CSGammaCRPS(k, theta, q, y)
	return crps, (2*dk*k - dtheta*theta) / mean, (dtheta*theta - dk*k) / variance, dshift
}

// Forecast returns shape, scale and shift at every point. An ensemble mean below 0 counts as
// 0.
func (e *GammaEMOS) Forecast(r Raw) [][]float32 {
	out := append(newParameterFields(len(r.Mean)), make([]float32, len(r.Mean)))
	for p, m := range r.Mean {
		k, theta, q := e.parameters(max(0, float64(m)))
		out[0][p], out[1][p], out[2][p] = float32(k), float32(theta), float32(q)
	}
	return out
}

// Arrays returns nil: the coefficients of all points are in the JSON text.
func (e *GammaEMOS) Arrays() []Array { return nil }
