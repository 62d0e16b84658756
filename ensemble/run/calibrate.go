package run

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
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
	Starts   int             `json:"starts"`         // on which it was fitted
	Cases    int             `json:"cases"`          // points of these
	Period   ensemble.Period `json:"period"`         // of the starts
	Map      calibration.Map `json:"map"`
}

// exceeding is the threshold of an event of one limit: its probability, or one less it, is that
// of exceeding.
func exceeding(e ensemble.Event) ensemble.Event {
	return ensemble.Event{Relation: ensemble.Above, Lower: e.Threshold()}
}

// calibratable refuses calibrations for which there is nothing to fit, before a training.
func (d *data) calibratable(c *config.TrainConfig) error {
	what, path := "probabilities", "calibrate.probabilities"
	if c.Calibrate.Probabilities == config.NoCalibration {
		what, path = "a distribution", "calibrate.distribution"
		if c.Calibrate.Distribution == config.NoCalibration {
			return nil
		}
	}
	if len(d.validation.inits) == 0 {
		return &exit.Error{Code: exit.Usage, What: what + " cannot be calibrated without validation starts", At: path,
			Why: "a calibration that is fitted to training starts repeats what the network learned by heart", Fix: "set data.split.validation or data.split.fractions.validation"}
	}
	m := Model{Spec: specOf(c), Family: specOf(c).predicted(c.Train.Train.Networks)}
	for _, q := range c.Calibrate.Events {
		if _, err := eventOf(q); err != nil {
			return err
		}
		if _, err := m.family(q.Variable); err != nil {
			return err
		}
	}
	return nil
}

// calibrate fits the calibrations that a configuration asks for to the validation starts. Of
// several ranks all predict; the leading one fits.
func (t *trainer) calibrate(ctx context.Context, c config.Calibrate, show *progress.Reporter) error {
	if c.Probabilities == config.NoCalibration {
		return nil
	}
	m := t.model
	k := &m.Task
	type fit struct {
		at     int
		event  ensemble.Event
		family *dist.Family
		table  calibration.Table
	}
	var fits []*fit
	for _, q := range c.Events {
		e, err := eventOf(q)
		if err != nil {
			return err
		}
		family, err := m.family(q.Variable)
		if err != nil {
			return err
		}
		for at := range k.Score {
			one := &fit{at: at, event: exceeding(e), family: family}
			if k.Score[at] != 0 && k.Targets[at/len(k.Features.Axes.Levels)].Variable == q.Variable &&
				!slices.ContainsFunc(fits, func(f *fit) bool { return f.at == at && f.event == one.event }) {
				fits = append(fits, one)
			}
		}
	}
	weights := m.Grid.Weights()
	err := t.judge(ctx, "calibrate", show, func(out *Forecast, cases []*Case) {
		for _, f := range fits {
			p := exceedances(f.family, out.parametersAt(f.at, m.Grid.Size(), wholeField), f.event.Lower)
			for q, y := range cases[f.at].Obs {
				event := 0.0
				if y != y {
					continue
				}
				if float64(y) > f.event.Lower {
					event = 1
				}
				f.table.Add(p[q], event, weights[q])
			}
		}
	})
	if err != nil || !m.ranks.Leads() {
		return err
	}
	past := t.data.validation
	levels := k.Features.Axes.Levels
	for _, f := range fits {
		r := f.table.Isotonic
		if c.Probabilities == config.ReliabilityCalibration {
			r = f.table.Reliability
		}
		of := k.Targets[f.at/len(levels)]
		m.Calibrations = append(m.Calibrations, Calibration{Variable: of.Variable, Level: levels[f.at%len(levels)].Of(of.Variable).String(), Lead: of.Lead.String(), Event: f.event, Method: c.Probabilities,
			Starts: len(past.inits), Cases: f.table.Cases(), Period: ensemble.Period{From: past.inits[0].Time, To: past.inits[len(past.inits)-1].Time}, Map: r()})
	}
	slices.SortStableFunc(m.Calibrations, func(a, b Calibration) int { return a.Event.Compare(b.Event) })
	return nil
}

// exceedances are the probabilities of values above a threshold.
//
// Shape: par [parameter][point], the result [point].
func exceedances(family *dist.Family, par [][]float32, threshold float64) []float64 {
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

// calibrationsOf are those of a target, by rising thresholds.
func (m *Model) calibrationsOf(t Target, level ensemble.Level) (out []Calibration) {
	for _, c := range m.Calibrations {
		if c.Variable == t.Variable && c.Level == level.String() && (c.Lead == "" || c.Lead == t.Lead.String()) {
			out = append(out, c)
		}
	}
	return out
}

// calibrationWords tell of a variable's probabilities how they are calibrated, as files do: "" if
// they are not.
func (m *Model) calibrationWords(t Target, level ensemble.Level) string {
	of := m.calibrationsOf(t, level)
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
		plural(of[0].Starts, "start"), ensemble.InitAt(of[0].Period.From), ensemble.InitAt(of[0].Period.To))
}

// calibrate brings probabilities of an event of a target to what its calibrations say: those of
// exceeding calibrated thresholds are mapped, and then sorted, so that they nowhere rise with the
// threshold; those of exceeding others are kept between them; what is below, and between
// two limits, follows.
//
// Shape: par [parameter][point]; p [point] is changed.
func (m *Model) calibrate(p []float32, t Target, level ensemble.Level, e ensemble.Event, family *dist.Family, par [][]float32) {
	of := m.calibrationsOf(t, level)
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
			known[k] = c.Map.At(family.Above(par, c.Event.Lower))
		}
		calibration.Falling(known)
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
