package dist

import (
	"math"
	"sync/atomic"
)

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
	// HalfDistance is ½E|X−X'|, the CRPS that the distribution expects of itself; nil where no closed
	// form is written.
	HalfDistance func(par []float64) float64
	// Positive says that there are no values below 0.
	Positive bool
	// Excess is the family of what lies above a threshold, if that is one of the table.
	Excess Excess

	// One of both is behind OfMoments: the parameters themselves, or those of scale 1 and a location, which
	// give every ratio of the moments.
	ofMoments func(par []float64, mean, std float64)
	standard  func(par []float64, u float64)
}

// Role says what becomes of a parameter if the variable is shifted by a and multiplied by b.
type Role uint8

// The roles.
const (
	Location Role = iota // a + b·x, in the unit of the variable
	Scale                // b·x, in the unit of the variable
	Pure                 // x
	Log                  // x + log b, of a variable that is not shifted
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

// Families lists all of them. Histograms and Bernstein quantile functions have as many
// parameters as one likes and stand apart: see FamilyOf.
var Families = []*Family{Normal, TruncatedNormal, CensoredNormal, ZeroNormal, LogNormal, Logistic, TruncatedLogistic, CensoredLogistic, CSGamma, Student}

// The families.
var (
	Normal = locationScale("normal", "normal", false,
		func(mu, sigma, x float64) float64 { return NormalCDF((x - mu) / sigma) },
		func(mu, sigma, p float64) float64 { return mu + sigma*NormalQuantile(p) }, NormalCRPS, normalMoments)
	TruncatedNormal = locationScale("truncated_normal", "normal truncated below at 0", true,
		TruncatedNormalCDF, TruncatedNormalQuantile, TruncatedNormalCRPS, truncatedNormalMoments)
	CensoredNormal = locationScale("censored_normal", "normal censored at 0", true,
		CensoredNormalCDF, CensoredNormalQuantile, CensoredNormalCRPS, censoredNormalMoments)
	LogNormal = &Family{ID: "log_normal", Name: "log-normal", Parameters: []string{"mu", "sigma"}, Roles: []Role{Log, Pure}, Positive: true,
		CDF:      func(par []float64, x float64) float64 { return LogNormalCDF(par[0], par[1], x) },
		Quantile: func(par []float64, p float64) float64 { return LogNormalQuantile(par[0], par[1], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			crps, dmu, dsigma := LogNormalCRPS(par[0], par[1], y)
			return fill(grad, crps, dmu, dsigma)
		}, Moments: logNormalMoments}
	Logistic = locationScale("logistic", "logistic", false,
		func(mu, s, x float64) float64 { return LogisticCDF((x - mu) / s) },
		func(mu, s, p float64) float64 { return mu + s*LogisticQuantile(p) }, LogisticCRPS, logisticMoments)
	TruncatedLogistic = locationScale("truncated_logistic", "logistic truncated below at 0", true,
		TruncatedLogisticCDF, TruncatedLogisticQuantile, TruncatedLogisticCRPS, truncatedLogisticMoments)
	CensoredLogistic = locationScale("censored_logistic", "logistic censored at 0", true,
		CensoredLogisticCDF, CensoredLogisticQuantile, CensoredLogisticCRPS, censoredLogisticMoments)

	// ZeroNormal is 0 with probability p, else a normal truncated below at 0.
	ZeroNormal = &Family{ID: "zero_normal", Name: "truncated normal with a probability of 0", Parameters: []string{"p", "mu", "sigma"},
		Roles: []Role{Pure, Location, Scale}, Positive: true,
		CDF:      func(par []float64, x float64) float64 { return ZeroNormalCDF(par[0], par[1], par[2], x) },
		Quantile: func(par []float64, p float64) float64 { return ZeroNormalQuantile(par[0], par[1], par[2], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			crps, dp, dmu, dsigma := ZeroNormalCRPS(par[0], par[1], par[2], y)
			return fill(grad, crps, dp, dmu, dsigma)
		}, Moments: zeroNormalMoments}
	// CSGamma is the censored, shifted gamma distribution.
	CSGamma = &Family{ID: "censored_shifted_gamma", Name: "gamma shifted left and censored at 0", Parameters: []string{"shape", "scale", "shift"},
		Roles: []Role{Pure, Scale, Scale}, Positive: true,
		CDF:      func(par []float64, x float64) float64 { return CSGammaCDF(par[0], par[1], par[2], x) },
		Quantile: func(par []float64, p float64) float64 { return CSGammaQuantile(par[0], par[1], par[2], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			crps, dshape, dscale, dshift := CSGammaCRPS(par[0], par[1], par[2], y)
			return fill(grad, crps, dshape, dscale, dshift)
		}, Moments: csGammaMoments}
	// Student is Student's t distribution, with a location and a scale.
	Student = &Family{ID: "student", Name: "Student's t", Parameters: []string{"mu", "sigma", "nu"}, Roles: []Role{Location, Scale, Pure},
		CDF:      func(par []float64, x float64) float64 { return StudentCDF(par[2], (x-par[0])/par[1]) },
		Quantile: func(par []float64, p float64) float64 { return par[0] + par[1]*StudentQuantile(par[2], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			crps, dmu, dsigma := StudentCRPS(par[0], par[1], par[2], y)
			if grad == nil {
				return crps
			}
			return fill(grad, crps, dmu, dsigma, studentByTails(par[0], par[1], par[2], y))
		}, Moments: studentMoments,
		HalfDistance: func(par []float64) float64 { return par[1] * studentHalfDistance(par[2]) }}
)

func init() { // which families of the table cannot say of each other in their declarations
	for f, e := range map[*Family]*Family{Normal: CensoredNormal, CensoredNormal: CensoredNormal, Logistic: CensoredLogistic, CensoredLogistic: CensoredLogistic} {
		f.Excess = Excess{e, []float64{-1, 0}}
	}
	Normal.HalfDistance = func(par []float64) float64 { return par[1] / math.Sqrt(math.Pi) }
	Logistic.HalfDistance = func(par []float64) float64 { return par[1] }
	CSGamma.Excess = Excess{CSGamma, []float64{0, 0, 1}}
}

// QuantileAt is Quantile for one p and many parameters: what depends on p alone is
// computed once.
func (f *Family) QuantileAt(p float64) func(par []float64) float64 {
	z := NormalQuantile(p)
	switch f {
	case Normal:
		return func(par []float64) float64 { return par[0] + par[1]*z }
	case CensoredNormal:
		return func(par []float64) float64 { return max(0, par[0]+par[1]*z) }
	case Student: // all points of a field have the same tails
		type known struct{ nu, z float64 }
		var last atomic.Pointer[known]
		return func(par []float64) float64 {
			k := last.Load()
			if k == nil || k.nu != par[2] {
				k = &known{par[2], StudentQuantile(par[2], p)}
				last.Store(k)
			}
			return par[0] + par[1]*k.z
		}
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

// FamilyByID finds a family of the table, or nil.
func FamilyByID(id string) *Family {
	for _, f := range Families {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// FamilyOf finds a family by its name and the number of its parameters: one of the table, or
// one of those that have as many as one likes; nil if there is none.
func FamilyOf(id string, parameters int) *Family {
	switch {
	case id == bernsteinID && parameters > 1:
		return Bernstein(parameters - 1)
	case id == censoredBernsteinID && parameters > 1:
		return CensoredBernstein(parameters - 1)
	case id == histogramID && parameters > 2 && parameters%2 == 1:
		return Histogram(parameters / 2)
	}
	if f := FamilyByID(id); f != nil && len(f.Parameters) == parameters {
		return f
	}
	return nil
}

// locationScale is a family of two parameters, those of the parent where it is cut.
func locationScale(id, name string, positive bool, cdf, quantile func(mu, sigma, v float64) float64,
	crps func(mu, sigma, y float64) (crps, dmu, dsigma float64), moments func(par []float64) (mean, std float64)) *Family {
	return &Family{ID: id, Name: name, Parameters: []string{"mu", "sigma"}, Roles: []Role{Location, Scale}, Positive: positive,
		CDF:      func(par []float64, x float64) float64 { return cdf(par[0], par[1], x) },
		Quantile: func(par []float64, p float64) float64 { return quantile(par[0], par[1], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			c, dmu, dsigma := crps(par[0], par[1], y)
			return fill(grad, c, dmu, dsigma)
		}, Moments: moments}
}

func fill(grad []float64, crps float64, d ...float64) float64 {
	if grad != nil {
		copy(grad, d)
	}
	return crps
}
