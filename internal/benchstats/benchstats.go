// Package benchstats summarises repeated measurements, and computes the distance of
// two results.
package benchstats

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/digits"
)

// Series holds the results of one measurement over several rounds, in any unit. It
// must not be empty.
type Series []float64

// Median returns the median; for an even number the mean of the two middle values.
func (s Series) Median() float64 {
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// String formats the median, with minimum and maximum if there are several values.
func (s Series) String() string {
	if len(s) == 1 {
		return digits.Three(s[0])
	}
	return fmt.Sprintf("%s [%s–%s]", digits.Three(s.Median()), digits.Three(slices.Min(s)), digits.Three(slices.Max(s)))
}

// Times summarises the times of a repeated step.
//
// Unit: milliseconds.
type Times struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"` // number of measurements
}

// TimesOf summarises durations, of which there must be at least one.
func TimesOf(all []time.Duration) Times {
	ms := make(Series, len(all))
	for i, d := range all {
		ms[i] = float64(d) / 1e6
	}
	return Times{Median: ms.Median(), Min: slices.Min(ms), Max: slices.Max(ms), N: len(ms)}
}

// RelativeDistance returns |x − y|₂ / |y|₂, summed in float64.
//
// Shape: x and y of equal length.
// Missing: NaN in the input gives NaN, as do two zero vectors.
func RelativeDistance(x, y []float32) float64 {
	var diff, size float64
	for i, v := range y {
		d := float64(x[i]) - float64(v)
		diff += d * d
		size += float64(v) * float64(v)
	}
	return math.Sqrt(diff / size)
}
