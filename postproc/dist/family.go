package dist

import "math"

// Family is a parametric family of distributions: its functions for a slice of parameters,
// for code that works with any family.
//
// Shape: par and grad have one entry for each name in Parameters.
type Family struct {
	ID         string // name in files and options
	Name       string // name for display
	Parameters []string
	Roles      []Role // [parameter]
	CDF        func(par []float64, x float64) float64
	Quantile   func(par []float64, p float64) float64
	// CRPS fills grad with the derivatives with respect to the parameters unless grad is nil.
	// The derivative with respect to y is 2 CDF(y) − 1.
	CRPS func(grad, par []float64, y float64) float64
	// Moments returns mean and standard deviation.
	Moments func(par []float64) (mean, std float64)
	// HalfMeanDifference is ½E|X−X'|, the expected CRPS if the observation is a draw from the
	// distribution; nil: no closed form.
	HalfMeanDifference func(par []float64) float64
	// Positive: the distribution has no values below 0.
	Positive bool
	// Excess is the family of max(X−t, 0); the zero value means that Table has none.
	Excess Excess
	// StandardMoments holds the moments at location 0 and scale 1, before truncation or censoring at 0,
	// for families with exactly these two parameters; zero for others.
	StandardMoments Moments
	// Average returns the parameters of the average of distributions; nil: the means of the
	// parameters. given is [distribution][parameter] without the leading fixed parameters,
	// which all distributions share.
	Average func(fixed []float64, given [][]float64) []float64
	// FLOPs estimates the operations of the CRPS with its derivatives; 0: 100.
	FLOPs int64

	shortcuts
}

// shortcuts are the implementations of SetMoments and QuantileFunc.
type shortcuts struct {
	// Exactly one is set: setMoments computes the parameters; setStandard sets scale 1 and the
	// location u, over which SetMoments searches for the ratio of the moments.
	setMoments  func(par []float64, mean, std float64)
	setStandard func(par []float64, u float64)
	// quantileFunc implements QuantileFunc; nil: by Quantile.
	quantileFunc func(p float64) func(par []float64) float64
}

// Moments holds a mean and a standard deviation.
type Moments struct{ Mean, Std float64 }

// Role describes how a parameter x changes if the variable is multiplied by b and a is added.
type Role uint8

// The roles.
const (
	Location    Role = iota // a + b·x, in the unit of the variable
	Scale                   // b·x, in the unit of the variable
	Invariant               // x: unchanged, without unit
	LogLocation             // x + log b; only for a = 0
)

// Excess describes the distribution of max(X−t, 0). It has the parameters of X, to each of
// which its sign times t is added. Its CRPS for max(y−t, 0) is the threshold-weighted CRPS
// of X with weight 1 above t.
//
// Source: Gneiting and Ranjan 2011, doi:10.1198/jbes.2010.08110; Allen et al. 2023, arXiv:2202.12732.
type Excess struct {
	Family *Family   // nil: none
	Signs  []float64 // [parameter]
}

// CRPSAbove is the threshold-weighted CRPS with weight 1 above t and 0 below:
//
//	∫_t^∞ ( F(x) − 1[x ≥ y] )² dx
//
// It replaces par by the parameters of the excess; grad is the gradient with respect to
// these.
//
// Source: as Excess.
func (f *Family) CRPSAbove(grad, par []float64, t, y float64) float64 {
	for i, sign := range f.Excess.Signs {
		par[i] += sign * t
	}
	return f.Excess.Family.CRPS(grad, par, max(y-t, 0))
}

// QuantileFunc returns the p quantile as a function of the parameters. Terms that depend on p
// alone are computed once.
func (f *Family) QuantileFunc(p float64) func(par []float64) float64 {
	if f.quantileFunc != nil {
		return f.quantileFunc(p)
	}
	return func(par []float64) float64 { return f.Quantile(par, p) }
}

