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
func prepare(ctx context.Context, o Options, run *trainingRun, d *samples.Data) (*trainer, error) {
	c := o.Config
	f, err := fit(ctx, c, d)
	if err != nil {
		return nil, err
	}
	start, err := readPretrained(string(c.Model.Pretrained))
	if err != nil {
		return nil, err
	}
	j, foldOf, err := newJob(o, run, d, f)
	if err != nil {
		return nil, err
	}
	if err := run.ranks.AgreeOnError(run.clock.Describe(j.base, c, run.identity, len(d.Train.Inits), len(d.Validation.Inits))); err != nil {
		return nil, err
	}
	if err := setArchitecture(j.model, o); err != nil {
		return nil, err
	}
	t := &trainer{
		job:       *j,
		inputs:    auxiliaryInputs{references: f.localReferences, globalFits: f.globalReferences, foldOf: foldOf, pretrained: start},
		observers: observers{dir: run.dir, timing: o.Timing, clock: run.clock},
	}
	if t.inputs.teacher, err = newTeacher(c, d); err != nil {
		return nil, err
	}
	if err := t.removal.check(t.model.Spec, &t.model.Task, d.Grid); err != nil {
		return nil, errors.Join(err, t.inputs.teacher.close())
	}
	return t, nil
}

// newJob is what stays the same in a run. foldOf is the block of years of each training sample; nil without stages.
func newJob(o Options, run *trainingRun, d *samples.Data, f *fitted) (j *job, foldOf []int, err error) {
	c := o.Config
	spec, base := setup.SpecOf(c), setup.ResolveTraining(c.Train.Train, d.Ranks)
	turns, foldOf, err := setup.NetworkTrainings(spec, base, d.Train.Inits, setup.LastTarget(c))
	if err != nil {
		return nil, nil, err
	}
	first, last := d.Train.Inits[0], d.Train.Inits[len(d.Train.Inits)-1]
	m := &model.Model{
		Spec: spec, Task: *f.global,
		Metadata: model.Metadata{Version: o.Version, Control: c.Data.Members.Control, Trained: ensemble.Period{From: first.Time, To: last.Time}, Origins: d.Origins,
			Grid: d.Grid, Interpolation: setup.InterpolationOf(c)},
		Baselines: f.baselines, Climate: f.climate, Drift: f.drift, Family: spec.PredictedFamily(base.Networks),
	}
	j = &job{base: base, trainings: turns, sampling: c.Data.Members.Sampling, prune: c.Prune, model: m, local: f.local, data: d, ranks: d.Ranks,
		dir: run.dir, hash: c.Hash(), stop: d.Ranks.StopTogether(o.Stop),
		kernels: kernels{timings: o.Timings, table: o.Timings.Open(base.Threads), choices: map[string]string{}}}
	j.removal = newChannelRemoval(c, j.totalSteps(turns))
	return j, foldOf, nil
}

// setArchitecture gives a model the channels of its networks, and the parameters that they share.
func setArchitecture(m *model.Model, o Options) (err error) {
	if m.Spec.Kept, err = initialChannels(m, o); err != nil {
		return err
	}
	m.Sharing, err = m.Spec.SharingPlan(&m.Task, m.Grid)
	return err
}

// initialChannels are those that are left of the network with which a training begins; nil are all.
func initialChannels(m *model.Model, o Options) ([]channels.Kept, error) {
	if o.Channels != nil {
		return o.Channels, nil
	}
	return setup.PretrainedChannels(o.Config, &m.Task, m.Grid)
}
