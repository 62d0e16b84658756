package dist

import "math"

// Family is a kind of distribution with few parameters: its functions over a slice of
// them, for code that works with any family.
//
// Shape: par and grad have one entry for each name in Parameters.
type Family struct {
	ID         string // the name in files, never changed
	Name       string // for people
	Parameters []string
	Roles      []Role // of the parameters
	CDF        func(par []float64, x float64) float64
	Quantile   func(par []float64, p float64) float64
	// CRPS fills grad with the derivatives by the parameters unless it is nil. That by y is
	// 2 CDF(y) − 1.
	CRPS func(grad, par []float64, y float64) float64
	// Moments are mean and standard deviation.
	Moments func(par []float64) (mean, std float64)
	// HalfMeanDifference is ½E|X−X'|, the CRPS that the distribution expects of itself; nil where no closed
	// form is written.
	HalfMeanDifference func(par []float64) float64
	// Positive says that there are no values below 0.
	Positive bool
	// Excess is the family of what lies above a threshold, if that is one of the table.
	Excess Excess
	// StandardMoments are the moments of what has location 0 and scale 1, before it is cut at 0, of a family that has both and no other parameter.
	// The zero value is of all others.
	StandardMoments Moments
	// Average gives the parameters of an average of distributions whose parameters are given, [distribution][parameter], if they are not the means of the
	// parameters. Of fixed parameters, which all of them have in common, given has none.
	Average func(fixed []float64, given [][]float64) []float64
	// FLOPs is a rough number of operations of the CRPS with its derivatives; 0 stands for 100.
	FLOPs int64

	shortcuts
}

// shortcuts are what a family has of OfMoments and QuantileFunc.
type shortcuts struct {
	// One of both is behind OfMoments: the parameters themselves, or those of scale 1 and a location, which
	// give every ratio of the moments.
	setMoments  func(par []float64, mean, std float64)
	setStandard func(par []float64, u float64)
	// quantileFunc is nil where QuantileFunc saves nothing.
	quantileFunc func(p float64) func(par []float64) float64
}

// Moments are a mean and a standard deviation.
type Moments struct{ Mean, Std float64 }

// Role says what becomes of a parameter if the variable is shifted by a and multiplied by b.
type Role uint8

// The roles.
const (
	Location    Role = iota // a + b·x, in the unit of the variable
	Scale                   // b·x, in the unit of the variable
	Invariant               // x
	LogLocation             // x + log b, of a variable that is not shifted
)

// Excess describes the distribution of max(X−t, 0): it has the parameters of X, to each of which
// its sign times t is added. Its CRPS against max(y−t, 0) is that of X weighted with 1 above t.
//
// Source: Gneiting and Ranjan 2011, doi:10.1198/jbes.2010.08110; Allen et al. 2023, arXiv:2202.12732.
type Excess struct {
	Family *Family // nil: none
	Signs  []float64
}

// CRPSAbove is the CRPS weighted with 1 above a threshold t and 0 below. Its gradient is
// that of Excess.Family at par, which is changed to those of the excess.
func (f *Family) CRPSAbove(grad, par []float64, t, y float64) float64 {
	for i, sign := range f.Excess.Signs {
		par[i] += sign * t
	}
	return f.Excess.Family.CRPS(grad, par, max(y-t, 0))
}

// QuantileFunc is Quantile for one p and many parameters: what depends on p alone is
// computed once.
func (f *Family) QuantileFunc(p float64) func(par []float64) float64 {
	if f.quantileFunc != nil {
		return f.quantileFunc(p)
	}
	return func(par []float64) float64 { return f.Quantile(par, p) }
}

// Below is the probability of values less than x: the distribution function without the
// mass at x itself. Missing: NaN among the parameters gives NaN.
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

// Censored is the distribution of max(X, 0), by the same parameters: f itself where no closed form of it is written, or none is needed.
func (f *Family) Censored() *Family {
	if f.Excess.Family == nil {
		return f
	}
	return f.Excess.Family
}

// StandardForm is what a family of a location and a scale is made of: the functions of the distribution of location 0 and scale 1.
type StandardForm struct {
	CDF      func(z float64) float64
	Quantile func(p float64) float64
	// CRPS is that of the distribution with any location and scale, with its derivatives by both.
	CRPS func(mu, sigma, y float64) (crps, dmu, dsigma float64)
	Moments
	// HalfMeanDifference is ½E|X−X'| of any scale; nil where no closed form is written.
	HalfMeanDifference func(sigma float64) float64
}

// locationScale is the family of what has a location and a scale. Its name is for people.
func locationScale(id, name string, s StandardForm) *Family {
	mean := func(mu, sigma float64) float64 {
		if s.Mean == 0 { // also of an infinite scale
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

// nonNegative makes of a family of two parameters one of what has no values below 0, whose unit is that of its parent.
func nonNegative(f *Family, unit Moments, moments func(par []float64) (mean, std float64)) *Family {
	f.Positive, f.StandardMoments, f.Moments = true, unit, moments
	f.setStandard = func(par []float64, u float64) { par[0], par[1] = u, 1 }
	return f
}

// twoParameters is a family of a location and a scale, or those of its parent.
func twoParameters(id, name string, cdf, quantile func(mu, sigma, v float64) float64, crps func(mu, sigma, y float64) (crps, dmu, dsigma float64)) *Family {
	return &Family{ID: id, Name: name, Parameters: []string{"mu", "sigma"}, Roles: []Role{Location, Scale},
		CDF:      func(par []float64, x float64) float64 { return cdf(par[0], par[1], x) },
		Quantile: func(par []float64, p float64) float64 { return quantile(par[0], par[1], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			c, dmu, dsigma := crps(par[0], par[1], y)
			return fillGradient(grad, c, dmu, dsigma)
		}}
}

// withExcess gives a family that of what lies above a threshold, with the signs of Excess; nil is the family itself, since what is censored
// once is of the same family when it is censored again.
func withExcess(f, excess *Family, signs ...float64) *Family {
	if excess == nil {
		excess = f
	}
	f.Excess = Excess{excess, signs}
	return f
}

func fillGradient(grad []float64, crps float64, d ...float64) float64 {
	if grad != nil {
		copy(grad, d)
	}
	return crps
}