// Below is the probability of values less than x, without the point mass at x.
// Missing: NaN among the parameters gives NaN.
func (f *Family) Below(par []float64, x float64) float64 {
	for _, v := range par {
		if v != v {
			return v
		}
	}
	return f.CDF(par, math.Nextafter(x, math.Inf(-1)))
}

// Above is the probability of values greater than x. Missing: as Below.
func (f *Family) Above(par []float64, x float64) float64 {
	for _, v := range par {
		if v != v {
			return v
		}
	}
	return 1 - f.CDF(par, x)
}

// Censored is the family of max(X, 0) with the same parameters; f itself if that has no
// closed form or X has no values below 0.
func (f *Family) Censored() *Family {
	if f.Excess.Family == nil {
		return f
	}
	return f.Excess.Family
}

// StandardForm holds the functions of the standard distribution (location 0, scale 1) of a
// location-scale family.
type StandardForm struct {
	CDF      func(z float64) float64
	Quantile func(p float64) float64
	// CRPS is that for any location and scale, with its derivatives with respect to both.
	CRPS func(mu, sigma, y float64) (crps, dmu, dsigma float64)
	Moments
	// HalfMeanDifference is ½E|X−X'| for a scale; nil: no closed form.
	HalfMeanDifference func(sigma float64) float64
}

// locationScale makes a location-scale family. name is for display.
func locationScale(id, name string, s StandardForm) *Family {
	mean := func(mu, sigma float64) float64 {
		if s.Mean == 0 { // also for an infinite scale
			return mu
		}
		return mu + s.Mean*sigma
	}
	f := twoParameters(id, name,
		func(mu, sigma, x float64) float64 { return s.CDF((x - mu) / sigma) },
		func(mu, sigma, p float64) float64 { return mu + sigma*s.Quantile(p) }, s.CRPS)
	f.StandardMoments = s.Moments
	f.Moments = func(par []float64) (float64, float64) { return mean(par[0], par[1]), par[1] * s.Std }
	f.setMoments = func(par []float64, m, std float64) {
		par[1] = std / s.Std
		par[0] = mean(m, -par[1])
	}
	f.quantileFunc = func(p float64) func(par []float64) float64 {
		z := s.Quantile(p)
		return func(par []float64) float64 { return par[0] + par[1]*z }
	}
	if s.HalfMeanDifference != nil {
		f.HalfMeanDifference = func(par []float64) float64 { return s.HalfMeanDifference(par[1]) }
	}
	return f
}

// nonNegative completes a family of two parameters without values below 0. unit holds the
// moments of the standard distribution before truncation or censoring.
func nonNegative(f *Family, unit Moments, moments func(par []float64) (mean, std float64)) *Family {
	f.Positive, f.StandardMoments, f.Moments = true, unit, moments
	f.setStandard = func(par []float64, u float64) { par[0], par[1] = u, 1 }
	return f
}

// twoParameters makes a family with a location and a scale (of the parent if truncated or censored).
func twoParameters(id, name string, cdf, quantile func(mu, sigma, v float64) float64, crps func(mu, sigma, y float64) (crps, dmu, dsigma float64)) *Family {
	return &Family{ID: id, Name: name, Parameters: []string{"mu", "sigma"}, Roles: []Role{Location, Scale},
		CDF:      func(par []float64, x float64) float64 { return cdf(par[0], par[1], x) },
		Quantile: func(par []float64, p float64) float64 { return quantile(par[0], par[1], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			c, dmu, dsigma := crps(par[0], par[1], y)
			return fillGradient(grad, c, dmu, dsigma)
		}}
}

// withExcess sets Excess of a family. A nil excess is the family itself, since the excess of
// a censored distribution has the same family.
func withExcess(f, excess *Family, signs ...float64) *Family {
	if excess == nil {
		excess = f
	}
	f.Excess = Excess{excess, signs}
	return f
}

// fillGradient copies the derivatives d to grad unless it is nil, and returns crps.
func fillGradient(grad []float64, crps float64, d ...float64) float64 {
	if grad != nil {
		copy(grad, d)
	}
	return crps
}
