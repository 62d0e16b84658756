package baselines

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// fit is one of the fits of each set: the smallest amount of work that a rank does.
type fit struct {
	what   string // for users
	cost   int64  // in a unit that all fits of a set share
	fields [3]int // statistics in place of mean, spread and analysis
	do     func(o *outcome, s *baseline.Set, name string) error
	take   func(r *Result, o outcome) // adds the outcome to the last target of a result
}

// outcome is what a fit made, as ranks send it. Fits are encoded as in model files.
type outcome struct {
	Affine    baseline.AffineSpread
	Fit       *task.FitParts
	Reduction *skill.Corrections // without Seasonal
	Seasonal  task.FitParts      // of Reduction
	Warnings  []string
}

// fitsOf lists the fits of each set, in the order of results.
func fitsOf(o Options, k *task.Task, past samples.Examples) []fit {
	dates := int64(len(past.Inits))
	all := []fit{{what: "affine spread correction", cost: dates * baseline.AffineSpreadCost, fields: [3]int{usedMean, usedSpread, fullSpread},
		do: func(o *outcome, s *baseline.Set, _ string) (err error) {
			o.Affine, err = baseline.FitAffineSpread(s)
			return err
		},
		take: func(r *Result, o outcome) { r.Baselines[len(r.Baselines)-1].Affine = o.Affine },
	}}
	if !past.Analysed {
		return all
	}
	for i, dates := range o.Subsets {
		all = append(all, referenceFit(o.Reference, i, dates))
	}
	for _, m := range o.Methods {
		if m.Predictors != baseline.FullMomentPredictors || k.FullMembers > len(k.UsedMembers) {
			all = append(all, methodFit(m, dates))
		}
	}
	return append(all, fit{what: "split of the CRPS reduction", cost: dates * skill.FitCost, fields: [3]int{fullMean, fullSpreadM1, analysis},
		do: func(o *outcome, s *baseline.Set, _ string) (err error) {
			if o.Reduction, err = skill.Fit(s, k.FullMembers); err == nil {
				o.Seasonal, o.Reduction.Seasonal = task.SplitFit(o.Reduction.Seasonal), nil
			}
			return err
		},
		take: func(r *Result, o outcome) {
			if o.Reduction != nil {
				o.Reduction.Seasonal = o.Seasonal.Fit(task.SeasonalStep).(*baseline.GridEMOS)
			}
			r.Baselines[len(r.Baselines)-1].Reduction = o.Reduction
		},
	})
}

// methodFit fits a method that networks are compared with.
func methodFit(m *baseline.Method, dates int64) fit {
	fields := [3]int{usedMean, usedSpreadM1, analysis}
	if m.Predictors == baseline.FullMomentPredictors {
		fields = [3]int{fullMean, fullSpreadM1, analysis}
	}
	return fit{what: m.ID, cost: dates * m.Cost, fields: fields,
		do: func(o *outcome, s *baseline.Set, name string) error {
			fitted, err := m.Fit(s)
			if err != nil {
				return err
			}
			parts := task.SplitFit(fitted)
			o.Fit = &parts
			if w, ok := fitted.(baseline.Warner); ok && w.Warning() != "" {
				o.Warnings = append(o.Warnings, fmt.Sprintf("%s of %s: %s", m.ID, name, w.Warning()))
			}
			return nil
		},
		take: func(r *Result, o outcome) {
			if o.Fit != nil {
				b := &r.Baselines[len(r.Baselines)-1]
				b.Fits = append(b.Fits, task.Baseline{Method: m, Fit: o.Fit.Fit(m)})
			}
		},
	}
}

// referenceFit fits the method that networks correct to some dates, without members.
func referenceFit(m *baseline.Method, subset int, dates []int) fit {
	return fit{what: "reference", cost: int64(len(dates)) * m.Cost, fields: [3]int{usedMean, usedSpreadM1, analysis},
		do: func(o *outcome, s *baseline.Set, name string) error {
			fitted, err := fitDates(m, s, dates)
			if own := (*exit.Error)(nil); err != nil && !errors.As(err, &own) {
				err = &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s cannot be fitted to %d initialisations of %s", m.ID, len(dates), name),
					At: "model.reference", Why: err.Error(), Fix: "name another baseline, lower model.cross_fit.folds, or extend data.split.train", Err: err}
			}
			if err != nil {
				return err
			}
			parts := task.SplitFit(fitted)
			o.Fit = &parts
			return nil
		},
		take: func(r *Result, o outcome) {
			of := r.References[subset]
			of.Fits = append(of.Fits, o.Fit.Fit(m))
		},
	}
}

// fitDates fits a method to some dates of a set, without members. All dates are not copied.
func fitDates(m *baseline.Method, set *baseline.Set, dates []int) (f baseline.Fit, err error) {
	if len(dates) == len(set.Valid) && slices.IsSorted(dates) {
		whole := *set
		whole.Members = nil
		return m.Fit(&whole)
	}
	some, err := set.Subset(dates)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, some.Close()) }()
	return m.Fit(some)
}
