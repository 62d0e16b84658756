package train

import (
	"context"
	"errors"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// prepare makes the trainer of a run, which stands before the first step of the first network. end frees the
// networks that it trains, and inputs.close the others.
func prepare(ctx context.Context, o Options, run *opened, d *samples.Data) (*trainer, error) {
	c := o.Config
	f, err := fit(ctx, c, d)
	if err != nil {
		return nil, err
	}
	start, err := readStart(string(c.Model.Start))
	if err != nil {
		return nil, err
	}
	j, foldOf, err := newJob(o, run, d, f)
	if err != nil {
		return nil, err
	}
	if err := run.ranks.Together(run.clock.Describe(j.base, c, run.identity, len(d.Train.Inits), len(d.Validation.Inits))); err != nil {
		return nil, err
	}
	if err := shape(j.model, o); err != nil {
		return nil, err
	}
	t := &trainer{
		job:  *j,
		from: inputs{references: f.references, fits: f.fits, foldOf: foldOf, start: start},
		seen: observers{dir: run.dir, timed: o.Timed, clock: run.clock},
	}
	if t.from.teacher, err = newTeacher(c, d); err != nil {
		return nil, err
	}
	if err := t.removal.check(t.model.Spec, &t.model.Task, d.Grid); err != nil {
		return nil, errors.Join(err, t.from.teacher.close())
	}
	return t, nil
}

// newJob is what stays the same in a run. foldOf is the block of years of each training sample; nil without stages.
func newJob(o Options, run *opened, d *samples.Data, f *fitted) (j *job, foldOf []int, err error) {
	c := o.Config
	spec, base := setup.SpecOf(c), setup.Resolved(c.Train.Train, d.Ranks)
	turns, foldOf, err := setup.TurnsOf(spec, base, d.Train.Inits, setup.LastTarget(c))
	if err != nil {
		return nil, nil, err
	}
	first, last := d.Train.Inits[0], d.Train.Inits[len(d.Train.Inits)-1]
	m := &model.Model{
		Spec: spec, Task: *f.task,
		About: model.About{Version: o.Version, Control: c.Data.Members.Control, Trained: ensemble.Period{From: first.Time, To: last.Time}, Origins: d.Origins,
			Grid: d.Grid, Interpolation: setup.InterpolationOf(c)},
		Baselines: f.baselines, Climate: f.climate, Drift: f.drift, Family: spec.Predicted(base.Networks),
	}
	j = &job{base: base, turns: turns, sampling: c.Data.Members.Sampling, prune: c.Prune, model: m, local: f.local, data: d, ranks: d.Ranks,
		dir: run.dir, hash: c.Hash(), stop: d.Ranks.Stop(o.Stop),
		kernels: kernels{timings: o.Timings, table: o.Timings.Open(base.Threads), choices: map[string]string{}}}
	j.removal = removalOf(c, j.allSteps(turns))
	return j, foldOf, nil
}

// shape gives a model the channels of its networks, and the parameters that they share.
func shape(m *model.Model, o Options) (err error) {
	if m.Spec.Kept, err = keptChannels(m, o); err != nil {
		return err
	}
	m.Sharing, err = m.Spec.SharePlan(&m.Task, m.Grid)
	return err
}

// keptChannels are those that are left of the network with which a training begins; nil are all.
func keptChannels(m *model.Model, o Options) ([]channels.Kept, error) {
	if o.Kept != nil {
		return o.Kept, nil
	}
	return setup.StartChannels(o.Config, &m.Task, m.Grid)
}
