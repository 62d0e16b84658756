package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/calibration"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Calibration maps the probability of an event, for one target, to a calibrated probability.
type Calibration struct {
	Variable string          `json:"variable"`
	Level    string          `json:"level"`          // as in configuration files
	Lead     string          `json:"lead,omitempty"` // empty if the model has one lead
	Event    ensemble.Event  `json:"event"`          // exceedance of a threshold
	Method   string          `json:"method"`         // as calibrate.probabilities
	Inits    int             `json:"inits"`          // initialisations of the fit
	Cases    int             `json:"cases"`          // grid points of all initialisations
	Period   ensemble.Period `json:"period"`         // of the initialisations
	Mapping  calibration.Map `json:"map"`
}

// ExceedanceEvent returns the exceedance event of an event's threshold. The probability of an event
// with one limit is that of the exceedance, or 1 minus it. The threshold is that of
// ensemble.Event.Threshold. One calibration thus serves an event and its opposite, and their
// probabilities add up to 1.
func ExceedanceEvent(e ensemble.Event) ensemble.Event {
	return ensemble.Event{Relation: ensemble.Above, Lower: e.Threshold()}
}

// ExceedanceProbabilities returns the probabilities of values above a threshold.
//
// Shape: par [parameter][point] → [point].
// Unit: threshold in that of the parameters, the SI unit of the variable.
// Missing: NaN parameters give NaN.
func ExceedanceProbabilities(family *dist.Family, par [][]float32, threshold float64) []float64 {
	out := make([]float64, len(par[0]))
	eachPoint(par, func(p int, par []float64) { out[p] = family.Above(par, threshold) })
	return out
}

// eachPoint calls visit with the parameters of each point, in memory that the next call overwrites.
func eachPoint(par [][]float32, visit func(point int, par []float64)) {
	at := make([]float64, len(par))
	for p := range par[0] {
		for i := range par {
			at[i] = float64(par[i][p])
		}
		visit(p, at)
	}
}

// targetCalibrations lists the calibrations of a target, by ascending thresholds. A fit sorts
// Model.Calibrations by threshold, and Rearrange in Calibrate depends on that order.
func (m *Model) targetCalibrations(t task.Target, level ensemble.Level) (out []Calibration) {
	for _, c := range m.Calibrations {
		if c.Variable == t.Variable && c.Level == level.String() && (c.Lead == "" || c.Lead == t.Lead.String()) {
			out = append(out, c)
		}
	}
	return out
}

// CalibratedThresholds lists the thresholds of a target whose probabilities of exceedance are calibrated, ascending.
func (m *Model) CalibratedThresholds(t task.Target, level ensemble.Level) (out []float64) {
	for _, c := range m.targetCalibrations(t, level) {
		out = append(out, c.Event.Lower)
	}
	return out
}

// DescribeCalibration describes the calibration of a variable's probabilities for product files; ""
// without calibration.
//
// Unit: thresholds in SI, without the unit, which the file has with the variable.
func (m *Model) DescribeCalibration(t task.Target, level ensemble.Level) string {
	of := m.targetCalibrations(t, level)
	if of == nil {
		return ""
	}
	var limits []string
	for _, c := range of {
		limits = append(limits, strconv.FormatFloat(c.Event.Lower, 'g', -1, 64))
	}
	by := "isotonic regression"
	if of[0].Method == config.ReliabilityCalibration {
		by = "a reliability table"
	}
	return fmt.Sprintf("; exceedance of %s calibrated by %s on %s from %s to %s, probabilities of other thresholds bounded by these", strings.Join(limits, ", "), by,
		humanise.Count(of[0].Inits, "initialisation"), ensemble.InitAt(of[0].Period.From), ensemble.InitAt(of[0].Period.To))
}

// Calibrate calibrates the probabilities p of an event of a target. Exceedance probabilities of
// calibrated thresholds are mapped, then made monotone, so that they do not increase with the
// threshold. Those of other thresholds are bounded by the neighbouring calibrated ones.
// Probabilities of values below a limit or between two limits follow from exceedances.
//
// With the calibration g of a threshold x, and the family's P(X > x):
//
//	P(X > x) ← g(P(X > x)),   P(X < x) = 1 − P(X ≥ x),   P(a ≤ X < b) = P(X ≥ a) − P(X ≥ b)
//
// Bounding keeps probabilities of nested events nested, without a calibration for each threshold.
//
// Shape: par [parameter][point]; p [point] is overwritten.
// Missing: NaN in p stays NaN.
// Cost: one distribution function for each calibrated threshold and point.
// Source: Zadrozny and Elkan 2002, doi:10.1145/775047.775151 (isotonic regression of probabilities);
// Chernozhukov, Fernández-Val and Galichon 2010, doi:10.3982/ECTA7880 (rearrangement).
func (m *Model) Calibrate(p []float32, t task.Target, level ensemble.Level, e ensemble.Event, family *dist.Family, par [][]float32) {
	of := m.targetCalibrations(t, level)
	if of == nil {
		return
	}
	known := make([]float64, len(of)) // calibrated exceedance probabilities
	above := func(par []float64, threshold float64) float64 {
		if k := slices.IndexFunc(of, func(c Calibration) bool { return c.Event.Lower == threshold }); k >= 0 {
			return known[k]
		}
		x := family.Above(par, threshold)
		for k, c := range of { // exceedance probabilities decrease with the threshold
			if c.Event.Lower < threshold {
				x = min(x, known[k])
			} else {
				x = max(x, known[k])
			}
		}
		return x
	}
	// reaching is P(X ≥ threshold). It differs from above at the point mass of a censored
	// distribution.
	reaching := func(par []float64, threshold float64) float64 {
		mass := 1 - family.Below(par, threshold) - family.Above(par, threshold)
		return min(1, above(par, threshold)+max(0, mass))
	}
	eachPoint(par, func(q int, par []float64) {
		if p[q] != p[q] {
			return
		}
		for k, c := range of {
			known[k] = c.Mapping.At(family.Above(par, c.Event.Lower))
		}
		calibration.Rearrange(known)
		switch e.Relation {
		case ensemble.Above:
			p[q] = float32(above(par, e.Lower))
		case ensemble.Below:
			p[q] = float32(1 - reaching(par, e.Upper))
		default:
			p[q] = float32(max(0, reaching(par, e.Lower)-reaching(par, e.Upper)))
		}
	})
}
