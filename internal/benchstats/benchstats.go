// Package benchstats sums up what was measured several times, and says how far two results are apart.
package benchstats

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/digits"
)

// Series are the figures of one quantity over the rounds in which it was measured, in any unit. One at least.
type Series []float64

// Median is the figure in the middle; of an even number the mean of the two in the middle.
func (s Series) Median() float64 {
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// String is the median, with the smallest and largest if there are several.
func (s Series) String() string {
	if len(s) == 1 {
		return digits.Three(s[0])
	}
	return fmt.Sprintf("%s [%s–%s]", digits.Three(s.Median()), digits.Three(slices.Min(s)), digits.Three(slices.Max(s)))
}

// Times are the measured times of a repeated step in milliseconds.
type Times struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// TimesOf sums up one duration or more.
func TimesOf(all []time.Duration) Times {
	ms := make(Series, len(all))
	for i, d := range all {
		ms[i] = float64(d) / 1e6
	}
	return Times{Median: ms.Median(), Min: slices.Min(ms), Max: slices.Max(ms), N: len(ms)}
}

// RelativeDistance is |x − y|₂ / |y|₂, summed in float64.
//
// Shape: x and y of one length. Missing: NaN in gives NaN, as do two vectors of zeros.
func RelativeDistance(x, y []float32) float64 {
	var diff, size float64
	for i, v := range y {
		d := float64(x[i]) - float64(v)
		diff += d * d
		size += float64(v) * float64(v)
	}
	return math.Sqrt(diff / size)
}
