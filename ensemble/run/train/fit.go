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
	task, local      *task.Task   // of all points, and of this rank's slab
	drift            *model.Drift // what inputs are like; nil for too few samples, and where this rank does not lead
	baselines        []task.Baselines
	climate          *task.Climate // nil for none
	fits, references *crossFit     // of all points where this rank leads, and of its slab; nil for none
}

// fit fits statistics, baselines and climate of a configuration.
func fit(ctx context.Context, c *config.TrainConfig, d *samples.Data) (*fitted, error) {
	if err := input.CheckPlaces(c, d.Grid); err != nil {
		return nil, err
	}
	f := &fitted{task: taskOf(c, d)}
	for statistic, inits := range map[string][]ensemble.Init{"normaliser": d.Train.Inits, "baseline": d.Past().Inits} {
		if err := d.Split.CheckFitted(statistic, setup.ValidsOf(inits, c.Data.TargetLeads), c.Data.TargetLeads); err != nil {
			return nil, err
		}
	}
	if err := samples.ReadAuxiliary(ctx, c, f.task.Features.Auxiliary, d.Grid); err != nil {
		return nil, err
	}
	if err := f.statistics(ctx, c, d); err != nil {
		return nil, err
	}
	if err := f.withBaselines(ctx, c, d); err != nil {
		return nil, err
	}
	climate, warnings, err := ClimateOf(ctx, c.Climate, f.task, d)
	if err != nil {
		return nil, err
	}
	f.climate = climate
	d.Warnings = append(d.Warnings, warnings...)
	return f, f.local.WeighExtremes(c, climate, d.Ranks)
}

// taskOf is the task of a configuration, for the members that there are, with the targets that are scored.
func taskOf(c *config.TrainConfig, d *samples.Data) *task.Task {
	task := setup.TaskOf(c)
	task.Used, task.Least, task.Full = d.Used, c.Data.Members.Least, len(d.All)
	task.Score = make([]float64, len(task.Targets)*len(d.Axes.Levels))
	for v, of := range task.Targets {
		for _, t := range c.Data.Targets {
			for _, l := range t.Levels {
				if t.Variable == of.Variable {
					task.Score[v*len(d.Axes.Levels)+slices.Index(d.Axes.Levels, l)] = 1
				}
			}
		}
		if w := c.Train.Train.Loss.Leads; w != nil {
			task.LeadWeights = append(task.LeadWeights, w[slices.Index(c.Data.TargetLeads, of.Lead)])
		}
	}
	return &task
}

// statistics fits normalisers, the output layer's scales, and what inputs are like, and gives each rank its part.
func (f *fitted) statistics(ctx context.Context, c *config.TrainConfig, d *samples.Data) error {
	watch := newInputWatch(f.task, d)
	sums, err := sumsOf(ctx, d, f.task, setup.SpecOf(c).NewHeadSums(len(f.task.Score)), watch)
	if err != nil {
		return err
	}
	las := ensemble.LASOptions{Window: c.Data.LAS.Window, Smooth: c.Data.LAS.Smooth}
	err = f.task.FitSums(sums, c.Data.Standardise, las, d.Grid, d.Ranks)
	if err != nil && exit.CodeOf(team.Lost(err)) != exit.RankLost {
		err = &exit.Error{Code: exit.BadData, What: "the statistics of the training starts cannot be fitted", At: "data.split.train", Why: err.Error(),
			Fix: "look at the fields with `ensemble inspect --stats`, or change data.split.train", Err: err}
	}
	if err := d.Ranks.Together(err); err != nil {
		return err
	}
	if err := d.Ranks.Together(f.task.FitHead(sums.Head, d.Ranks)); err != nil {
		return err
	}
	f.drift, err = watch.fit()
	if err = d.Ranks.Together(err); err != nil {
		return err
	}
	f.local, err = task.ShareTask(d.Ranks, f.task)
	return err
}

// withBaselines fits the baselines, and the one that networks correct.
func (f *fitted) withBaselines(ctx context.Context, c *config.TrainConfig, d *samples.Data) error {
	fits, err := newCrossFit(c, d.Train.Inits)
	if err != nil {
		return err
	}
	baselines, warnings, err := fitBaselines(ctx, f.task, methodsOf(c.Baselines), d, fits.add)
	if err != nil {
		return err
	}
	references, err := fits.share(d.Ranks)
	if err != nil {
		return err
	}
	f.task.Correct(fits.whole())
	f.local.Correct(references.whole())
	f.baselines, f.fits, f.references = baselines, fits, references
	d.Warnings = append(d.Warnings, warnings...)
	return nil
}

// sumsOf are the sums over the training dates. Of a store, whose samples are all read here for
// the first time, the values are judged too.
func sumsOf(ctx context.Context, d *samples.Data, k *task.Task, head *task.HeadSums, watch *inputWatch) (*task.TaskSums, error) {
	sums, err := k.NewSums(d.All)
	if err != nil {
		return nil, err
	}
	sums.Head = head
	all := d.Train
	if d.Judged != nil {
		all.Inits = samples.Inits(d.Split)
	}
	err = all.Each(ctx, d.Ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
		if d.Judged != nil {
			d.Judged.Add(fc, a)
		}
		if i >= len(d.Train.Inits) {
			return nil
		}
		if err := watch.add(i, fc); err != nil {
			return err
		}
		return sums.Add(fc, a)
	})
	if err != nil || d.Judged == nil {
		return sums, err
	}
	noticed, err := d.Judged.Faults(d.Ranks)
	d.Warnings, d.Judged = append(d.Warnings, noticed...), nil
	return sums, err
}
