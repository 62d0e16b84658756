package drift

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// SeasonalCycle is a number that has a mean, a yearly cycle and a standard deviation around both:
// C[0] + C[1] cos(φ) + C[2] sin(φ), φ the phase of the year.
type SeasonalCycle struct {
	Coefficients [3]float64
	SD           float64
}

// At is the expected value.
func (s SeasonalCycle) At(t time.Time) float64 { return s.at(phase(t)) }

func (s SeasonalCycle) at(phase [3]float64) float64 {
	return s.Coefficients[0] + s.Coefficients[1]*phase[1] + s.Coefficients[2]*phase[2]
}

// distance is how many standard deviations off x is.
func (s SeasonalCycle) distance(x float64, t time.Time) float64 { return (x - s.At(t)) / s.SD }

// phase gives 1, cosine and sine of the season's angle.
func phase(t time.Time) [3]float64 {
	sin, cos := math.Sincos(ensemble.SeasonAngle(t))
	return [3]float64{1, cos, sin}
}

// Field is what is known of one field from the training starts.
//
// Shape: Pattern [box]. Departure is the mean and the standard deviation of the logarithm of the
// pattern's root mean square distance.
type Field struct {
	Mean, Spread SeasonalCycle
	Pattern      []SeasonalCycle
	Departure    [2]float64
}

// MinInits is the fewest starts that a Field is fitted to.
const MinInits = 8

// The part of the year that starts must cover for a season, and the parts that are left out
// in turn.
const (
	maxGap = 0.25 // of the year without a start
	folds  = 10
)

// Fit finds what is known of a field from its summaries on some starts, in the order of time.
//
// Standard deviations are those of starts in parts that the fit did not see, each a run of neighbours
// in time, so that few starts and starts that are alike do not make them too small. Starts that leave
// a quarter of the year out have no season.
//
// Errors: if there are fewer than Least starts.
func Fit(b *Boxes, starts []Summary, valid []time.Time) (Field, error) {
	n := len(starts)
	if n < MinInits {
		return Field{}, fmt.Errorf("%d starts; input drift is judged from %d on", n, MinInits)
	}
	terms := 1
	if coversYear(valid) {
		terms = 3
	}
	phases := make([][3]float64, n)
	for i, t := range valid {
		phases[i] = phase(t)
	}
	f := Field{Pattern: make([]SeasonalCycle, b.Len())}
	values := make([]float64, n)
	fit := func(of func(s *Summary) float64) (SeasonalCycle, []float64) {
		for i := range starts {
			values[i] = of(&starts[i])
		}
		return fitSeasonalCycle(terms, phases, values)
	}
	f.Mean, _ = fit(func(s *Summary) float64 { return s.Mean })
	f.Spread, _ = fit(func(s *Summary) float64 { return s.Spread })
	f.Spread.SD = max(f.Spread.SD, minSpreadSD)
	squares, weights := make([]float64, n), make([]float64, n)
	for k := range f.Pattern {
		var held []float64
		f.Pattern[k], held = fit(func(s *Summary) float64 { return float64(s.Pattern[k]) })
		for i, r := range held {
			if d := r / f.Pattern[k].SD; d == d {
				squares[i] += b.area[k] * d * d
				weights[i] += b.area[k]
			}
		}
	}
	logs := make([]float64, n)
	for i := range logs {
		logs[i] = departure(squares[i], weights[i])
	}
	f.Departure[0], f.Departure[1] = meanAndDeviation(logs)
	f.Departure[1] = max(f.Departure[1], minDepartureSD)
	return f, nil
}

// minDepartureSD bounds the standard deviation of the logarithm of a departure: patterns that
// change by less than a twentieth as a whole are no drift of six standard deviations.
const minDepartureSD = 0.05 / 6

// minSpreadSD bounds the standard deviation of the logarithm of a spread: with it one that is a quarter smaller or a third larger than always
// is six off.
const minSpreadSD = 0.05

// departure is the logarithm of a root mean square distance.
func departure(squares, weight float64) float64 {
	return math.Log(max(math.Sqrt(squares/weight), minSpread))
}

// coversYear says whether no quarter of the year is without a start.
func coversYear(valid []time.Time) bool {
	const months = 12
	var there [months]bool
	for _, t := range valid {
		there[t.UTC().Month()-1] = true
	}
	gap := 0
	for i := range 2 * months {
		if gap++; there[i%months] {
			gap = 0
		}
		if float64(gap) > maxGap*months {
			return false
		}
	}
	return true
}

// normalEquations are the normal equations of a fit of so many terms: Σ x xᵀ and Σ x y.
type normalEquations struct {
	terms int
	xx    [9]float64
	xy    [3]float64
}

func (q *normalEquations) add(x [3]float64, y float64) {
	for i := range q.terms {
		for j := range q.terms {
			q.xx[i*q.terms+j] += x[i] * x[j]
		}
		q.xy[i] += x[i] * y
	}
}

// without are the equations of the others.
func (q normalEquations) without(o *normalEquations) normalEquations {
	for i := range q.xx {
		q.xx[i] -= o.xx[i]
	}
	for i := range q.xy {
		q.xy[i] -= o.xy[i]
	}
	return q
}

