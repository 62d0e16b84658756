package score

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Calibration says in numbers and words what a rank or PIT histogram of K places shows. With
// places 0…K−1, u their distance from the middle one and <·> the mean over the shares,
//
//	Tilt = <u>/K,   Bend = 12<u²>/(K²−1) − 1
//
// the contrasts of Jolliffe and Primo's slope and convexity. Tilt is the mean of F(y) less ½:
// below 0 references lie low among the forecasts, so forecasts are too high. Bend is 0 for
// the right spread, above it where references lie outside too often (too little spread; at
// most 2), and below it where they lie in the middle (too much; at least −1). Intervals are those
// of the resampled dates, which know that neighbouring points are not cases of their own.
//
// Outside counts the places whose share lies beyond the band of a flat histogram that is as wide
// as the share's interval, Allowed is how many may by chance: the 95 % quantile of the binomial
// distribution of K places. Flat: no interval of Tilt and Bend is off 0, and no more than
// Allowed places are outside.
//
// Without intervals (too few dates) nothing is said.
//
// Source: Jolliffe and Primo 2008, doi:10.1175/2007MWR2219.1; ReliabilityIndex is the distance
// of Delle Monache et al. 2006, doi:10.1029/2005JD006917.
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
	Bias             string `json:"bias"`       // "none", "too_low" or "too_high": the forecasts; "unknown" without interval
	Dispersion       string `json:"dispersion"` // "right", "too_small", "too_large"; "unknown" without interval
	Tilt             Number `json:"tilt"`
	TiltLow          Number `json:"tilt_low"`
	TiltHigh         Number `json:"tilt_high"`
	Bend             Number `json:"bend"`
	BendLow          Number `json:"bend_low"`
	BendHigh         Number `json:"bend_high"`
	Outside          int    `json:"outside"`
	Allowed          int    `json:"allowed"`
	ReliabilityIndex Number `json:"reliability_index"`
	Text             string `json:"text"`
}

// The histograms that a Calibration is of.
const (
	RankHistogramKind = "rank"
	PITHistogramKind  = "pit"
)

// calibration looks at the shares of a histogram, the first those of the sample itself and
// the others of each resample.
func (v *view) calibration(system int, kind string, shares [][]float64) Calibration {
	t, n := v.target, len(v.dates)
	k := len(shares[0])
	c := Calibration{System: v.systems[system].Name, Variable: t.Variable, Level: t.Level.String(), Lead: t.Lead.String(), Region: v.name, Season: v.season,
		Histogram: kind, Places: k, N: n, ReliabilityIndex: Number(distanceFromFlat(shares[0]))}
	tilts, bends := make([]float64, len(shares)), make([]float64, len(shares))
	for i, s := range shares {
		tilts[i], bends[i] = contrasts(s)
	}
	c.Tilt, c.Bend = Number(tilts[0]), Number(bends[0])
	between := func(values []float64) (Number, Number) {
		low, high := v.b.interval(values, n)
		return Number(low), Number(high)
	}
	c.TiltLow, c.TiltHigh = between(tilts[1:])
	c.BendLow, c.BendHigh = between(bends[1:])
	for i, s := range shares[0] {
		values := make([]float64, len(shares)-1)
		for j, r := range shares[1:] {
			values[j] = r[i]
		}
		low, high := v.b.interval(values, n)
		if flat := 1 / float64(k); s-flat > high-s || flat-s > s-low {
			c.Outside++
		}
	}
	c.Allowed = allowed(k, 1-v.b.Confidence)
	c.Bias = side(c.TiltLow, c.TiltHigh, "too_high", "none", "too_low")
	c.Dispersion = side(c.BendLow, c.BendHigh, "too_large", "right", "too_small")
	c.Flat = c.Bias == "none" && c.Dispersion == "right" && c.Outside <= c.Allowed
	c.Text = c.text()
	return c
}

// contrasts are Tilt and Bend of weights that need not add up to 1.
func contrasts(weights []float64) (tilt, bend float64) {
	k := float64(len(weights))
	var total, first, second float64
	for i, w := range weights {
		u := float64(i) - (k-1)/2
		total, first, second = total+w, first+w*u, second+w*u*u
	}
	return first / total / k, 12*second/total/(k*k-1) - 1
}

// allowed is how many of k places lie outside in 95 of 100 flat histograms at most, if each does
// with probability p.
func allowed(k int, p float64) int {
	b := distuv.Binomial{N: float64(k), P: p}
	n := 0
	for b.CDF(float64(n)) < 0.95 {
		n++
	}
	return n
}

// side says on which side of 0 an interval lies.
func side(low, high Number, below, on, above string) string {
	switch {
	case math.IsNaN(float64(low)):
		return "unknown"
	case low > 0:
		return above
	case high < 0:
		return below
	}
	return on
}

// text are the findings as sentences.
func (c *Calibration) text() string {
	name := map[string]string{RankHistogramKind: "rank histogram", PITHistogramKind: "PIT histogram"}[c.Histogram]
	if c.Bias == "unknown" {
		return fmt.Sprintf("The %s cannot be judged from %s.", name, humanise.Count(c.N, "date"))
	}
	if c.Flat {
		return fmt.Sprintf("Calibrated: the %s is flat within what %d dates can tell.", name, c.N)
	}
	var found []string
	at := 100 * (0.5 + float64(c.Tilt))
	switch c.Bias {
	case "too_low":
		found = append(found, fmt.Sprintf("Forecasts are too low: references lie at %.1f %% of the distribution in the mean, not at 50 %%.", at))
	case "too_high":
		found = append(found, fmt.Sprintf("Forecasts are too high: references lie at %.1f %% of the distribution in the mean, not at 50 %%.", at))
	}
	switch c.Dispersion {
	case "too_small":
		found = append(found, fmt.Sprintf("Spread is too small: references lie at the ends of the distribution too often (bend %+.3f).", float64(c.Bend)))
	case "too_large":
		found = append(found, fmt.Sprintf("Spread is too large: references lie in the middle of the distribution too often (bend %+.3f).", float64(c.Bend)))
	}
	outside := fmt.Sprintf("%d of %d places outside the band of a flat one", c.Outside, c.Places)
	if len(found) == 0 {
		return fmt.Sprintf("Mean and spread fit as far as %d dates tell; the shape of the %s is not flat (%s).", c.N, name, outside)
	}
	return fmt.Sprintf("%s The %s is not flat (%s).", strings.Join(found, " "), name, outside)
}
