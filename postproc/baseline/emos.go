package baseline

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Family is the distribution of an EMOS forecast.
type Family string

// The families.
const (
	Normal          Family = "norm"
	TruncatedNormal Family = "truncnorm" // normal truncated below 0, for wind speed
)

// crps is the CRPS of the family with its derivatives; mu and sigma are those of the parent normal.
func (f Family) crps(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	if f == TruncatedNormal {
		return dist.TruncatedNormalCRPS(mu, sigma, y)
	}
	return dist.NormalCRPS(mu, sigma, y)
}

// Quantile is the p quantile of the family; mu and sigma are those of the parent normal.
func (f Family) Quantile(mu, sigma, p float64) float64 {
	if f == TruncatedNormal {
		return dist.TruncatedNormalQuantile(mu, sigma, p)
	}
	return mu + sigma*dist.NormalQuantile(p)
}

// EMOS is ensemble model output statistics with one set of coefficients for all points and
// dates. With m the ensemble mean and S its spread (divisor M−1):
//
//	mu = Alpha + Beta·m,  sigma = √( Gamma² + Delta²·S² )
//
// Unit: Alpha and Gamma that of the variable.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1; Thorarinsdottir and Gneiting 2010,
// doi:10.1111/j.1467-985X.2009.00616.x, for the truncated normal distribution.
type EMOS struct {
	Family Family  `json:"family"`
	Alpha  float64 `json:"alpha"`
	Beta   float64 `json:"beta"`
	Gamma  float64 `json:"gamma"`
	Delta  float64 `json:"delta"`
}

// EMOSOptions configure FitEMOS. The zero value fits a normal distribution to convergence.
type EMOSOptions struct {
	Family Family // "": Normal
	// NelderMead minimises by the Nelder–Mead method exactly as SciPy (and IMPROVER), with
	// Tolerance (0: 1e-4) and at most 1000 steps, to reproduce published results. It
	// begins with least-squares coefficients, or with (0, 1, 0, 1) if DefaultStart.
	// false: BFGS to the minimum.
	NelderMead   bool
	DefaultStart bool
	Tolerance    float64
}

// FitEMOS finds the coefficients of least mean CRPS over all cases of the set,
//
//	argmin Σ w CRPS(mu, sigma; y) / Σ w
//
// with w the weights of the points, by BFGS with exact gradients; a normal distribution at more than sparsePoints points
// by Newton steps, which need a tenth of the passes.
//
// Missing: a case with any NaN is left out.
// Errors: wrong shapes, ErrNoCases, a minimisation that fails.
func FitEMOS(s *Set, o EMOSOptions) (*EMOS, error) {
	if err := s.check("emos", true); err != nil {
		return nil, err
	}
	if o.Family == "" {
		o.Family = Normal
	}
	l, err := s.leastSquares("regression line", s.Mean, s.Obs, s.Std)
	if err != nil {
		return nil, fmt.Errorf("emos: %w", err)
	}
	if o.NelderMead {
		return fitEMOSNelderMead(s, o, l), nil
	}
	if o.Family == Normal && s.Points() > sparsePoints {
		if e := fitEMOSNewton(s, l.residual); e != nil {
			return e, nil
		}
	}
	return fitEMOSBFGS(s, o.Family, l)
}

// fitEMOSBFGS is FitEMOS by BFGS. l is the regression line.
func fitEMOSBFGS(s *Set, family Family, l line) (*EMOS, error) {
	// The free parameters are a, b, c, d of mu = ȳ + u·a + b(m−m̄), sigma² = (u·c)² + d²S²,
	// with u the residual standard deviation: all are near 1, a and b nearly independent.
	u := l.residual
	if u == 0 {
		u = 1
	}
	model := func(x []float64) *EMOS {
		return &EMOS{family, l.y + u*x[0] - x[1]*l.x, x[1], math.Abs(u * x[2]), math.Abs(x[3])}
	}
	value := func(x, grad []float64) float64 {
		e := model(x)
		return meanCRPS(s, grad, func(g []float64, m, sd, y float64) float64 {
			mu, sigma := e.parameters(m, sd)
			c, dmu, dsigma := family.crps(mu, sigma, y)
			g[0] += dmu * u
			g[1] += dmu * (m - l.x)
			if sigma > 0 {
				g[2] += dsigma * u * u * x[2] / sigma
				g[3] += dsigma * sd * sd * x[3] / sigma
			}
			return c
		})
	}
	// The initial Gamma is not 0, where its derivative vanishes.
	x, err := minimise(value, []float64{0, l.slope, 0.5, 1}, u)
	if err != nil {
		return nil, fmt.Errorf("emos: %w", err)
	}
	return model(x), nil
}

// fitEMOSNewton is FitEMOS for a normal distribution by FitRegression, whose scale √(C + D·S²) is that of EMOS; nil if C
// ends at its lower bound, which EMOS does not have. residual is that of the regression line.
func fitEMOSNewton(s *Set, residual float64) *EMOS {
	r, err := FitRegression(s, RegressionOptions{Link: QuadraticScale, Pooled: true})
	if err != nil || r.Scale[0] < 1e-5*residual*residual {
		return nil
	}
	return &EMOS{Normal, r.Location[0], r.Location[1], math.Sqrt(r.Scale[0]), math.Sqrt(r.Scale[1])}
}

