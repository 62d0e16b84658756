package score

import (
	"math"
	"slices"
	"time"
)

// Climate is quantiles of the climate at every point for windows of the year.
//
// Shape: Quantiles [window][level][point], levels 0, 1/Steps, …, 1. Window w has its centre
// (w+½)/Windows of a year after 1 January and is Days long; with one window it has all dates.
// Unit: that of the variable. Missing: NaN.
type Climate struct {
	Steps, Windows int
	Days           float64
	Quantiles      []float32
}

// year is the mean number of days of a year.
const year = 365.2425

// dayOf is the time since the year began in days.
func dayOf(t time.Time) float64 {
	t = t.UTC()
	return t.Sub(time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC)).Hours() / 24
}

// centre is the middle of window w in days after the year began.
func (c *Climate) centre(w int) float64 { return (float64(w) + 0.5) * year / float64(c.Windows) }

// daysBetween is how many days lie between two days of the year, over its end where that is shorter.
func daysBetween(a, b float64) float64 {
	d := math.Mod(math.Abs(a-b), year)
	return math.Min(d, year-d)
}

// Contains says whether a date is among those of window w.
func (c *Climate) Contains(w int, valid time.Time) bool {
	return c.Windows == 1 || daysBetween(dayOf(valid), c.centre(w)) <= c.Days/2
}

// At are the quantiles of the window whose centre is nearest to a date.
//
// Shape: [level][point].
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

// Points is the number of points.
func (c *Climate) Points() int { return len(c.Quantiles) / (c.Windows * (c.Steps + 1)) }

// Fit fills in the quantiles of the points lo ≤ p < hi from past values: linear between order
// statistics (R type 7). It returns the number of values that the poorest window has, missing
// ones included.
//
// Shape: fields [date][member][point from lo on]; valid [date]. Missing: NaN values are left
// out; a window without any gives NaN.
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
					q = quantile(values, float64(k)/float64(c.Steps))
				}
				c.Quantiles[(w*(c.Steps+1)+k)*points+lo+p] = float32(q)
			}
		}
	}
	return fewest
}

// TwentiethQuantiles are the 21 quantiles at levels k/20 out of those at finer steps, which EFIENS10
// is made of.
func TwentiethQuantiles(quantiles [][]float32) [][]float32 {
	step := (len(quantiles) - 1) / 20
	out := make([][]float32, 21)
	for k := range out {
		out[k] = quantiles[k*step]
	}
	return out
}
