package dist

// CensoredLogisticCDF is the distribution function at x of max(X, 0), X logistic with
// location mu and scale s.
func CensoredLogisticCDF(mu, s, x float64) float64 {
	if x < 0 {
		return 0
	}
	return LogisticCDF((x - mu) / s)
}

// CensoredLogisticQuantile is the p quantile of max(X, 0), X logistic.
func CensoredLogisticQuantile(mu, s, p float64) float64 {
	return max(0, mu+s*LogisticQuantile(p))
}

// CensoredLogisticCRPS is the CRPS of max(X, 0) for y, X logistic, with its derivatives.
// With z = (max(y,0)−mu)/s, l = −mu/s, G = 1−Q the distribution function of the standard
// logistic distribution and K(x) = log(1+exp(−x)):
//
//	crps = s g + max(−y, 0),  g = (z−l) + 2K(z) − K(l) − Q(l)
//	dmu  = −(g_z + g_l),  ds = g − z g_z − l g_l
//	g_z  = 1 − 2Q(z),  g_l = −G(l)²
//
// Unit: that of y. Missing: NaN in gives NaN; s < 0 gives NaN; s = 0 is the point
// mass at max(mu, 0).
// Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12.
func CensoredLogisticCRPS(mu, s, y float64) (crps, dmu, ds float64) {
	return nonNegativeCRPS(mu, s, y, LogisticCRPS, censoredLogistic)
}

// censoredLogistic is CensoredLogisticCRPS for s > 0 and y ≥ 0.
func censoredLogistic(mu, s, y float64) (crps, dmu, ds float64) {
	l, z := -mu/s, (y-mu)/s
	qz, kz := logisticTail(z)
	ql, kl := logisticTail(l)
	gz, gl := 1-2*qz, -(1-ql)*(1-ql)
	g := z - l + 2*kz - kl - ql
	if l < 0 { // K(l) = K(−l) − l, without cancellation
		_, up := logisticTail(-l) // K(−l) = K(l) + l
		g = z + 2*kz - up - ql
	}
	return s * g, -(gz + gl), g - z*gz - l*gl
}

// CensoredLogistic is the family of logistic distributions censored at 0: max(X, 0), X logistic.
//
// Parameters: mu, sigma of the parent. Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12.
var CensoredLogistic = guard(withExcess(nonNegative(twoParameters("censored_logistic", "logistic censored at 0",
	CensoredLogisticCDF, CensoredLogisticQuantile, CensoredLogisticCRPS), logisticUnit, censoredLogisticMoments), nil, -1, 0))