// maxCondition is that of equations that still tell a season from a mean.
const maxCondition = 1e6

// solve gives the coefficients; the mean alone where the starts do not tell a season from it.
func (q *normalEquations) solve() (c [3]float64) {
	if q.terms == len(c) {
		if inverse, condition := invert(&q.xx); condition < maxCondition {
			for i := range c {
				for j, y := range q.xy {
					c[i] += inverse[3*i+j] * y
				}
			}
			return c
		}
	}
	return [3]float64{q.xy[0] / q.xx[0]}
}

// invert gives the inverse of a symmetric matrix and its condition by the 1-norm, which is not finite if it is
// singular. By cofactors: a field has hundreds of boxes with a fit for every part that is left out, and a
// solver of any size spends more on its memory than on the sums. They lose what the condition loses.
func invert(m *[9]float64) (inverse [9]float64, condition float64) {
	for i := range 3 {
		for j := range 3 {
			r, s, k, l := (i+1)%3, (i+2)%3, (j+1)%3, (j+2)%3
			inverse[3*j+i] = m[3*r+k]*m[3*s+l] - m[3*r+l]*m[3*s+k]
		}
	}
	det := m[0]*inverse[0] + m[1]*inverse[3] + m[2]*inverse[6]
	var norm, normInverse float64
	for i := range 3 {
		var row, rowInverse float64
		for j := range 3 {
			inverse[3*i+j] /= det
			row += math.Abs(m[3*i+j])
			rowInverse += math.Abs(inverse[3*i+j])
		}
		norm, normInverse = max(norm, row), max(normInverse, rowInverse)
	}
	return inverse, norm * normInverse
}

// fitSeasonalCycle fits so many terms to values at phases of the year, and gives the residuals of those that
// were left out in turn. Missing: NaN among the values is left out; all are NaN if fewer than Least are left.
func fitSeasonalCycle(terms int, phases [][3]float64, values []float64) (s SeasonalCycle, held []float64) {
	held = make([]float64, len(values))
	var there []int
	for i, v := range values {
		if held[i] = math.NaN(); v == v {
			there = append(there, i)
		}
	}
	if len(there) < MinInits {
		return SeasonalCycle{Coefficients: [3]float64{math.NaN()}, SD: math.NaN()}, held
	}
	centre := values[there[0]] // geopotentials have five digits that say nothing
	parts := make([]normalEquations, min(folds, len(there)/2))
	all := normalEquations{terms: terms}
	part := func(k int) int { return k * len(parts) / len(there) }
	for k := range parts {
		parts[k].terms = terms
	}
	for k, i := range there {
		all.add(phases[i], values[i]-centre)
		parts[part(k)].add(phases[i], values[i]-centre)
	}
	s.Coefficients = all.solve()
	apart := make([]SeasonalCycle, len(parts)) // fitted to the others
	for k := range parts {
		others := all.without(&parts[k])
		apart[k].Coefficients = others.solve()
	}
	var squares float64
	for k, i := range there {
		held[i] = values[i] - centre - apart[part(k)].at(phases[i])
		squares += held[i] * held[i]
	}
	s.Coefficients[0] += centre
	// A field that never changes may do so by rounding.
	s.SD = max(math.Sqrt(squares/float64(len(there))), 1e-6*math.Abs(s.Coefficients[0]), math.SmallestNonzeroFloat32)
	return s, held
}

func meanAndDeviation(x []float64) (mean, sd float64) {
	n := 0.0
	for _, v := range x {
		if v == v {
			mean, n = mean+v, n+1
		}
	}
	mean /= n
	for _, v := range x {
		if v == v {
			sd += (v - mean) * (v - mean)
		}
	}
	return mean, math.Sqrt(sd / max(n-1, 1))
}

// Distance is how far a field is from those of the training starts, in standard deviations:
// signed, but for what is not known, which is 0.
type Distance struct {
	Mean    float64 `json:"mean"`
	Pattern float64 `json:"pattern"`
	Spread  float64 `json:"spread"`
}

// Distance compares a start with those of the training.
func (f *Field) Distance(b *Boxes, s Summary, valid time.Time) Distance {
	var squares, weight float64
	for k, x := range s.Pattern {
		if d := f.Pattern[k].distance(float64(x), valid); d == d {
			squares += b.area[k] * d * d
			weight += b.area[k]
		}
	}
	known := func(x float64) float64 {
		if x != x {
			return 0
		}
		return min(max(x, -maxDistance), maxDistance)
	}
	return Distance{Mean: known(f.Mean.distance(s.Mean, valid)), Spread: known(f.Spread.distance(s.Spread, valid)),
		Pattern: known((departure(squares, weight) - f.Departure[0]) / f.Departure[1])}
}

// maxDistance bounds distances, which have no end where a field never changed.
const maxDistance = 1e6

// Largest is the largest of the distances in size, and what is so far off.
func (d Distance) Largest() (size float64, what string) {
	for _, x := range []struct {
		of   float64
		name string
	}{{d.Mean, "level"}, {d.Pattern, "pattern"}, {d.Spread, "spread"}} {
		if math.Abs(x.of) > size {
			size, what = math.Abs(x.of), x.name
		}
	}
	return size, what
}
