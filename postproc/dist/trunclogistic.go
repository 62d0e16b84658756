package dist

import "math"

// logisticFar is the distance of the location below 0, in units of the scale, from which the
// tail of a truncated logistic distribution is replaced by an exponential one. The relative
// error exp(−30) is below the rounding error of the other form.
const logisticFar = 30

// TruncatedLogisticCDF is the distribution function at x of the logistic distribution
// truncated below at 0; mu and s are those of the parent.
func TruncatedLogisticCDF(mu, s, x float64) float64 {
	if x < 0 {
		return 0
	}
	l, z := -mu/s, (x-mu)/s
	if l > logisticFar {
		return -math.Expm1(-x / s)
	}
	q, _ := logisticTail(z)
	p, _ := logisticTail(l)
	return 1 - q/p
}

// TruncatedLogisticQuantile is the p quantile of the logistic distribution truncated below at 0.
func TruncatedLogisticQuantile(mu, s, p float64) float64 {
	if mu/s < -logisticFar {
		return -s * math.Log1p(-p)
	}
	q, _ := logisticTail(-mu / s)
	return max(0, mu-s*LogisticQuantile((1-p)*q))
}

// TruncatedLogisticCRPS is the CRPS of the logistic distribution truncated below at 0 for y,
// with its derivatives; mu and s are those of the parent. With z = (max(y,0)−mu)/s,
// l = −mu/s, Q the parent's upper tail, K(x) = log(1+exp(−x)), p = Q(l),
// A = (K(z)−K(l))/p and H = (K(l)−p)/p²:
//
//	crps = s g + max(−y, 0),  g = (z−l) + 2A + H
//	dmu  = −(g_z + g_l),  ds = g − z g_z − l g_l
//	g_z  = 1 − 2Q(z)/p,  g_l = 2(1−p)(A + H)
//
// Unit: that of y. Missing: NaN in gives NaN; s < 0 gives NaN; s = 0 is the point
// mass at max(mu, 0).
// Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12.
func TruncatedLogisticCRPS(mu, s, y float64) (crps, dmu, ds float64) {
	return nonNegativeCRPS(mu, s, y, LogisticCRPS, truncatedLogistic)
}

// truncatedLogistic is TruncatedLogisticCRPS for s > 0 and y ≥ 0.
func truncatedLogistic(mu, s, y float64) (crps, dmu, ds float64) {
	l, z := -mu/s, (y-mu)/s
	if l > logisticFar { // exponential with mean s
		e := math.Exp(-y / s)
		qe := 0.0
		if e != 0 {
			qe = y / s * e
		}
		return y + s*(2*e-1.5), 0, 2*e - 1.5 + 2*qe
	}
	qz, kz := logisticTail(z)
	p, kl := logisticTail(l)
	a, h := (kz-kl)/p, (kl-p)/(p*p)
	if p < 1e-4 { // −log(1−p) = p + p²/2 + p³/3 + …
		h = 0.5 + p/3 + p*p/4
	}
	gz, gl := 1-2*qz/p, 2*(1-p)*(a+h)
	crps = y + s*(2*a+h)
	dmu = -(gz + gl)
	ds = 2*a + h + y/s*(1-gz) + l*dmu // g − (z−l) g_z − l (g_z+g_l)
	return crps, dmu, ds
}

// TruncatedLogistic is the family of logistic distributions truncated below at 0, for gusts.
//
// Parameters: mu, sigma of the parent. Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12.
var TruncatedLogistic = guard(nonNegative(twoParameters("truncated_logistic", "logistic truncated below at 0",
	TruncatedLogisticCDF, TruncatedLogisticQuantile, TruncatedLogisticCRPS), logisticUnit, truncatedLogisticMoments))
