package baseline

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// gridTerms is the number of coefficients of a GridEMOS at each point.
const gridTerms = 6

// GridEMOS is EMOS with coefficients at every grid point and a seasonal cycle of the bias:
//
//	mu = m + a + a₁ sin τ + a₂ cos τ + e (m − m̄),  sigma = sp(p) + sp(q)·S
//	sp(x) = log(1+exp(x))
//
// m is the ensemble mean, m̄ its training mean at the point, S the spread and τ the phase of
// the year at the valid time. All quantities are divided by Scale, the global residual
// standard deviation of the corrected mean, so that the coefficients of all variables are
// of similar size.
//
// Shape: Theta [point][a a₁ a₂ e p q], MeanBar [point].
// Unit: Theta none; MeanBar and Scale that of the variable.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1; the seasonal terms and the
// shrinkage are defined here.
type GridEMOS struct {
	Theta    []float64          `json:"-"`
	MeanBar  []float64          `json:"-"`
	Global   [gridTerms]float64 `json:"global"` // coefficients for all points, the target of the shrinkage
	Scale    float64            `json:"scale"`
	Strength float64            `json:"strength"` // selected λ
	CV       []StrengthScore    `json:"-"`        // cross-validation scores of all λ

	seasonal bool   // the dates of the fit determine a₁ and a₂; else both are 0
	warning  string // see Warning
}

// Warning reports that the dates did not determine a seasonal cycle of the bias; "" if they did.
func (g *GridEMOS) Warning() string { return g.warning }

// StrengthScore is the cross-validated mean CRPS of a penalty strength λ.
type StrengthScore struct{ Strength, CRPS float64 }

// GridEMOSOptions configure FitGridEMOS. The zero value is the default.
type GridEMOSOptions struct {
	// Strengths are the candidates for λ; nil: seven values from 0.3 to 300. A single
	// candidate is used without cross-validation.
	Strengths []float64
}

// FitGridEMOS finds at every point the coefficients that minimise
//
//	(1/n) Σ_dates CRPS + (λ/n) |θ − θ_global|²
//
// where θ_global are the coefficients of one fit for all points. λ is the candidate with the
// least weighted mean CRPS in cross-validation over years: each year is predicted from the
// others. More than five years form five blocks; dates of a single year form four. The
// problem is convex in mu and sigma, and so in all coefficients up to the curvature of sp;
// it is solved by Newton steps with the exact second derivatives of the CRPS. If the dates do
// not determine an annual cycle (see determineCycle), a₁ and a₂ are 0.
//
// Missing: incomplete cases are left out; a point without cases gets θ_global.
// Errors: wrong shapes, ErrNoCases, fewer than eight dates.
// Cost: about 1 µs per case and strength on one processor.
func FitGridEMOS(s *Set, o GridEMOSOptions) (*GridEMOS, error) {
	if err := s.check("grid emos", true); err != nil {
		return nil, err
	}
	if len(s.Valid) < 8 {
		return nil, fmt.Errorf("grid emos: %d dates, want at least 8", len(s.Valid))
	}
	if o.Strengths == nil {
		o.Strengths = []float64{0.3, 1, 3, 10, 30, 100, 300}
	}
	seasonal := coversSeasons(s.Valid)
	strength := o.Strengths[0]
	var cv []StrengthScore
	if len(o.Strengths) > 1 {
		var err error
		if cv, err = crossValidate(s, o.Strengths, seasonal); err != nil {
			return nil, err
		}
		best := slices.MinFunc(cv, func(a, b StrengthScore) int {
			if a.CRPS < b.CRPS {
				return -1
			}
			return 1
		})
		strength = best.Strength
	}
	g, err := fitGlobal(s, seasonal)
	if err != nil {
		return nil, err
	}
	g.fitPoints(s, strength)
	g.CV = cv
	if !seasonal {
		g.warning = describeDates(s.Valid) + " do not determine a seasonal cycle of the bias: it is the same all year"
	}
	return g, nil
}

