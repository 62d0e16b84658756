package score

import (
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Climate holds quantiles of the climate at every point, for windows of the year.
//
// Shape: Quantiles [window][level][point] for the probabilities 0, 1/Steps, …, 1. Window
// w has its centre at (w+½)/Windows of the year and a length of Days days. A single
// window contains all dates.
// Unit: that of the variable. Missing: NaN.
type Climate struct {
	Steps, Windows int
	Days           float64
	Quantiles      []float32
}

// year is the mean length of a year of the Gregorian calendar in days.
const year = 365.2425

// dayOf is the time since the beginning of the year (UTC) in days.
func dayOf(t time.Time) float64 {
	t = t.UTC()
	return t.Sub(time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC)).Hours() / 24
}

// centre is the middle of window w in days since the beginning of the year.
func (c *Climate) centre(w int) float64 { return (float64(w) + 0.5) * year / float64(c.Windows) }

// daysBetween is the shortest distance in days between two days of the year, across its end if that is shorter.
func daysBetween(a, b float64) float64 {
	d := math.Mod(math.Abs(a-b), year)
	return math.Min(d, year-d)
}

// Contains reports whether a date lies in window w.
func (c *Climate) Contains(w int, valid time.Time) bool {
	return c.Windows == 1 || daysBetween(dayOf(valid), c.centre(w)) <= c.Days/2
}

// At returns the quantiles of the window whose centre is nearest to a date.
//
// Shape: [level][point], views of Quantiles.
func (c *Climate) At(valid time.Time) [][]float32 {
	best, day := 0, dayOf(valid)
	for w := 1; w < c.Windows; w++ {
		if daysBetween(day, c.centre(w)) < daysBetween(day, c.centre(best)) {
			best = w
		}
	}
	points := c.Points()
	out := make([][]float32, c.Steps+1)
	for k := range out {
		out[k] = c.Quantiles[(best*(c.Steps+1)+k)*points:][:points]
	}
	return out
}

// Points is the number of grid points.
func (c *Climate) Points() int { return len(c.Quantiles) / (c.Windows * (c.Steps + 1)) }

// Fit computes the quantiles of the points lo ≤ p < hi from past values ([dist.EmpiricalQuantile]).
// It returns the number of values in the window
// that has the fewest, missing values included.
//
// Shape: fields [date][member][point from lo on]; valid [date].
// Missing: NaN values are left out; a window without values gives NaN.
// Cost: one sort of all values per window and point.
func (c *Climate) Fit(lo, hi int, valid []time.Time, fields [][][]float32) (fewest int) {
	fewest = math.MaxInt
	points := c.Points()
	for w := range c.Windows {
		var of [][]float32
		for d, t := range valid {
			if c.Contains(w, t) {
				of = append(of, fields[d]...)
			}
		}
		fewest = min(fewest, len(of))
		values := make([]float64, 0, len(of))
		for p := range hi - lo {
			values = values[:0]
			for _, f := range of {
				if v := float64(f[p]); v == v {
					values = append(values, v)
				}
			}
			slices.Sort(values)
			for k := range c.Steps + 1 {
				q := math.NaN()
				if len(values) > 0 {
					q = dist.EmpiricalQuantile(values, float64(k)/float64(c.Steps))
				}
				c.Quantiles[(w*(c.Steps+1)+k)*points+lo+p] = float32(q)
			}
		}
	}
	return fewest
}

// TwentiethQuantiles selects the 21 quantiles at the probabilities k/20 from quantiles at finer
// steps. EFIENS10 uses them. The number of steps is a multiple of 20.
func TwentiethQuantiles(quantiles [][]float32) [][]float32 {
	step := (len(quantiles) - 1) / 20
	out := make([][]float32, 21)
	for k := range out {
		out[k] = quantiles[k*step]
	}
	return out
}
