package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// methodsByID returns the baseline methods of a list of IDs, which the schema has checked.
func methodsByID(ids []string) []*baseline.Method {
	return slices.DeleteFunc(slices.Clone(baseline.Methods), func(m *baseline.Method) bool { return !slices.Contains(ids, m.ID) })
}

// fitBaselines fits baselines for a task's targets, in the order in which targets are stored.
//
// A target with too few dates lacks the baseline concerned, and a warning names it. also is called with the
// data of each target. On several ranks rank 0 fits, one target at all levels at a time; the other ranks
// return nil.
//
// Memory: on rank 0 7 values of 4 bytes per date, point and level, and 7 of one level; if a method uses
// members, one more of each per input member.
// Cost: reads the samples once per target variable and lead.
func fitBaselines(ctx context.Context, k *task.Task, methods []*baseline.Method, d *samples.Data, onTarget func(name string, set *baseline.Set)) (all []task.Baselines, warnings []string, err error) {
	past, grid, ranks := d.BeforeTest(), d.Grid, d.Ranks
	w, n := grid.Weights(), grid.Size()
	fields := baselineStatistics
	if past.Analysed && slices.ContainsFunc(methods, func(m *baseline.Method) bool { return m.Predictors == baseline.MemberPredictors }) {
		fields += len(k.UsedMembers)
	}
	show := progress.Start(ctx, "fit", int64(len(k.Targets)*len(k.Features.Axes.Levels)*(len(methods)+2)))
	defer show.Done()
	for v := range k.Targets {
		dates := make([][]float32, len(past.Inits)) // [date][statistic][level][point]
		err := past.Each(ctx, ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
			used, err := task.MemberPositions(fc, k.UsedMembers)
			if err != nil {
				return err
			}
			part, err := baselineFields(k, fc, a, used, v, fields)
			if err != nil {
				return err
			}
			dates[i], err = team.GatherFields(ranks, part, fields)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		if !ranks.IsRoot() {
			continue
		}
		for l := range k.Features.Axes.Levels {
			set := &baseline.Set{Weights: w}
			whole := &baseline.Set{}
			var few, full []float32
			for i, init := range past.Inits {
				of := func(statistic int) []float32 {
					return dates[i][(statistic*len(k.Features.Axes.Levels)+l)*n:][:n]
				}
				set.Mean, set.Std = append(set.Mean, of(0)...), append(set.Std, of(1)...)
				few, full = append(few, of(2)...), append(full, of(3)...)
				set.Valid = append(set.Valid, init.Valid(k.Targets[v].Lead).Time)
				whole.Mean, whole.Std = append(whole.Mean, of(4)...), append(whole.Std, of(5)...)
				if past.Analysed {
					set.Obs = append(set.Obs, of(6)...)
				}
				for m := baselineStatistics; m < fields; m++ {
					set.Members = append(set.Members, of(m)...)
				}
			}
			whole.Valid, whole.Obs = set.Valid, set.Obs
			b := task.Baselines{FittedTo: slices.SortedFunc(slices.Values(set.Valid), time.Time.Compare)}
			name := k.TargetName(v*len(k.Features.Axes.Levels) + l)
			warnIf := func(what string, err error) {
				if err != nil {
					warnings = append(warnings, fmt.Sprintf("%s has no %s: %v", name, what, err))
				}
			}
			b.Affine, err = baseline.FitAffineSpread(few, full, w)
			warnIf("affine spread correction", err)
			if past.Analysed {
				onTarget(name, set)
				show.Add(1)
				for _, m := range methods {
					show.Note(m.ID + " of " + name)
					fit, err := m.Fit(set)
					show.Add(1)
					warnIf(m.ID, err)
					if err != nil {
						continue
					}
					b.Fits = append(b.Fits, task.Baseline{Method: m, Fit: fit})
					if f, ok := fit.(baseline.Warner); ok && f.Warning() != "" {
						warnings = append(warnings, fmt.Sprintf("%s of %s: %s", m.ID, name, f.Warning()))
					}
				}
				show.Note("steps of skill of " + name)
				b.Reduction, err = skill.Fit(whole, k.FullMembers)
				show.Add(1)
				warnIf("split of the CRPS reduction", err)
			}
			all = append(all, b)
		}
	}
	return all, warnings, nil
}

// baselineStatistics is the number of fields that baselineFields returns per level, without members.
const baselineStatistics = 7

// baselineFields returns the predictors and the predictand of baselines on one date for target v: mean and
// spread of the input members (divisor M−1), spread of the input members and of all members (divisor of the
// features), mean and spread of all members (divisor M−1), and the analysis. If fields is larger, the input
// members follow.
//
// Shape: [field][level][point] of the forecast.
func baselineFields(k *task.Task, fc *ensemble.Forecast, analyses []*ensemble.Analysis, used []int, v, fields int) ([]float32, error) {
	n, depth := fc.Grid.Size(), len(fc.Axes.Levels)
	t, x := k.TargetAt(v)
	target, _ := k.TargetInForecast(fc, v)
	out, unused := make([]float32, fields*depth*n), make([]float32, n)
	for l, level := range fc.Axes.Levels {
		of := func(statistic int) []float32 { return out[(statistic*depth+l)*n:][:n] }
		fc.MeanStd(of(0), of(1), t, x, l, used, 1)
		fc.MeanStd(unused, of(2), t, x, l, used, k.Features.DDOF)
		fc.MeanStd(unused, of(3), target, x, l, task.AllMembers(fc), k.Features.DDOF)
		fc.MeanStd(of(4), of(5), target, x, l, task.AllMembers(fc), 1)
		if analyses != nil {
			obs, err := k.AnalysisField(analyses, fc.Init, v, level)
			if err != nil {
				return nil, err
			}
			copy(of(6), obs)
		}
		for i := baselineStatistics; i < fields; i++ {
			copy(of(i), fc.Field(t, used[i-baselineStatistics], x, l))
		}
	}
	return out, nil
}
