package cost

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// leastRaces is the number of times from which a kind gets coefficients of its own.
const leastRaces = 12

// sample is the time of an operation on a setup, with its features.
type sample struct {
	x []float64
	t float64
}

// Fit returns the model of races on the setups for which use is true. The coefficients of a kind minimise
//
//	Σ ρ((c·x − t)/t)·t + ridge·Σ_i |x_i|²·c_i²,  ρ(r) = r² for |r| < outlier, else outlier·(2|r| − outlier)
//
// over its times t: between absolute errors, which the largest operations would decide, and relative ones, which the many small ones
// would. Other processes have disturbed some times, which therefore count linearly. |x_i| is the length of a feature over all times, as
// it is weighted: features that a machine has in proportion then share their time, where the times of that machine alone would give it to one.
//
// Errors: a fit that does not converge.
// Source: Huber 1964, doi:10.1214/aoms/1177703732, by least squares with weights from the residuals before; Hoerl and Kennard 1970,
// doi:10.1080/00401706.1970.10488634.
func Fit(r *Races, use func(Setup) bool) (*Model, error) { return fit(r, ridge, use) }

// fit is Fit with a weight of the coefficients.
func fit(r *Races, ridge float64, use func(Setup) bool) (*Model, error) {
	by := map[string][]sample{}
	for _, o := range r.Ops {
		for k, t := range o.Times {
			if t > 0 && use(r.Setups[k]) {
				x := r.Setups[k].Features(o.Amounts, o.Values)
				s := sample{x[:], t}
				by[o.Kind] = append(by[o.Kind], s)
				by[o.Class] = append(by[o.Class], s)
			}
		}
	}
	m := &Model{Kinds: map[string]Coefficients{}}
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		if len(by[kind]) < leastRaces && kind != classOf(kind) {
			continue
		}
		c, err := fitKind(by[kind], ridge)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		m.Kinds[kind] = Coefficients(c)
	}
	return m, nil
}

// The relative error from which a time counts linearly, the weight of the coefficients themselves, and the number of least squares
// problems that approach the minimum.
const (
	outlier  = 0.2
	ridge    = 0.01
	reweight = 12
)

// fitKind returns the coefficients of the samples of one kind, of which there must be one.
func fitKind(samples []sample, ridge float64) (c []float64, err error) {
	c = make([]float64, len(samples[0].x))
	for range reweight {
		if c, err = improve(c, samples, ridge); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// improve returns the coefficients that minimise least squares with the weights of others.
func improve(c []float64, samples []sample, ridge float64) ([]float64, error) {
	n := len(c)
	a, b := make([][]float64, len(samples)), make([]float64, len(samples)+n)
	squares := make([]float64, n)
	for i, s := range samples {
		relative := math.Abs(dot(c, s.x)/s.t - 1)
		w := math.Sqrt(min(1, outlier/relative) / s.t)
		for k, x := range s.x {
			a[i] = append(a[i], w*x)
			squares[k] += w * x * w * x
		}
		b[i] = w * s.t
	}
	for k, square := range squares {
		row := make([]float64, n)
		row[k] = math.Sqrt(ridge * square)
		a = append(a, row)
	}
	x, err := nonNegative(a, b)
	for i, v := range x {
		x[i] = rounded(v)
	}
	return x, err
}

// dot returns the time for coefficients and features.
func dot(c, x []float64) (t float64) {
	for i, v := range x {
		t += c[i] * v
	}
	return t
}

// rounded keeps six digits, so that the file of coefficients is the same on all processors.
func rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-5)
	return math.Round(v/unit) * unit
}

// Residual is a step on a setup that the fit did not see. Its time is the sum over its operations: other processes disturb the least time of
// a few milliseconds less than that of a whole step.
type Residual struct {
	Network, Phase string
	Setup          Setup
	Measured       float64 // seconds: the sum of the least times of its operations
	Whole          float64 // seconds: the least time of the whole step
	Predicted      float64 // seconds
}

// Error is predicted/measured − 1.
func (r Residual) Error() float64 { return r.Predicted/r.Measured - 1 }

// LeaveOut predicts the steps of each setup with the fit to the others. apart reports whether two setups are left out together; those
// that are equal must be.
//
// Errors: those of Fit.
func LeaveOut(r *Races, apart func(left, other Setup) bool) (all []Residual, err error) {
	for k, left := range r.Setups {
		m, err := Fit(r, func(s Setup) bool { return !apart(left, s) })
		if err != nil {
			return nil, err
		}
		all = append(all, m.residuals(r, k)...)
	}
	return all, nil
}

// residuals predicts the steps of the k-th setup of races.
func (m *Model) residuals(r *Races, k int) (all []Residual) {
	for _, s := range r.Steps {
		if s.Times[k] == 0 {
			continue
		}
		x := Residual{Network: s.Network, Phase: s.Phase, Setup: r.Setups[k], Whole: s.Times[k]}
		for _, o := range s.Ops {
			t, _ := m.Time(r.Setups[k], r.Ops[o].Work, r.Ops[o].Values)
			x.Predicted += t
			x.Measured += r.Ops[o].Times[k]
		}
		all = append(all, x)
	}
	return all
}

// SameSetup reports whether setups are one machine with one number of threads and one precision: they are left out as a machine that
// was never measured.
func SameSetup(a, b Setup) bool { return a.String() == b.String() }

// SameISA reports whether setups have one instruction set and precision, with any number of threads, on any processor.
func SameISA(a, b Setup) bool { return a.Machine.ISA == b.Machine.ISA && a.Precision == b.Precision }

// BandOf returns the quantiles of the absolute errors of residuals, of which there must be at least one.
func BandOf(all []Residual) Band {
	var e []float64
	for _, r := range all {
		e = append(e, math.Abs(r.Error()))
	}
	return Quantiles(e)
}

// Quantiles returns the quantiles of absolute errors of steps, which are sorted.
func Quantiles(e []float64) Band {
	slices.Sort(e)
	quantile := func(q float64) float64 { // the smallest value that a share q does not exceed
		return math.Round(1e4*e[max(0, int(math.Ceil(q*float64(len(e))))-1)]) / 1e4
	}
	return Band{quantile(0.5), quantile(0.95), len(e)}
}

// FitAll returns the model of all races with its error band, as it is stored in coefficients.json.
//
// Errors: those of Fit.
func FitAll(r *Races) (*Model, error) {
	m, err := Fit(r, func(Setup) bool { return true })
	if err != nil {
		return nil, err
	}
	all, err := LeaveOut(r, SameSetup)
	if err != nil {
		return nil, err
	}
	if len(all) > 0 {
		m.Band = BandOf(all)
	}
	return m, nil
}
