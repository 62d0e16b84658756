package drift

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// SeasonalCycle is the seasonal cycle of a number with a standard deviation about it:
//
//	c₀ + c₁ cos φ + c₂ sin φ,  φ the phase of the year
//
// Unit: that of the number.
type SeasonalCycle struct {
	Coefficients [3]float64
	SD           float64
}

// At is the expected value at a time.
func (s SeasonalCycle) At(t time.Time) float64 { return s.at(phase(t)) }

// at is the expected value at a phase, see phase.
func (s SeasonalCycle) at(phase [3]float64) float64 {
	return s.Coefficients[0] + s.Coefficients[1]*phase[1] + s.Coefficients[2]*phase[2]
}

// distance is (x − expected)/SD.
func (s SeasonalCycle) distance(x float64, t time.Time) float64 { return (x - s.At(t)) / s.SD }

// phase returns 1, cos φ and sin φ of a time.
func phase(t time.Time) [3]float64 {
	sin, cos := math.Sincos(ensemble.SeasonAngle(t))
	return [3]float64{1, cos, sin}
}

// Field holds the statistics of one field over the training inits.
//
// Shape: Pattern [box]. Departure holds the mean and the standard deviation of the
// logarithm of the pattern's root mean square distance. Smaller spreads count as LeastSpread, a natural
// logarithm: all members are dry on some days, and the spread of 0 would determine the standard deviation of
// the logarithm.
type Field struct {
	Mean, Spread SeasonalCycle
	LeastSpread  float64
	Pattern      []SeasonalCycle
	Departure    [2]float64
}

// MinInits is the least number of inits for Fit.
const MinInits = 8

// maxGap is the largest gap in the months of the training inits for which a seasonal
// cycle is fitted. folds is the number of parts of the cross-validation.
const (
	maxGap = 0.25 // of the year without a start
	folds  = 10
)

