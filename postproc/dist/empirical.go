package dist

// EmpiricalQuantile is the p quantile of ascending values, by linear interpolation between order statistics: position
// p(n−1) from 0. It is definition 7 of Hyndman and Fan, the default of R and NumPy.
//
// Shape: v [value], ascending, at least one; p from 0 to 1.
// Missing: NaN must not occur.
// Source: Hyndman and Fan 1996, doi:10.1080/00031305.1996.10473566.
func EmpiricalQuantile(v []float64, p float64) float64 {
	at := p * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	f := at - float64(i)
	return v[i]*(1-f) + v[i+1]*f
}
