package baseline

import (
	"cmp"
	"errors"
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
// others. More than five years form five blocks; dates of a single year form four. At most
// sparsePoints points, evenly spaced, take part. The problem is convex in mu and
// sigma, and so in all coefficients up to the curvature of sp; it is solved by damped Newton
// steps with the exact second derivatives of the CRPS, for groups of points at once. If the
// dates do not determine an annual cycle (see determineCycle), a₁ and a₂ are 0.
//
// Missing: incomplete cases are left out; a point without cases gets θ_global.
// Errors: wrong shapes, ErrNoCases, fewer than eight dates.
// Memory: 12 bytes per case for the set, which may be in files (Set.Space); 120 bytes per point.
// Cost: six passes over the cases, about 0.1 µs per case on one processor with AVX-512, for the dates of a year and more
// points than take part in the cross-validation.
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
	few := s.sparse(sparsePoints)
	if len(o.Strengths) > 1 {
		var err error
		if cv, err = crossValidate(few, o.Strengths, seasonal, s.Watch); err != nil {
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
	g, err := fitGlobal(s, few, seasonal)
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

// sparsePoints is the largest number of points of the cross-validation, whose result is one number, and of the fit that
// begins the one for all points.
const sparsePoints = 4096

// sparse copies every nth point, so that at most the given number remains; a set with no more is returned itself.
func (s *Set) sparse(most int) *Set {
	n := s.Points()
	step := (n + most - 1) / most
	if step == 1 {
		return s
	}
	out, cases := &Set{Valid: s.Valid}, len(s.Valid)*((n+step-1)/step)
	out.Mean, out.Std, out.Obs = make([]float32, 0, cases), make([]float32, 0, cases), make([]float32, 0, cases)
	take := func(to *[]float32, from []float32) {
		for p := 0; p < n; p += step {
			*to = append(*to, from[p])
		}
	}
	add := s.watch("sample of points", len(s.Valid))
	s.EachDate(func(_ int, mean, std, obs []float32) {
		take(&out.Mean, mean)
		take(&out.Std, std)
		take(&out.Obs, obs)
		add(1)
	})
	if s.Weights != nil {
		for p := 0; p < n; p += step {
			out.Weights = append(out.Weights, s.Weights[p])
		}
	}
	return out
}

// crossValidate computes the cross-validated mean CRPS of every strength.
func crossValidate(s *Set, strengths []float64, seasonal bool, watch func(string, int) func(int)) ([]StrengthScore, error) {
	fold := folds(s.Valid)
	count := slices.Max(fold) + 1
	add := (&Set{Watch: watch}).watch("cross-validation", count*s.Points())
	out := make([]StrengthScore, len(strengths))
	order := make([]int, len(strengths)) // descending; each fit begins with the result of the previous one
	for k, v := range strengths {
		out[k].Strength, order[k] = v, k
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(strengths[b], strengths[a]) })
	var total float64
	for f := range count {
		train, test, err := s.split(fold, f)
		if err != nil {
			return nil, err
		}
		g, err := fitGlobal(train, train, seasonal)
		if err != nil {
			return nil, err
		}
		parts := make([]struct {
			crps   []float64 // of each strength
			weight float64
		}, g.runs())
		train.Watch = func(string, int) func(int) { return add }
		g.eachGroup(train, func(k int) func(lo, hi int) {
			fit, judge := g.newGridFitter(train), g.newGridFitter(test)
			parts[k].crps = make([]float64, len(order))
			return func(lo, hi int) {
				fit.gatherShifts(train, lo, hi)
				judge.gatherShifts(test, lo, hi)
				fit.load(lo, hi)
				for i, at := range order {
					fit.minimiseFor(hi-lo, strengths[at])
					copy(judge.theta, fit.theta)
					crps, weight := judge.score(test, lo, hi)
					parts[k].crps[i] += crps
					if i == 0 {
						parts[k].weight += weight
					}
				}
			}
		})
		for _, p := range parts {
			for i, at := range order {
				out[at].CRPS += p.crps[i] * g.Scale
			}
			total += p.weight
		}
		if err := errors.Join(train.Close(), test.Close()); err != nil {
			return nil, err
		}
	}
	for k := range out {
		out[k].CRPS /= total
	}
	return out, nil
}

// split copies the dates that are not of a fold, and those that are.
func (s *Set) split(fold []int, f int) (train, test *Set, err error) {
	var in, out []int
	for i, k := range fold {
		if k == f {
			out = append(out, i)
		} else {
			in = append(in, i)
		}
	}
	if train, err = s.Subset(in); err != nil {
		return nil, nil, err
	}
	if test, err = s.Subset(out); err != nil {
		return nil, nil, errors.Join(err, train.Close())
	}
	train.Watch, test.Watch = nil, nil
	return train, test, nil
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

// groupRun is the number of points that one worker fits before the next run begins. It is fixed, so that the bits do
// not depend on the number of processors.
const groupRun = 16 * lanes

// runs is the number of runs of groups.
func (g *GridEMOS) runs() int { return (len(g.MeanBar) + groupRun - 1) / groupRun }

// eachGroup calls open for each run k of the points of a set, on all processors, and what it returns for each group lo
// to hi of the run.
func (g *GridEMOS) eachGroup(s *Set, open func(k int) func(lo, hi int)) {
	s.each(s.points("points", groupRun, 3), func(k, lo, hi int) {
		do := open(k)
		for p := lo; p < hi; p += lanes {
			do(p, min(hi, p+lanes))
		}
	})
}

// fitGlobal computes Scale and MeanBar, and fits one set of coefficients for all points, to
// which Theta is set. few is a sample of the points; the set itself: there is none.
func fitGlobal(s, few *Set, seasonal bool) (*GridEMOS, error) {
	n := s.Points()
	g := &GridEMOS{seasonal: seasonal, Theta: make([]float64, n*gridTerms), MeanBar: make([]float64, n)}
	l, err := s.leastSquares("regression line", s.Mean, s.Obs, s.Std)
	if err != nil {
		return nil, fmt.Errorf("grid emos: %w", err)
	}
	if g.Scale = l.residual; g.Scale == 0 {
		g.Scale = 1
	}
	s.each(s.points("mean of all points", groupRun, 1), func(_, lo, hi int) {
		count := make([]float64, hi-lo)
		for i := range s.Valid {
			for k, m := range s.Mean[i*n+lo : i*n+hi] {
				if m == m {
					g.MeanBar[lo+k] += float64(m)
					count[k]++
				}
			}
		}
		for k, c := range count {
			if c > 0 {
				g.MeanBar[lo+k] /= c
			}
		}
	})
	f := g.newGridFitter(s)
	*f.theta.at(f.terms-scaleTerms, 0) = -1 // the initial sigma is sp(−1) + sp(0)·S = 0.31 + 0.69 S in units of Scale
	if few != s {
		// The minimum of fewer points is so close that two passes over all remain.
		if near, err := fitGlobal(few, few, seasonal); err == nil {
			for i, k := range g.fitOrder() {
				*f.theta.at(i, 0) = near.Global[k]
			}
		}
	}
	f.active[0] = true
	f.sumsAt = func(q sums, theta coefficients) {
		sumPoints(q, theta, s, func() *fitter {
			own := g.newGridFitter(s)
			own.gather, own.sumsAt = own.gatherShifts, own.kernelSums
			return own.fitter
		})
		f.chain(q, theta, 0) // of the sums: at single points the curvature that chain leaves out does not cancel
	}
	var steps [1]int
	f.minimise(steps[:])
	for i, k := range g.fitOrder() {
		g.Global[k] = *f.theta.at(i, 0)
	}
	for p := range g.MeanBar {
		copy(g.Theta[p*gridTerms:], g.Global[:])
	}
	return g, nil
}

// fitPoints minimises at every point for a strength, beginning with the present Theta. Points without cases keep it.
func (g *GridEMOS) fitPoints(s *Set, strength float64) {
	g.Strength = strength
	g.eachGroup(s, func(int) func(lo, hi int) {
		f := g.newGridFitter(s)
		return func(lo, hi int) {
			f.gatherShifts(s, lo, hi)
			f.load(lo, hi)
			f.minimiseFor(hi-lo, strength)
			f.save(lo, hi)
		}
	})
}

// Predict fills mean and standard deviation of the forecast at a valid time.
//
// Shape: all [point]. Missing: NaN gives NaN.
func (g *GridEMOS) Predict(mu, sigma, mean, std []float32, valid time.Time) {
	sin, cos := math.Sincos(ensemble.SeasonAngle(valid))
	for p := range mean {
		t := g.Theta[p*gridTerms:][:gridTerms]
		shift := t[0] + t[1]*sin + t[2]*cos + t[3]*(float64(mean[p])-g.MeanBar[p])/g.Scale
		sd := softplus(t[4]) + softplus(t[5])*float64(std[p])/g.Scale
		mu[p], sigma[p] = float32(float64(mean[p])+g.Scale*shift), float32(g.Scale*sd)
	}
}