// Fit estimates the statistics of a field from its summaries at some inits, in temporal
// order.
//
// Standard deviations are those of residuals in cross-validation: inits are divided into
// runs of consecutive ones, and each run is predicted from the others. Few or similar
// inits therefore do not make them too small. If a quarter of the year has no init, only
// the mean is fitted.
//
// Errors: fewer than MinInits inits.
// Source: Stone 1974, doi:10.1111/j.2517-6161.1974.tb00994.x (cross-validation).
func Fit(b *Boxes, inits []Summary, valid []time.Time) (Field, error) {
	n := len(inits)
	if n < MinInits {
		return Field{}, fmt.Errorf("%d inits: drift statistics need at least %d", n, MinInits)
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
		for i := range inits {
			values[i] = of(&inits[i])
		}
		return fitSeasonalCycle(terms, phases, values)
	}
	f.Mean, _ = fit(func(s *Summary) float64 { return s.Mean })
	f.LeastSpread = leastSpread(inits)
	f.Spread, _ = fit(func(s *Summary) float64 { return f.spread(*s) })
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

// minDepartureSD bounds Departure[1] from below: a change of the whole pattern by less
// than 5 % stays within six standard deviations.
const minDepartureSD = 0.05 / 6

// minSpreadSD bounds the standard deviation of the logarithm of a spread from below: six
// of them correspond to a spread that is a quarter smaller or a third larger.
const minSpreadSD = 0.05

// leastSpreadRatio is the ratio of Field.LeastSpread to the root mean square spread of the training inits.
const leastSpreadRatio = 0.01

// leastSpread is the logarithm of leastSpreadRatio times the root mean square of the known spreads.
func leastSpread(inits []Summary) float64 {
	var squares, known float64
	for _, s := range inits {
		if s.Spread == s.Spread {
			squares += math.Exp(2 * s.Spread)
			known++
		}
	}
	return math.Log(max(leastSpreadRatio*math.Sqrt(squares/max(known, 1)), minSpread))
}

// spread is the spread of a summary, at least LeastSpread. NaN stays.
func (f *Field) spread(s Summary) float64 {
	if s.Spread < f.LeastSpread {
		return f.LeastSpread
	}
	return s.Spread
}

// departure is the logarithm of the root mean square distance √(squares/weight).
func departure(squares, weight float64) float64 {
	return math.Log(max(math.Sqrt(squares/weight), minSpread))
}

// coversYear reports whether no quarter of the year is without an init.
func coversYear(valid []time.Time) bool {
	const months = 12
	var present [months]bool
	for _, t := range valid {
		present[t.UTC().Month()-1] = true
	}
	gap := 0
	for i := range 2 * months {
		if gap++; present[i%months] {
			gap = 0
		}
		if float64(gap) > maxGap*months {
			return false
		}
	}
	return true
}

// normalEquations holds the normal equations of a least-squares fit: Σ x xᵀ and Σ x y, row by row.
type normalEquations struct {
	terms int
	xx    [9]float64
	xy    [3]float64
}

// add adds a case y with predictors x.
func (q *normalEquations) add(x [3]float64, y float64) {
	for i := range q.terms {
		for j := range q.terms {
			q.xx[i*q.terms+j] += x[i] * x[j]
		}
		q.xy[i] += x[i] * y
	}
}

// without subtracts the equations of some cases.
func (q normalEquations) without(o *normalEquations) normalEquations {
	for i := range q.xx {
		q.xx[i] -= o.xx[i]
	}
	for i := range q.xy {
		q.xy[i] -= o.xy[i]
	}
	return q
}

// maxCondition is the largest condition number for which a seasonal cycle is fitted.
const maxCondition = 1e6

// solve returns the coefficients; only the mean if the inits do not determine a seasonal cycle.
//
// Source: least squares, `xx·c = xy`, with the harmonics 1, cos φ and sin φ of Wilks 2019,
// Statistical Methods in the Atmospheric Sciences, 4th ed., section 10.4.
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

// invert returns the inverse of a symmetric 3×3 matrix and its condition number in the
// 1-norm, which is not finite for a singular matrix.
//
// It uses cofactors: a field has hundreds of boxes with a fit for every fold, and a
// general solver would spend most of its time on allocation. The relative error is of the
// order of the condition number times the machine precision.
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

// fitSeasonalCycle fits a seasonal cycle with 1 or 3 terms, and returns the residuals of the
// cross-validation in held.
//
// Missing: NaN values are left out; with fewer than MinInits others the result is NaN.
func fitSeasonalCycle(terms int, phases [][3]float64, values []float64) (s SeasonalCycle, held []float64) {
	held = make([]float64, len(values))
	var valid []int
	for i, v := range values {
		if held[i] = math.NaN(); v == v {
			valid = append(valid, i)
		}
	}
	if len(valid) < MinInits {
		return SeasonalCycle{Coefficients: [3]float64{math.NaN()}, SD: math.NaN()}, held
	}
	centre := values[valid[0]] // subtracted first: geopotential has five digits in common
	parts := make([]normalEquations, min(folds, len(valid)/2))
	all := normalEquations{terms: terms}
	part := func(k int) int { return k * len(parts) / len(valid) }
	for k := range parts {
		parts[k].terms = terms
	}
	for k, i := range valid {
		all.add(phases[i], values[i]-centre)
		parts[part(k)].add(phases[i], values[i]-centre)
	}
	s.Coefficients = all.solve()
	byPart := make([]SeasonalCycle, len(parts)) // [part] fitted to the other parts
	for k := range parts {
		others := all.without(&parts[k])
		byPart[k].Coefficients = others.solve()
	}
	var squares float64
	for k, i := range valid {
		held[i] = values[i] - centre - byPart[part(k)].at(phases[i])
		squares += held[i] * held[i]
	}
	s.Coefficients[0] += centre
	// A constant field may change by rounding.
	s.SD = max(math.Sqrt(squares/float64(len(valid))), 1e-6*math.Abs(s.Coefficients[0]), math.SmallestNonzeroFloat32)
	return s, held
}

// meanAndDeviation returns the mean and the standard deviation (divisor n−1) without NaN.
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

// Distance is the drift score of a field: its distance from the training inits in
// standard deviations, with sign. Unknown components are 0.
//
// MeanShift is the difference of the mean from its expected value, in the unit of the variable. SpreadRatio is the ratio of the
// spread to its expected value. Both describe the input to users; the score does not depend on them.
type Distance struct {
	Mean        float64 `json:"mean"`
	Pattern     float64 `json:"pattern"`
	Spread      float64 `json:"spread"`
	MeanShift   float64 `json:"mean_shift"`
	SpreadRatio float64 `json:"spread_ratio"`
}

// Distance computes the drift score of an init.
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
	return Distance{Mean: known(f.Mean.distance(s.Mean, valid)), Spread: known(f.Spread.distance(f.spread(s), valid)),
		Pattern:   known((departure(squares, weight) - f.Departure[0]) / f.Departure[1]),
		MeanShift: finite(s.Mean - f.Mean.At(valid)), SpreadRatio: finite(math.Exp(s.Spread - f.Spread.At(valid)))}
}

// finite returns x, or 0 if it is unknown.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// maxDistance bounds distances, which are not finite for fields that never changed.
const maxDistance = 1e6

// equalMembers is the SpreadRatio below which members differ by less than their rounding to float32.
const equalMembers = 1e-7

// Describe states the largest component of the field named field, whose values have a unit:
//
//	mean temperature at 500 hPa +48 h is 8.0 K above what training saw (26.1 standard deviations)
func (d Distance) Describe(field, unit string) string {
	size, what := d.Largest()
	sd := fmt.Sprintf("%.1f standard deviations", size)
	switch {
	case what == "mean" && d.MeanShift < 0:
		return fmt.Sprintf("mean %s is %s %s below what training saw (%s)", field, shiftText(-d.MeanShift), unit, sd)
	case what == "mean":
		return fmt.Sprintf("mean %s is %s %s above what training saw (%s)", field, shiftText(d.MeanShift), unit, sd)
	case what == "spread" && d.SpreadRatio < equalMembers:
		return fmt.Sprintf("all members of %s are equal: no spread (%s)", field, sd)
	case what == "spread":
		return fmt.Sprintf("spread of %s is %.3g times what training saw (%s)", field, d.SpreadRatio, sd)
	}
	return fmt.Sprintf("pattern of %s deviates by %s", field, sd)
}

// shiftText formats a shift: one decimal from 1 on, two digits below.
func shiftText(x float64) string {
	if x >= 1 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// Largest returns the largest absolute component and its name.
func (d Distance) Largest() (size float64, what string) {
	for _, x := range []struct {
		of   float64
		name string
	}{{d.Mean, "mean"}, {d.Pattern, "pattern"}, {d.Spread, "spread"}} {
		if math.Abs(x.of) > size {
			size, what = math.Abs(x.of), x.name
		}
	}
	return size, what
}
