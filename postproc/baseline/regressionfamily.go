package baseline

import (
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// regressionFamily is a family that FitRegression fits.
type regressionFamily struct {
	*dist.Family
	doc string // of the methods
	// crps is the CRPS with its derivatives with respect to location and scale, without the slices of dist.Family.
	crps func(mu, sigma, y float64) (crps, dmu, dsigma float64)
	// curvature is g″(z)/σ of a CRPS σ·g(z) with z = (y−μ)/σ, from its first derivatives; nil: central differences of
	// the exact first derivatives take its place.
	curvature func(dmu, dsigma, sigma float64) float64
	// moments: the regression predicts mean and standard deviation, both positive, instead of the parameters of the
	// family, which are those of the logarithm.
	moments     bool
	nonNegative bool // no values below 0
	kernel      bool // simd.NormalSums has its sums
	// Method.Cost for all points (0: the method emos) and by point
	pooledCost, pointCost int64
}

// regressionFamilies are the families of FitRegression, in the order of the methods.
var regressionFamilies = []regressionFamily{
	{Family: dist.Normal, pointCost: 50, doc: "Independent fit at each point: needs many dates. Convex.", crps: dist.NormalCRPS, kernel: true,
		curvature: func(_, dsigma, sigma float64) float64 { return dist.NormalCRPSCurvature(dsigma, sigma) }},
	{Family: dist.Logistic, pooledCost: 350, pointCost: 560, doc: "As the normal one with heavier tails. Convex.", crps: dist.LogisticCRPS,
		curvature: func(dmu, _, sigma float64) float64 { return (1 - dmu*dmu) / (2 * sigma) }}, // g′ = 2F − 1, and the density is F(1−F)
	{Family: dist.TruncatedNormal, pooledCost: 1100, pointCost: 1100, doc: "For values above 0, seldom near it: wind speed.", crps: dist.TruncatedNormalCRPS, nonNegative: true},
	{Family: dist.TruncatedLogistic, pooledCost: 1100, pointCost: 1900, doc: "As the truncated normal one with heavier tails: gusts.", crps: dist.TruncatedLogisticCRPS, nonNegative: true},
	{Family: dist.CensoredNormal, pooledCost: 1300, pointCost: 1600, doc: "For values often exactly 0: precipitation, best as its square root.", crps: dist.CensoredNormalCRPS, nonNegative: true},
	{Family: dist.CensoredLogistic, pooledCost: 1300, pointCost: 2200, doc: "As the censored normal one with heavier tails.", crps: dist.CensoredLogisticCRPS, nonNegative: true},
	{Family: dist.LogNormal, pooledCost: 1400, pointCost: 2800, doc: "For skewed values above 0: wind speed. Cases with an ensemble mean below 0 are left out.", crps: logNormalCRPS, moments: true, nonNegative: true},
}

// regressionFamilyOf returns the row of a family; nil if it cannot be fitted.
func regressionFamilyOf(f *dist.Family) *regressionFamily {
	i := slices.IndexFunc(regressionFamilies, func(r regressionFamily) bool { return r.Family == f })
	if i < 0 {
		return nil
	}
	return &regressionFamilies[i]
}

// row is the row of the regression's family.
func (r *Regression) row() *regressionFamily { return regressionFamilyOf(r.Family) }

// logNormalCRPS is the CRPS of the log-normal distribution with mean m and standard deviation
// s, with its derivatives with respect to these. With q = 1 + (s/m)²:
//
//	dσ²/dm = −2 s²/(m³ q),  dσ²/ds = 2 s/(m² q),  dμ = dm/m − dσ²/2
//
// Source: as dist.LogNormalCRPS and dist.LogNormalFromMoments, by the chain rule.
func logNormalCRPS(m, s, y float64) (crps, dm, ds float64) {
	mu, sigma := dist.LogNormalFromMoments(m, s)
	crps, dmu, dsigma := dist.LogNormalCRPS(mu, sigma, y)
	ratio := s / m
	perS := 2 * ratio / (m * (1 + ratio*ratio)) // dσ²/ds
	perM := -ratio * perS
	return crps, dmu*(1/m-perM/2) + dsigma*perM/(2*sigma), -dmu*perS/2 + dsigma*perS/(2*sigma)
}

// scoreHessian holds a score with its first and second derivatives with respect to location and scale.
type scoreHessian struct{ value, dmu, dsigma, mumu, musigma, sigmasigma float64 }

// hessian is the CRPS with its derivatives. The second derivatives of σ·g(z) with z = (y−μ)/σ are g″/σ times 1, z and
// z².
func (r *regressionFamily) hessian(mu, sigma, y float64) scoreHessian {
	c, dmu, dsigma := r.crps(mu, sigma, y)
	if r.curvature != nil {
		bend, z := r.curvature(dmu, dsigma, sigma), (y-mu)/sigma
		return scoreHessian{c, dmu, dsigma, bend, bend * z, bend * z * z}
	}
	const part = 1e-5 // step relative to the scale: the truncation error is its square, rounding adds 1e-11
	h := part * sigma
	_, up, upScale := r.crps(mu+h, sigma, y)
	_, down, downScale := r.crps(mu-h, sigma, y)
	_, _, wide := r.crps(mu, sigma+h, y)
	_, _, narrow := r.crps(mu, sigma-h, y)
	half := 0.5 / h
	return scoreHessian{c, dmu, dsigma, (up - down) * half, (upScale - downScale) * half, (wide - narrow) * half}
}
