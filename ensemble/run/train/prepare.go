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

// prepare fits statistics and baselines and returns a trainer before its first step. Its networks are freed
// by end, the teacher's by teacher.close.
//
// Errors: exit 64 for a configuration that the data do not suffice for; 65 and 66 for data; 71; 73
// and 74 for files in the run directory.
func prepare(ctx context.Context, o Options, run *trainingRun, d *samples.Data) (*trainer, error) {
	c := o.Config
	f, err := fit(ctx, d, o)
	if err != nil {
		return nil, err
	}
	pretrained, err := readPretrained(string(c.Model.Pretrained))
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
	split, err := setup.SplitSamples(d.Ranks, c, d.Grid)
	if err != nil {
		return nil, err
	}
	t := &trainer{
		job:       *j,
		groups:    split,
		inputs:    auxiliaryInputs{references: f.localReferences, globalFits: f.globalReferences, foldOf: foldOf, pretrained: pretrained},
		observers: observers{dir: run.dir, timing: o.Timing, clock: run.clock, beforeStep: o.BeforeStep},
		saves:     saves{every: j.base.Checkpoint.Every, now: o.clock()},
	}
	t.stop = d.Ranks.StopTogether(o.Stop, func() bool { return t.saves.isDue(t.pos.Step) })
	if t.inputs.teacher, err = newTeacher(c, d); err != nil {
		return nil, err
	}
	if err := t.removal.check(t.model.Spec, &t.model.Task, d.Grid); err != nil {
		return nil, errors.Join(err, t.inputs.teacher.close())
	}
	return t, nil
}

// newJob returns the constants of a run. foldOf gives each training sample its block of years; nil without
// stages.
func newJob(o Options, run *trainingRun, d *samples.Data, f *fitted) (j *job, foldOf []int, err error) {
	c := o.Config
	spec, base := setup.SpecOf(c), setup.ResolveTraining(c.Train.Train, d.Ranks)
	trainings, foldOf, err := setup.NetworkTrainings(spec, base, d.Train.Inits, setup.LastTarget(c))
	if err != nil {
		return nil, nil, err
	}
	first, last := d.Train.Inits[0], d.Train.Inits[len(d.Train.Inits)-1]
	m := &model.Model{
		Spec: spec, Task: *f.global,
		Metadata: model.Metadata{Version: o.Version, Control: c.Data.Members.Control, Trained: ensemble.Period{From: first.Time, To: last.Time}, Origins: d.Origins, Units: d.Units, Naming: c.Data.Stated(),
			Grid: d.Grid, Interpolation: setup.InterpolationOf(c)},
		Baselines: f.baselines, Climate: f.climate, Drift: f.drift, Family: spec.PredictedFamily(base.Networks),
	}
	j = &job{base: base, trainings: trainings, draws: draws{sampling: c.Data.Members.Sampling}, prune: c.Prune, calibrations: c.Calibrate, model: m, local: f.local, data: d, ranks: d.Ranks,
		dir: run.dir, hash: c.Hash(), resumeIdentity: c.ResumeIdentity(),
		kernels: kernels{timings: o.Timings, table: o.Timings.Open(base.Threads), choices: map[string]string{}}}
	if j.sizes, err = setup.NewSizes(c, d.Grid); err != nil {
		return nil, nil, err
	}
	warnings, err := j.checkSchedules()
	if err != nil {
		return nil, nil, err
	}
	d.Warnings = append(d.Warnings, warnings...)
	j.removal = newChannelRemoval(c, j.totalSteps(trainings))
	return j, foldOf, nil
}

// setArchitecture sets the channels of a model's networks and the parameters that their layers share.
func setArchitecture(m *model.Model, o Options) (err error) {
	if m.Spec.Kept, err = initialChannels(m, o); err != nil {
		return err
	}
	m.Sharing, err = m.Spec.SharingPlan(&m.Task, m.Grid)
	return err
}

// initialChannels returns the channels of the pretrained network; nil: all.
func initialChannels(m *model.Model, o Options) ([]channels.Kept, error) {
	if o.Channels != nil {
		return o.Channels, nil
	}
	return setup.PretrainedChannels(o.Config, &m.Task, m.Grid)
}
