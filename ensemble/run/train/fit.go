package train

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// fitted is what is fitted to the samples before the first network is trained. Statistics are of the training
// samples; baselines and climate, with which networks are compared, of those of validation as well.
type fitted struct {
	global, local                     *task.Task   // of all points, and of this rank's slab
	drift                             *model.Drift // what inputs are like; nil for too few samples, and where this rank does not lead
	baselines                         []task.Baselines
	climate                           *task.Climate // nil for none
	globalReferences, localReferences *crossFit     // of all points where this rank leads, and of its slab; nil for none
}

// fit fits statistics, baselines and climate of a configuration.
func fit(ctx context.Context, c *config.TrainConfig, d *samples.Data) (*fitted, error) {
	if err := input.CheckPointList(c, d.Grid); err != nil {
		return nil, err
	}
	f := &fitted{global: newTask(c, d)}
	for statistic, inits := range map[string][]ensemble.Init{"normaliser": d.Train.Inits, "baseline": d.BeforeTest().Inits} {
		if err := d.Split.CheckFitted(statistic, setup.ValidTimes(inits, c.Data.TargetLeads), c.Data.TargetLeads); err != nil {
			return nil, err
		}
	}
	if err := samples.ReadAuxiliary(ctx, c, f.global.Features.Auxiliary, d.Grid); err != nil {
		return nil, err
	}
	if err := f.fitStatistics(ctx, c, d); err != nil {
		return nil, err
	}
	if err := f.fitBaselines(ctx, c, d); err != nil {
		return nil, err
	}
	climate, warnings, err := LoadOrFitClimate(ctx, c.Climate, f.global, d)
	if err != nil {
		return nil, err
	}
	f.climate = climate
	d.Warnings = append(d.Warnings, warnings...)
	return f, f.local.SetExtremeWeights(c, climate, d.Ranks)
}

// newTask is the task of a configuration, for the members that there are, with the targets that are scored.
func newTask(c *config.TrainConfig, d *samples.Data) *task.Task {
	task := setup.TaskOf(c)
	task.UsedMembers, task.MinMembers, task.FullMembers = d.Used, c.Data.Members.Minimum, len(d.All)
	task.TargetWeights = make([]float64, len(task.Targets)*len(d.Axes.Levels))
	for v, of := range task.Targets {
		for _, t := range c.Data.Targets {
			for _, l := range t.Levels {
				if t.Variable == of.Variable {
					task.TargetWeights[v*len(d.Axes.Levels)+slices.Index(d.Axes.Levels, l)] = 1
				}
			}
		}
		if w := c.Train.Train.Loss.LeadWeights; w != nil {
			task.LeadWeights = append(task.LeadWeights, w[slices.Index(c.Data.TargetLeads, of.Lead)])
		}
	}
	return &task
}

// fitStatistics fits normalisers, the output layer's scales, and what inputs are like, and gives each rank its part.
func (f *fitted) fitStatistics(ctx context.Context, c *config.TrainConfig, d *samples.Data) error {
	watch := newDriftFitter(f.global, d)
	sums, err := trainingSums(ctx, d, f.global, setup.SpecOf(c).NewHeadSums(len(f.global.TargetWeights)), watch)
	if err != nil {
		return err
	}
	las := ensemble.LASOptions{Window: c.Data.LAS.Window, Smooth: c.Data.LAS.Smooth}
	err = f.global.FitSums(sums, c.Data.Standardise, las, d.Grid, d.Ranks)
	if err != nil && exit.CodeOf(team.RankFailure(err)) != exit.RankLost {
		err = &exit.Error{Code: exit.BadData, What: "the statistics of the training starts cannot be fitted", At: "data.split.train", Why: err.Error(),
			Fix: "look at the fields with `ensemble inspect --stats`, or change data.split.train", Err: err}
	}
	if err := d.Ranks.AgreeOnError(err); err != nil {
		return err
	}
	if err := d.Ranks.AgreeOnError(f.global.FitHead(sums.Head, d.Ranks)); err != nil {
		return err
	}
	f.drift, err = watch.fit()
	if err = d.Ranks.AgreeOnError(err); err != nil {
		return err
	}
	f.local, err = task.Distribute(d.Ranks, f.global)
	return err
}

// fitBaselines fits the baselines, and the one that networks correct.
func (f *fitted) fitBaselines(ctx context.Context, c *config.TrainConfig, d *samples.Data) error {
	fits, err := newCrossFit(c, d.Train.Inits)
	if err != nil {
		return err
	}
	baselines, warnings, err := fitBaselines(ctx, f.global, methodsByID(c.Baselines), d, fits.add)
	if err != nil {
		return err
	}
	references, err := fits.share(d.Ranks)
	if err != nil {
		return err
	}
	f.global.SetReference(fits.full())
	f.local.SetReference(references.full())
	f.baselines, f.globalReferences, f.localReferences = baselines, fits, references
	d.Warnings = append(d.Warnings, warnings...)
	return nil
}

// trainingSums are the sums over the training dates. Of a store, whose samples are all read here for
// the first time, the values are judged too.
func trainingSums(ctx context.Context, d *samples.Data, k *task.Task, head *task.HeadSums, watch *driftFitter) (*task.Sums, error) {
	sums, err := k.NewSums(d.All)
	if err != nil {
		return nil, err
	}
	sums.Head = head
	all := d.Train
	if d.ValueCheck != nil {
		all.Inits = samples.SplitInits(d.Split)
	}
	err = all.Each(ctx, d.Ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
		if d.ValueCheck != nil {
			d.ValueCheck.Add(fc, a)
		}
		if i >= len(d.Train.Inits) {
			return nil
		}
		if err := watch.add(i, fc); err != nil {
			return err
		}
		return sums.Add(fc, a)
	})
	if err != nil || d.ValueCheck == nil {
		return sums, err
	}
	noticed, err := d.ValueCheck.Faults(d.Ranks)
	d.Warnings, d.ValueCheck = append(d.Warnings, noticed...), nil
	return sums, err
}
