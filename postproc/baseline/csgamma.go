package baseline

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// GammaEMOS is EMOS of precipitation: a gamma distribution that is shifted left by Q and
// censored at 0, with one set of coefficients for all points. With m the ensemble mean:
//
//	mean = A + B·m,  variance = C + D·m  of the gamma distribution,  A, C > 0, B, D, Q ≥ 0, Q ≤ ȳ
//
// Source: Scheuerer and Hamill 2015, doi:10.1175/MWR-D-15-0061.1, for the distribution;
// Baran and Nemoda 2016, doi:10.1002/env.2391, for the regression.
type GammaEMOS struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
	C float64 `json:"c"`
	D float64 `json:"d"`
	Q float64 `json:"q"`
}

// gammaTerms is the number of its coefficients.
const gammaTerms = 5

// Limits in units of the mean observation. minGamma is the least A, and root of the least
// C: of a mean of 0 there is no gamma distribution. Q stays below maxShift: where nothing
// is 0 a far shift would make the gamma distribution a normal one, and have no end.
const (
	minGamma = 1e-4
	maxShift = 1
)

// FitGammaEMOS finds the coefficients of least mean CRPS by the weights of the points.
//
// Missing: a case with any NaN is left out; an ensemble mean below 0 counts as 0.
// Errors: shapes; ErrNoCases, also if all observations or all means are 0; a minimiser that fails.
// Cost: some 100 µs a case: for stations and small areas.
func FitGammaEMOS(s *Set) (*GammaEMOS, error) {
	if err := s.check("gamma emos", true); err != nil {
		return nil, err
	}
	l, err := leastSquares(s.Mean, s.Obs, s.caseWeight)
	if err == nil && !(l.x > 0 && l.y > 0) {
		err = fmt.Errorf("mean forecast %g, mean observation %g: %w", l.x, l.y, ErrNoCases)
	}
	if err != nil {
		return nil, fmt.Errorf("gamma emos: %w", err)
	}
	// Roots of coefficients in units of the mean observation are near 1, and free.
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

// parameters are those of dist.CSGamma.
func (e *GammaEMOS) parameters(m float64) (shape, scale, shift float64) {
	mean, variance := e.A+e.B*m, e.C+e.D*m
	return mean * mean / variance, variance / mean, e.Q
}

// crps is the score with its derivatives by mean, variance and shift.
func (e *GammaEMOS) crps(m, y float64) (crps, dmean, dvariance, dshift float64) {
	mean, variance := e.A+e.B*m, e.C+e.D*m
	k, theta, q := e.parameters(m)
	crps, dk, dtheta, dshift := dist.CSGammaCRPS(k, theta, q, y)
	return crps, (2*dk*k - dtheta*theta) / mean, (dtheta*theta - dk*k) / variance, dshift
}

// Forecast gives shape, scale and shift; an ensemble mean below 0 counts as 0.
func (e *GammaEMOS) Forecast(r Raw) [][]float32 {
	out := append(newParameterFields(len(r.Mean)), make([]float32, len(r.Mean)))
	for p, m := range r.Mean {
		k, theta, q := e.parameters(max(0, float64(m)))
		out[0][p], out[1][p], out[2][p] = float32(k), float32(theta), float32(q)
	}
	return out
}

// Arrays are none: all points have the same coefficients, which are in the JSON text.
func (e *GammaEMOS) Arrays() []Array { return nil }
