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

// Calibration is how the probability of an event of one target is calibrated.
type Calibration struct {
	Variable string          `json:"variable"`
	Level    string          `json:"level"`          // as configuration files have it
	Lead     string          `json:"lead,omitempty"` // of several
	Event    ensemble.Event  `json:"event"`          // that a threshold is exceeded
	Method   string          `json:"method"`         // of config.Calibrate
	Inits    int             `json:"inits"`          // on which it was fitted
	Cases    int             `json:"cases"`          // points of these
	Period   ensemble.Period `json:"period"`         // of the starts
	Mapping  calibration.Map `json:"map"`
}

// ExceedanceEvent is the threshold of an event of one limit: its probability, or one less it, is that
// of exceeding.
func ExceedanceEvent(e ensemble.Event) ensemble.Event {
	return ensemble.Event{Relation: ensemble.Above, Lower: e.Threshold()}
}

// ExceedanceProbabilities are the probabilities of values above a threshold.
//
// Shape: par [parameter][point], the result [point].
func ExceedanceProbabilities(family *dist.Family, par [][]float32, threshold float64) []float64 {
	out := make([]float64, len(par[0]))
	eachPoint(par, func(p int, par []float64) { out[p] = family.Above(par, threshold) })
	return out
}

// eachPoint visits the parameters of each point.
func eachPoint(par [][]float32, visit func(point int, par []float64)) {
	at := make([]float64, len(par))
	for p := range par[0] {
		for i := range par {
			at[i] = float64(par[i][p])
		}
		visit(p, at)
	}
}

// targetCalibrations are those of a target, by rising thresholds.
func (m *Model) targetCalibrations(t task.Target, level ensemble.Level) (out []Calibration) {
	for _, c := range m.Calibrations {
		if c.Variable == t.Variable && c.Level == level.String() && (c.Lead == "" || c.Lead == t.Lead.String()) {
			out = append(out, c)
		}
	}
	return out
}

// DescribeCalibration tell of a variable's probabilities how they are calibrated, as files do: "" if
// they are not.
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
	return fmt.Sprintf("; of exceeding %s calibrated by %s on %s from %s to %s, of other thresholds kept between these", strings.Join(limits, ", "), by,
		humanise.Count(of[0].Inits, "start"), ensemble.InitAt(of[0].Period.From), ensemble.InitAt(of[0].Period.To))
}

// Calibrate brings probabilities of an event of a target to what its calibrations say: those of
// exceeding calibrated thresholds are mapped, and then sorted, so that they nowhere rise with the
// threshold; those of exceeding others are kept between them; what is below, and between
// two limits, follows.
//
// Shape: par [parameter][point]; p [point] is changed.
func (m *Model) Calibrate(p []float32, t task.Target, level ensemble.Level, e ensemble.Event, family *dist.Family, par [][]float32) {
	of := m.targetCalibrations(t, level)
	if of == nil {
		return
	}
	known := make([]float64, len(of)) // of exceeding the calibrated thresholds
	above := func(par []float64, threshold float64) float64 {
		if k := slices.IndexFunc(of, func(c Calibration) bool { return c.Event.Lower == threshold }); k >= 0 {
			return known[k]
		}
		x := family.Above(par, threshold)
		for k, c := range of { // they fall with the threshold
			if c.Event.Lower < threshold {
				x = min(x, known[k])
			} else {
				x = max(x, known[k])
			}
		}
		return x
	}
	// reaching is above with the limit itself, which of a censored distribution has a mass.
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
