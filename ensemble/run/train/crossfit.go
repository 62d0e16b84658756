package train

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// crossFit holds the baseline that networks correct (model.reference), fitted several times. For a training
// sample it is fitted without the sample's fold: the network learns to correct out-of-sample errors, as in
// predictions. For validation samples it is fitted on all training samples. For the trained model it is
// fitted on training and validation samples, as are the baselines that it is compared with. A nil crossFit
// means that networks correct no baseline.
type crossFit struct {
	folds  []ensemble.Fold
	foldOf []int             // fold of each training sample
	all    *task.Reference   // fitted on all training samples
	final  *task.Reference   // reference of the trained model
	byFold []*task.Reference // [fold], fitted without the fold
	err    error             // first error of add, reported by share
}

// newCrossFit divides the training initialisations into folds; nothing is fitted yet.
//
// Errors: those of ensemble.GapFolds.
func newCrossFit(c *config.TrainConfig, inits []ensemble.Init) (*crossFit, error) {
	m := baseline.MethodByID(c.Model.Reference)
	if m == nil {
		return nil, nil
	}
	folds, err := ensemble.GapFolds(inits, c.Model.CrossFit.Folds, setup.LastTarget(c), c.Model.CrossFit.Gap)
	if err != nil {
		return nil, err
	}
	x := &crossFit{folds: folds, foldOf: make([]int, len(inits)), all: &task.Reference{Method: m}, final: &task.Reference{Method: m}}
	for f, fold := range folds {
		x.byFold = append(x.byFold, &task.Reference{Method: m})
		for _, i := range fold.HeldOut {
			x.foldOf[i] = f
		}
	}
	return x, nil
}

// add fits the next target. The first dates of the set are the training samples, the others the validation
// samples. An error is kept until share, as the other ranks wait there.
func (x *crossFit) add(target string, set *baseline.Set) {
	if x == nil || x.err != nil {
		return
	}
	every := make([]int, len(set.Valid))
	for i := range every {
		every[i] = i
	}
	fit := func(r *task.Reference, dates []int) {
		f, err := fitDates(r.Method, set, dates)
		if own := (*exit.Error)(nil); err != nil && !errors.As(err, &own) {
			err = &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s cannot be fitted to %d initialisations of %s", r.Method.ID, len(dates), target),
				At: "model.reference", Why: err.Error(), Fix: "name another baseline, lower model.cross_fit.folds, or extend data.split.train", Err: err}
		}
		x.err = cmp.Or(x.err, err)
		r.Fits = append(r.Fits, f)
	}
	fit(x.all, every[:len(x.foldOf)])
	fit(x.final, every)
	for f, fold := range x.folds {
		fit(x.byFold[f], fold.Train)
	}
}

// fitDates fits a method to some dates of a set, without members.
func fitDates(m *baseline.Method, set *baseline.Set, dates []int) (f baseline.Fit, err error) {
	some, err := set.Subset(dates)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, some.Close()) }()
	return m.Fit(some)
}

// share distributes the references, fitted on rank 0, to the slabs of all ranks.
//
// Errors: those of add; those of other ranks.
func (x *crossFit) share(ranks *team.Team) (*crossFit, error) {
	if x == nil {
		return nil, nil
	}
	if err := ranks.AgreeOnError(x.err); err != nil || ranks.Shard() == nil {
		return x, err
	}
	var parts [][]task.FitParts
	if ranks.IsRoot() {
		for _, r := range append([]*task.Reference{x.all, x.final}, x.byFold...) {
			var fits []task.FitParts
			for _, f := range r.Fits {
				fits = append(fits, task.SplitFit(f))
			}
			parts = append(parts, fits)
		}
	}
	parts, err := team.Broadcast(ranks, parts)
	if err != nil {
		return nil, err
	}
	out := &crossFit{folds: x.folds, foldOf: x.foldOf}
	for i, fits := range parts {
		r := &task.Reference{Method: x.all.Method}
		for _, p := range fits {
			r.Fits = append(r.Fits, p.Fit(r.Method))
		}
		switch r = r.ForRank(ranks.Shard(), ranks.Comm.Rank()); i {
		case 0:
			out.all = r
		case 1:
			out.final = r
		default:
			out.byFold = append(out.byFold, r)
		}
	}
	if !ranks.IsRoot() {
		x.all, x.final = out.all, out.final // slabs in place of whole fields, which only rank 0 saves
	}
	return out, nil
}

// full is the reference for validation samples; nil for none.
func (x *crossFit) full() *task.Reference {
	if x == nil {
		return nil
	}
	return x.all
}

// finalReference is the reference of the trained model; nil for none.
func (x *crossFit) finalReference() *task.Reference {
	if x == nil {
		return nil
	}
	return x.final
}

// taskFor returns a task with the reference of one training sample.
func (x *crossFit) taskFor(k *task.Task, sample int) *task.Task {
	if x == nil {
		return k
	}
	own := *k
	own.SetReference(x.byFold[x.foldOf[sample]])
	return &own
}