// crossValidate computes the cross-validated mean CRPS of every strength.
func crossValidate(s *Set, strengths []float64, seasonal bool) ([]StrengthScore, error) {
	fold := folds(s.Valid)
	sums := make([]StrengthScore, len(strengths))
	order := make([]int, len(strengths)) // descending; each fit begins with the result of the previous one
	for k, v := range strengths {
		sums[k].Strength, order[k] = v, k
	}
	slices.SortFunc(order, func(a, b int) int {
		if strengths[a] > strengths[b] {
			return -1
		}
		return 1
	})
	count := slices.Max(fold) + 1
	var total float64
	for f := range count {
		train, test := s.subset(func(i int) bool { return fold[i] != f }), s.subset(func(i int) bool { return fold[i] == f })
		g, err := fitGlobal(train, seasonal)
		if err != nil {
			return nil, err
		}
		for _, k := range order {
			g.fitPoints(train, strengths[k])
			c, w := g.scoreSum(test)
			sums[k].CRPS += c
			if k == order[0] {
				total += w
			}
		}
	}
	for k := range sums {
		sums[k].CRPS /= total
	}
	return sums, nil
}

// maxFolds bounds the cost of cross-validation over many years.
const maxFolds = 5

// folds assigns a fold to each date: one per year, blocks of consecutive years if there are
// more than maxFolds, and four blocks of consecutive dates within a single year. Years with
// less than a quarter of the mean number of dates join the year before, or the first one.
//
// Shape: result [date].
func folds(valid []time.Time) []int {
	var years []int
	for _, t := range valid {
		if y := t.UTC().Year(); !slices.Contains(years, y) {
			years = append(years, y)
		}
	}
	// A few dates in an adjacent year do not form a fold of their own.
	slices.Sort(years)
	count := map[int]int{}
	for _, t := range valid {
		count[t.UTC().Year()]++
	}
	// small is a quarter of the mean number of dates per year.
	out := make([]int, len(valid))
	small := len(valid) / (4 * len(years))
	var real []int
	for _, y := range years {
		if count[y] > small {
			real = append(real, y)
		}
	}
	if len(real) < 2 {
		order := make([]int, len(valid))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return valid[a].Compare(valid[b]) })
		for k, i := range order {
			out[i] = 4 * k / len(order)
		}
		return out
	}
	for i, t := range valid {
		at := 0
		for k, y := range real {
			if y <= t.UTC().Year() {
				at = k
			}
		}
		out[i] = at * min(maxFolds, len(real)) / len(real)
	}
	return out
}

// seasonRow holds sin τ and cos τ of a date.
type seasonRow [2]float64

// seasonRows returns the seasonal terms of all dates, 0 during a fit that has none.
func (g *GridEMOS) seasonRows(valid []time.Time) []seasonRow {
	out := make([]seasonRow, len(valid))
	if !g.seasonal {
		return out
	}
	for i, t := range valid {
		sin, cos := math.Sincos(ensemble.SeasonAngle(t))
		out[i] = seasonRow{sin, cos}
	}
	return out
}

// pointCases collects the complete cases of point p in units of Scale, in the memory of dst:
// (m − m̄)/Scale, (y − m)/Scale and S/Scale.
func (g *GridEMOS) pointCases(dst []gridCase, s *Set, rows []seasonRow, p int) []gridCase {
	dst = dst[:0]
	n := s.Points()
	for i, r := range rows {
		m, sd, y := float64(s.Mean[i*n+p]), float64(s.Std[i*n+p]), float64(s.Obs[i*n+p])
		if math.IsNaN(m) || math.IsNaN(sd) || math.IsNaN(y) {
			continue
		}
		dst = append(dst, gridCase{sin: r[0], cos: r[1], anomaly: (m - g.MeanBar[p]) / g.Scale, miss: (y - m) / g.Scale, spread: sd / g.Scale})
	}
	return dst
}

