package train

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/calibration"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// checkCalibration checks before a training that the configured calibrations can be fitted.
//
// Errors: exit 64 without validation samples, for an invalid event, and for a variable without a
// distribution.
func checkCalibration(split ensemble.Split, c *config.TrainConfig) error {
	what, path := "probabilities", "calibrate.probabilities"
	if c.Calibrate.Probabilities == config.NoCalibration {
		what, path = "a distribution", "calibrate.distribution"
		if c.Calibrate.Distribution == config.NoCalibration {
			return nil
		}
	}
	if len(split.Validation) == 0 {
		return &exit.Error{Code: exit.Usage, What: what + " cannot be calibrated without validation samples", At: path,
			Why: "on training samples the network's errors are smaller than in predictions, so a calibration fitted on them is biased", Fix: "set data.split.validation or data.split.fractions.validation"}
	}
	m := model.Model{Spec: setup.SpecOf(c), Family: setup.SpecOf(c).PredictedFamily(c.Train.Train.Networks)}
	for _, q := range c.Calibrate.Events {
		if _, err := task.EventSI(q); err != nil {
			return err
		}
		if _, err := m.CheckedFamily(q.Variable); err != nil {
			return err
		}
	}
	return nil
}

// calibrate fits the configured calibrations on the validation samples, writes the model, and collects
// warnings about input that delayed steps.
func (t *trainer) calibrate(ctx context.Context, o Options) error {
	c := o.Config.Calibrate
	t.data.PlanReads(t.passesAfter())
	if err := t.recalibrate(ctx, c, o.Progress); err != nil {
		return err
	}
	if err := t.calibrateEvents(ctx, c, o.Progress); err != nil {
		return err
	}
	if err := t.observers.Reads(t.pos, "calibrate", t.data); err != nil {
		return err
	}
	var err error
	defer o.Progress.Start("write model", 0).Done()
	if t.ranks.IsRoot() {
		err = t.dir.Publish(func() error { return t.model.Save(t.dir.File("model")) })
	}
	if err := t.ranks.AgreeOnError(err); err != nil {
		return err
	}
	late, err := t.observers.input.Warnings(t.ranks)
	t.data.Warnings = append(t.data.Warnings, late...)
	o.warn(t.ranks, late)
	return err
}

// calibrateEvents fits calibrations of event probabilities on the validation samples: isotonic regression or
// a reliability table maps predicted probability to observed frequency, for each event and target, weighted
// by area. All ranks predict; rank 0 fits.
func (t *trainer) calibrateEvents(ctx context.Context, c config.Calibrate, show *progress.Reporter) error {
	if c.Probabilities == config.NoCalibration {
		return nil
	}
	m := t.model
	k := &m.Task
	levels := k.Features.Axes.Levels
	type fit struct {
		at     int
		event  ensemble.Event
		family *dist.Family
		table  calibration.Table
	}
	var fits []*fit
	for _, q := range c.Events {
		e, err := task.EventSI(q)
		if err != nil {
			return err
		}
		family, err := m.CheckedFamily(q.Variable)
		if err != nil {
			return err
		}
		for at := range k.TargetWeights {
			one := &fit{at: at, event: model.ExceedanceEvent(e), family: family}
			if k.TargetWeights[at] != 0 && q.Matches(k.Targets[at/len(levels)].Variable, levels[at%len(levels)]) &&
				!slices.ContainsFunc(fits, func(f *fit) bool { return f.at == at && f.event == one.event }) {
				fits = append(fits, one)
			}
		}
	}
	weights := m.Grid.Weights()
	err := t.eachValidation(ctx, "calibrate", show, func(out *model.Forecast, cases []*scoring.Case) {
		for _, f := range fits {
			p := model.ExceedanceProbabilities(f.family, out.ParametersAt(f.at, m.Grid.Size(), model.FullField), f.event.Lower)
			for q, y := range cases[f.at].Obs {
				event := 0.0
				if y != y {
					continue
				}
				if f.event.Occurs(float64(y)) {
					event = 1
				}
				f.table.Add(p[q], event, weights[q])
			}
		}
	})
	if err != nil || !m.Ranks.IsRoot() {
		return err
	}
	past := t.data.Validation
	for _, f := range fits {
		r := f.table.Isotonic
		if c.Probabilities == config.ReliabilityCalibration {
			r = f.table.Reliability
		}
		of := k.Targets[f.at/len(levels)]
		m.Calibrations = append(m.Calibrations, model.Calibration{Variable: of.Variable, Level: levels[f.at%len(levels)].ForVariable(of.Variable).String(), Lead: of.Lead.String(), Event: f.event, Method: c.Probabilities,
			Inits: len(past.Inits), Cases: f.table.Cases(), Period: ensemble.Period{From: past.Inits[0].Time, To: past.Inits[len(past.Inits)-1].Time}, Mapping: r()})
	}
	slices.SortStableFunc(m.Calibrations, func(a, b model.Calibration) int { return a.Event.Compare(b.Event) })
	return nil
}
