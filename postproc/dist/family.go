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
	CDF        func(par []float64, x float64) float64
	Quantile   func(par []float64, p float64) float64
	// CRPS fills grad with the derivatives by the parameters unless it is nil.
	CRPS func(grad, par []float64, y float64) float64
}

// Families lists all of them. Histograms and Bernstein quantile functions have as many
// parameters as one likes and stand apart.
var Families = []*Family{Normal, TruncatedNormal, CensoredNormal, ZeroNormal, LogNormal, Logistic, TruncatedLogistic, CensoredLogistic, CSGamma}

// The families.
var (
	Normal = locationScale("normal", "normal",
		func(mu, sigma, x float64) float64 { return NormalCDF((x - mu) / sigma) },
		func(mu, sigma, p float64) float64 { return mu + sigma*NormalQuantile(p) }, NormalCRPS)
	TruncatedNormal = locationScale("truncated_normal", "normal truncated below at 0",
		TruncatedNormalCDF, TruncatedNormalQuantile, TruncatedNormalCRPS)
	CensoredNormal = locationScale("censored_normal", "normal censored at 0",
		CensoredNormalCDF, CensoredNormalQuantile, CensoredNormalCRPS)
	LogNormal = locationScale("log_normal", "log-normal",
		LogNormalCDF, LogNormalQuantile, LogNormalCRPS)
	Logistic = locationScale("logistic", "logistic",
		func(mu, s, x float64) float64 { return LogisticCDF((x - mu) / s) },
		func(mu, s, p float64) float64 { return mu + s*LogisticQuantile(p) }, LogisticCRPS)
	TruncatedLogistic = locationScale("truncated_logistic", "logistic truncated below at 0",
		TruncatedLogisticCDF, TruncatedLogisticQuantile, TruncatedLogisticCRPS)
	CensoredLogistic = locationScale("censored_logistic", "logistic censored at 0",
		CensoredLogisticCDF, CensoredLogisticQuantile, CensoredLogisticCRPS)

	// ZeroNormal is 0 with probability p, else a normal truncated below at 0.
	ZeroNormal = &Family{ID: "zero_normal", Name: "truncated normal with a probability of 0", Parameters: []string{"p", "mu", "sigma"},
		CDF:      func(par []float64, x float64) float64 { return ZeroNormalCDF(par[0], par[1], par[2], x) },
		Quantile: func(par []float64, p float64) float64 { return ZeroNormalQuantile(par[0], par[1], par[2], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			crps, dp, dmu, dsigma := ZeroNormalCRPS(par[0], par[1], par[2], y)
			return fill(grad, crps, dp, dmu, dsigma)
		}}
	// CSGamma is the censored, shifted gamma distribution.
	CSGamma = &Family{ID: "censored_shifted_gamma", Name: "gamma shifted left and censored at 0", Parameters: []string{"shape", "scale", "shift"},
		CDF:      func(par []float64, x float64) float64 { return CSGammaCDF(par[0], par[1], par[2], x) },
		Quantile: func(par []float64, p float64) float64 { return CSGammaQuantile(par[0], par[1], par[2], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			crps, dshape, dscale, dshift := CSGammaCRPS(par[0], par[1], par[2], y)
			return fill(grad, crps, dshape, dscale, dshift)
		}}
)

// QuantileAt is Quantile for one p and many parameters: what depends on p alone is
// computed once.
func (f *Family) QuantileAt(p float64) func(par []float64) float64 {
	z := NormalQuantile(p)
	switch f {
	case Normal:
		return func(par []float64) float64 { return par[0] + par[1]*z }
	case CensoredNormal:
		return func(par []float64) float64 { return max(0, par[0]+par[1]*z) }
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

// locationScale is a family of two parameters, those of the parent where it is cut.
func locationScale(id, name string, cdf, quantile func(mu, sigma, v float64) float64, crps func(mu, sigma, y float64) (crps, dmu, dsigma float64)) *Family {
	return &Family{ID: id, Name: name, Parameters: []string{"mu", "sigma"},
		CDF:      func(par []float64, x float64) float64 { return cdf(par[0], par[1], x) },
		Quantile: func(par []float64, p float64) float64 { return quantile(par[0], par[1], p) },
		CRPS: func(grad, par []float64, y float64) float64 {
			c, dmu, dsigma := crps(par[0], par[1], y)
			return fill(grad, c, dmu, dsigma)
		}}
}

func fill(grad []float64, crps float64, d ...float64) float64 {
	if grad != nil {
		copy(grad, d)
	}
	return crps
}