// fitGlobal computes Scale and MeanBar, and fits one set of coefficients for all points, to
// which Theta is set.
func fitGlobal(s *Set, seasonal bool) (*GridEMOS, error) {
	n := s.Points()
	g := &GridEMOS{seasonal: seasonal, Theta: make([]float64, n*gridTerms), MeanBar: make([]float64, n)}
	l, err := leastSquares(s.Mean, s.Obs, s.caseWeight)
	if err != nil {
		return nil, fmt.Errorf("grid emos: %w", err)
	}
	if g.Scale = l.residual; g.Scale == 0 {
		g.Scale = 1
	}
	rows := g.seasonRows(s.Valid)
	for p := range n {
		var sum, count float64
		for i := range s.Valid {
			if m := float64(s.Mean[i*n+p]); !math.IsNaN(m) {
				sum += m
				count++
			}
		}
		if count > 0 {
			g.MeanBar[p] = sum / count
		}
	}
	const chunk = 64 // fixed, so that the bits do not depend on the number of processors
	runs := (n + chunk - 1) / chunk
	// The initial sigma is sp(−1) + sp(0)·S = 0.31 + 0.69 S in units of Scale.
	g.Global = newton([gridTerms]float64{4: -1}, func(theta *[gridTerms]float64) quadraticModel {
		parts := make([]quadraticModel, runs)
		parallel(n, chunk, func(k, lo, hi int) {
			var cases []gridCase
			var q quadraticModel
			for p := lo; p < hi; p++ {
				cases = g.pointCases(cases, s, rows, p)
				q.addCases(theta, cases, s.weight(p))
			}
			parts[k] = q
		})
		var q quadraticModel
		for i := range parts {
			q.add(&parts[i])
		}
		q.divide(q.weight)
		return q
	})
	g.reset()
	return g, nil
}

// reset sets the coefficients of all points to the global ones.
func (g *GridEMOS) reset() {
	for p := range g.MeanBar {
		copy(g.Theta[p*gridTerms:], g.Global[:])
	}
}

// fitPoints minimises at every point for a strength, beginning with the present Theta.
func (g *GridEMOS) fitPoints(s *Set, strength float64) {
	rows := g.seasonRows(s.Valid)
	g.Strength = strength
	parallel(len(g.MeanBar), 64, func(_, lo, hi int) {
		var cases []gridCase
		for p := lo; p < hi; p++ {
			at := (*[gridTerms]float64)(g.Theta[p*gridTerms:])
			if cases = g.pointCases(cases, s, rows, p); len(cases) == 0 {
				*at = g.Global
				continue
			}
			*at = newton(*at, func(theta *[gridTerms]float64) quadraticModel {
				var q quadraticModel
				q.addCases(theta, cases, 1)
				q.addPenalty(theta, &g.Global, strength)
				q.divide(float64(len(cases)))
				return q
			})
		}
	})
}

// scoreSum is the weighted sum of the CRPS over a set, in the unit of the variable, and the
// sum of the weights.
func (g *GridEMOS) scoreSum(s *Set) (crps, weight float64) {
	rows := g.seasonRows(s.Valid)
	const chunk = 64
	parts := make([]quadraticModel, (len(g.MeanBar)+chunk-1)/chunk)
	parallel(len(g.MeanBar), chunk, func(k, lo, hi int) {
		var cases []gridCase
		for p := lo; p < hi; p++ {
			cases = g.pointCases(cases, s, rows, p)
			parts[k].addCases((*[gridTerms]float64)(g.Theta[p*gridTerms:]), cases, s.weight(p))
		}
	})
	for _, q := range parts {
		crps += q.value
		weight += q.weight
	}
	return crps * g.Scale, weight
}

// Predict fills mean and standard deviation of the forecast at a valid time.
//
// Shape: all [point]. Missing: NaN gives NaN.
func (g *GridEMOS) Predict(mu, sigma, mean, std []float32, valid time.Time) {
	sin, cos := math.Sincos(ensemble.SeasonAngle(valid))
	for p := range mean {
		c := gridCase{sin: sin, cos: cos, anomaly: (float64(mean[p]) - g.MeanBar[p]) / g.Scale, spread: float64(std[p]) / g.Scale}
		shift, sd := c.predict((*[gridTerms]float64)(g.Theta[p*gridTerms:]))
		mu[p], sigma[p] = float32(float64(mean[p])+g.Scale*shift), float32(g.Scale*sd)
	}
}
