package train

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/baselines"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// fitted is what is fitted before the first network is trained. Statistics are fitted on training samples.
// Baselines and climate, which networks are compared with, are fitted on training and validation samples.
type fitted struct {
	global, local                     *task.Task   // on all points, and on this rank's slab
	drift                             *model.Drift // drift detector; nil for too few samples, and on ranks other than 0
	baselines                         []task.Baselines
	climate                           *task.Climate // nil for none
	globalReferences, localReferences *crossFit     // on all points (rank 0), and on this rank's slab; nil for none
}

// fit fits statistics, baselines and climate of a configuration. The run directory has files without a name: training data
// of baselines that exceed baselines.Memory.
//
// Errors: exit 64 if a statistic would be fitted outside its split, and for auxiliary fields on a list of
// points; 65 for data that cannot be fitted; 66; 71; 73 and 74 for the run directory.
func fit(ctx context.Context, d *samples.Data, o Options) (*fitted, error) {
	c := o.Config
	if err := input.CheckPointList(c, d.Grid); err != nil {
		return nil, err
	}
	f := &fitted{global: newTask(c, d)}
	for statistic, inits := range map[string][]ensemble.Init{"normaliser": d.Train.Inits, "baseline": d.BeforeTest().Inits} {
		if err := d.Split.CheckFitted(statistic, setup.ValidTimes(inits, c.Data.TargetLeads), c.Data.TargetLeads); err != nil {
			return nil, err
		}
	}
	if err := samples.ReadAuxiliary(ctx, c, f.global.Features.Auxiliary, d.Grid, d.Ranks); err != nil {
		return nil, err
	}
	if err := f.fitStatistics(ctx, c, d); err != nil {
		return nil, err
	}
	if err := f.fitBaselines(ctx, d, o); err != nil {
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

// newTask returns the task of a configuration for the members that exist, with the targets that are scored.
func newTask(c *config.TrainConfig, d *samples.Data) *task.Task {
	task := setup.TaskOf(c)
	task.Features.Axes.Statistics = d.Axes.Statistics
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

// fitStatistics fits normalisers, error scales and drift detector, and distributes the task over the ranks.
func (f *fitted) fitStatistics(ctx context.Context, c *config.TrainConfig, d *samples.Data) error {
	defer progress.Start(ctx, "statistics", 0).Done()
	watch := newDriftFitter(f.global, d)
	sums, err := trainingSums(ctx, d, f.global, setup.SpecOf(c).NewHeadSums(len(f.global.TargetWeights)), watch)
	if err != nil {
		return err
	}
	las := ensemble.LASOptions{Window: c.Data.LAS.Window, Smooth: c.Data.LAS.Smooth}
	err = f.global.FitSums(sums, c.Data.Standardise, las, d.Grid, d.Ranks)
	if err != nil && exit.CodeOf(team.RankFailure(err)) != exit.RankLost {
		err = &exit.Error{Code: exit.BadData, What: "the statistics of the training samples cannot be fitted", At: "data.split.train", Why: err.Error(),
			Fix: "check the fields with `ensemble inspect --stats`, or change data.split.train", Err: err}
	}
	if err := d.Ranks.AgreeOnError(err); err != nil {
		return err
	}
	for _, name := range f.global.Features.ConstantInputs() {
		d.Warnings = append(d.Warnings, name+" is constant in training to the precision of its values, so it is no input of the network; remove it from data.variables, or train on dates when it varies")
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
func (f *fitted) fitBaselines(ctx context.Context, d *samples.Data, of Options) error {
	defer progress.Start(ctx, "baselines", 0).Done()
	c := of.Config
	if of.Baselines != "" && c.Model.Reference == config.NoReference {
		var err error
		if path := filepath.Join(of.Baselines, "model", task.BaselinesFile); d.Ranks.IsRoot() {
			if f.baselines, err = task.LoadBaselines(path, d.Grid.Size()); err == nil && f.baselines == nil {
				err = &exit.Error{Code: exit.NotYet, What: "no fitted baselines", At: path, Fix: "train without them"}
			}
		}
		return d.Ranks.AgreeOnError(err)
	}
	fits, err := newCrossFit(c, d.Train.Inits)
	if err != nil {
		return err
	}
	o := baselines.Options{Methods: methodsByID(c.Baselines), Dir: of.RunDir}
	fits.addTo(&o, len(d.BeforeTest().Inits))
	all, err := baselines.Fit(ctx, f.global, d, o)
	if err != nil {
		return err
	}
	fits.set(all.References)
	references, err := fits.share(d.Ranks)
	if err != nil {
		return err
	}
	f.global.SetReference(fits.full())
	f.local.SetReference(references.full())
	f.baselines, f.globalReferences, f.localReferences = all.Baselines, fits, references
	d.Warnings = append(d.Warnings, all.Warnings...)
	return nil
}

// trainingSums accumulates the sums over the training samples. Samples of a store are all read for the first time
// in this pass, so their values are checked too.
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
	warnings, err := d.ValueCheck.Faults(d.Ranks)
	d.Warnings, d.ValueCheck = append(d.Warnings, warnings...), nil
	return sums, err
}

// methodsByID returns the baseline methods of a list of IDs, which the schema has checked.
func methodsByID(ids []string) []*baseline.Method {
	return slices.DeleteFunc(slices.Clone(baseline.Methods), func(m *baseline.Method) bool { return !slices.Contains(ids, m.ID) })
}