// fitEMOSNelderMead is FitEMOS by the Nelder–Mead method, in the coordinates of IMPROVER.
func fitEMOSNelderMead(s *Set, o EMOSOptions, l line) *EMOS {
	if o.Tolerance == 0 {
		o.Tolerance = 1e-4
	}
	// IMPROVER stores the initial coefficients as float32.
	start := []float64{float64(float32(l.y - l.slope*l.x)), float64(float32(l.slope)), 0, 1}
	if o.DefaultStart {
		start = []float64{0, 1, 0, 1}
	}
	x, _ := nelderMead(func(x []float64) float64 {
		e := EMOS{o.Family, x[0], x[1], x[2], x[3]}
		c := e.MeanCRPS(s)
		if math.IsNaN(c) || math.IsInf(c, 0) {
			return math.MaxFloat32
		}
		return c
	}, start, simplexOptions{tolerance: o.Tolerance, iterations: 1000})
	return &EMOS{o.Family, x[0], x[1], x[2], x[3]}
}

// parameters returns location and scale for a mean and a spread.
func (e *EMOS) parameters(mean, std float64) (mu, sigma float64) {
	return e.Alpha + e.Beta*mean, math.Sqrt(e.Gamma*e.Gamma + e.Delta*e.Delta*std*std)
}

// Predict fills location and scale (of the parent normal) from mean and spread.
//
// Shape: all [point]. Missing: NaN gives NaN.
func (e *EMOS) Predict(mu, sigma, mean, std []float32) {
	for p := range mean {
		m, s := e.parameters(float64(mean[p]), float64(std[p]))
		mu[p], sigma[p] = float32(m), float32(s)
	}
}

// MeanCRPS is the weighted mean CRPS over a set.
func (e *EMOS) MeanCRPS(s *Set) float64 {
	return meanCRPS(s, nil, func(_ []float64, m, sd, y float64) float64 {
		mu, sigma := e.parameters(m, sd)
		c, _, _ := e.Family.crps(mu, sigma, y)
		return c
	})
}

// meanCRPS is the weighted mean of do over all complete cases. do returns the score of a
// case and adds its gradient to g; the mean gradient goes to grad. With a nil grad the
// gradient is discarded.
//
//	value = Σ w f / Σ w,   grad = Σ w ∂f/∂θ / Σ w
//
// Cases are summed in chunks of a fixed size, and the chunks in order, so the bits do not
// depend on the number of processors.
func meanCRPS(s *Set, grad []float64, do func(g []float64, mean, std, y float64) float64) float64 {
	n := s.Points()
	const terms = gammaTerms // largest number of any caller
	type sums struct {       // Σ w, Σ w·score, Σ w·gradient
		w, f float64
		g    [terms]float64
	}
	const chunk = 8192
	parts := make([]sums, (len(s.Obs)+chunk-1)/chunk)
	s.each(pass{"scores of all points", len(s.Obs), chunk, 3}, func(k, lo, hi int) {
		var t sums
		var g [terms]float64
		p := lo%n - 1 // point of the previous case; a division per case would cost as much as the score
		for i := lo; i < hi; i++ {
			if p++; p == n {
				p = 0
			}
			m, sd, y := float64(s.Mean[i]), float64(s.Std[i]), float64(s.Obs[i])
			if math.IsNaN(m) || math.IsNaN(sd) || math.IsNaN(y) {
				continue
			}
			w := s.weight(p)
			g = [terms]float64{}
			t.f += w * do(g[:], m, sd, y)
			t.w += w
			for j, v := range g {
				t.g[j] += w * v
			}
		}
		parts[k] = t
	})
	var t sums
	for _, p := range parts {
		t.w += p.w
		t.f += p.f
		for j, v := range p.g {
			t.g[j] += v
		}
	}
	for j := range grad {
		grad[j] = t.g[j] / t.w
	}
	return t.f / t.w
}

// minimise finds the minimum of value, a mean score in units of scale, by BFGS from x0. It ends if
// five iterations change the value by less than 1e-11, or at a gradient below 1e-7.
//
// Errors: NaN, or a line search that stops at a gradient above 1e-5.
func minimise(value func(x, grad []float64) float64, x0 []float64, scale float64) ([]float64, error) {
	// gonum requests value and gradient at the same x one after the other.
	// last is the x of the present f and grad.
	last, grad := make([]float64, len(x0)), make([]float64, len(x0))
	var f float64
	cached := false
	eval := func(x []float64) {
		if cached {
			same := true
			for k := range x {
				same = same && x[k] == last[k]
			}
			if same {
				return
			}
		}
		copy(last, x)
		f = value(x, grad) / scale
		cached = true
	}
	p := optimize.Problem{
		Func: func(x []float64) float64 { eval(x); return f },
		Grad: func(g, x []float64) {
			eval(x)
			for k := range g {
				g[k] = grad[k] / scale
			}
		},
	}
	res, err := optimize.Minimize(p, x0, &optimize.Settings{
		GradientThreshold: 1e-7, // for a score and coefficients near 1
		MajorIterations:   500,
		Converger:         &optimize.FunctionConverge{Absolute: 1e-11, Iterations: 5},
	}, &optimize.BFGS{})
	if res == nil || math.IsNaN(res.F) {
		return nil, fmt.Errorf("minimum CRPS not found: %w", err)
	}
	// A line search that cannot lower the value has converged to float64 precision, unless
	// the gradient is still large.
	if err != nil {
		eval(res.X)
		for _, g := range grad {
			if math.Abs(g)/scale > 1e-5 {
				return nil, fmt.Errorf("minimum CRPS not found: %w", err)
			}
		}
	}
	return res.X, nil
}
