package score

import "gonum.org/v1/gonum/stat/distuv"

// Calibration summarises a rank or PIT histogram of K places in numbers and words. With
// places 0…K−1, u their distance from the middle place and <·> the mean over the
// shares,
//
//	Slope = <u>/K,   Convexity = 12<u²>/(K²−1) − 1
//
// are proportional to the slope and convexity contrasts of Jolliffe and Primo. Slope is
// the mean of F(y) minus ½: below 0 the forecasts are too high. Convexity is 0 for the right
// spread. Above 0 (at most 2) observations fall outside the ensemble too often: the
// spread is too small. Below 0 (at least −1) the spread is too large. Intervals come
// from the resampled dates, so dependence between neighbouring points is included.
//
// Outside is the number of places whose share lies outside the band of a flat
// histogram, which is as wide as the interval of the share. Allowed is the number
// expected by chance: the 95 % quantile of the binomial distribution for K places. Flat:
// the intervals of Slope and Convexity contain 0, and Outside ≤ Allowed.
//
// Bias, Dispersion and Text are those of [Evidence.Verdict], from the histogram and the mean
// error and spread-skill ratio of the same system, if these are scored.
//
// Source: Jolliffe and Primo 2008, doi:10.1175/2007MWR2219.1; ReliabilityIndex is the
// distance of Delle Monache et al. 2006, doi:10.1029/2005JD006917.
type Calibration struct {
	System           string `json:"system"`
	Variable         string `json:"variable"`
	Level            string `json:"level"`
	Lead             string `json:"lead"`
	Region           string `json:"region"`
	Season           string `json:"season"`
	Histogram        string `json:"histogram"` // RankHistogramKind or PITHistogramKind
	Places           int    `json:"places"`
	N                int    `json:"n"` // dates
	Flat             bool   `json:"flat"`
	Bias             string `json:"bias"`       // of the forecasts, see Verdict
	Dispersion       string `json:"dispersion"` // of the spread, see Verdict
	Slope            Number `json:"slope"`
	SlopeLow         Number `json:"slope_low"`
	SlopeHigh        Number `json:"slope_high"`
	Convexity        Number `json:"convexity"`
	ConvexityLow     Number `json:"convexity_low"`
	ConvexityHigh    Number `json:"convexity_high"`
	Outside          int    `json:"outside"`
	Allowed          int    `json:"allowed"`
	ReliabilityIndex Number `json:"reliability_index"`
	Text             string `json:"text"`
}

// The kinds of histogram in Calibration.Histogram.
const (
	RankHistogramKind = "rank"
	PITHistogramKind  = "pit"
)

// calibration evaluates a histogram.
func (v *view) calibration(system int, kind string, shares histogramShares) Calibration {
	t, n := v.target, len(v.dates)
	k := len(shares.all[0])
	c := Calibration{System: v.systems[system].Name, Variable: t.Variable, Level: t.Level.String(), Lead: t.Lead.String(), Region: v.name, Season: v.season,
		Histogram: kind, Places: k, N: n, ReliabilityIndex: Number(distanceFromFlat(shares.all[0]))}
	of := func(of func(shares []float64) float64) (value, low, high Number) {
		x, e := shares.interval(v.b, of)
		return Number(x), Number(e.Low), Number(e.High)
	}
	c.Slope, c.SlopeLow, c.SlopeHigh = of(func(shares []float64) float64 { slope, _ := contrasts(shares); return slope })
	c.Convexity, c.ConvexityLow, c.ConvexityHigh = of(func(shares []float64) float64 { _, convexity := contrasts(shares); return convexity })
	for i := range k {
		s, low, high := of(func(shares []float64) float64 { return shares[i] })
		if flat := Number(1 / float64(k)); s-flat > high-s || flat-s > s-low {
			c.Outside++
		}
	}
	c.Allowed = allowed(k, 1-v.b.Confidence)
	c.Flat = c.SlopeLow <= 0 && c.SlopeHigh >= 0 && c.ConvexityLow <= 0 && c.ConvexityHigh >= 0 && c.Outside <= c.Allowed
	return c
}

// contrasts returns Slope and Convexity of weights that need not add up to 1.
func contrasts(weights []float64) (slope, convexity float64) {
	k := float64(len(weights))
	var total, first, second float64
	for i, w := range weights {
		u := float64(i) - (k-1)/2
		total, first, second = total+w, first+w*u, second+w*u*u
	}
	return first / total / k, 12*second/total/(k*k-1) - 1
}

// allowed is the 95 % quantile of the number of k places that lie outside their band,
// if each does so with probability p.
func allowed(k int, p float64) int {
	b := distuv.Binomial{N: float64(k), P: p}
	n := 0
	for b.CDF(float64(n)) < 0.95 {
		n++
	}
	return n
}
