package train

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/baselines"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// crossFit holds the baseline that networks correct (model.reference), fitted several times. For a training
// sample it is fitted without the sample's fold: the network learns to correct out-of-sample errors, as in
// predictions. For validation samples it is fitted on all training samples. For the trained model it is
// fitted on training and validation samples, as are the baselines that it is compared with. A nil crossFit
// means that networks correct no baseline.
type crossFit struct {
	method *baseline.Method
	folds  []ensemble.Fold
	foldOf []int             // fold of each training sample
	all    *task.Reference   // fitted on all training samples
	final  *task.Reference   // reference of the trained model
	byFold []*task.Reference // [fold], fitted without the fold
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
	x := &crossFit{method: m, folds: folds, foldOf: make([]int, len(inits))}
	for f, fold := range folds {
		for _, i := range fold.HeldOut {
			x.foldOf[i] = f
		}
	}
	return x, nil
}

// addTo adds the fits to those of the baselines: to the training samples, which come first, to all dates, and to
// those of each fold.
func (x *crossFit) addTo(o *baselines.Options, dates int) {
	if x == nil {
		return
	}
	every := make([]int, dates)
	for i := range every {
		every[i] = i
	}
	o.Reference, o.Subsets = x.method, [][]int{every[:len(x.foldOf)], every}
	for _, fold := range x.folds {
		o.Subsets = append(o.Subsets, fold.Train)
	}
}

// set sets the references that the fits of addTo gave.
func (x *crossFit) set(references []*task.Reference) {
	if x == nil {
		return
	}
	x.all, x.final, x.byFold = references[0], references[1], references[2:]
}

// share distributes the references, which rank 0 has, to the slabs of all ranks.
//
// Errors: lost ranks.
func (x *crossFit) share(ranks *team.Team) (*crossFit, error) {
	if x == nil || ranks.Shard() == nil {
		return x, nil
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
	var local []*task.Reference
	for _, fits := range parts {
		r := &task.Reference{Method: x.method}
		for _, p := range fits {
			r.Fits = append(r.Fits, p.Fit(r.Method))
		}
		local = append(local, r.ForRank(ranks.Shard(), ranks.Comm.Rank()))
	}
	out := &crossFit{method: x.method, folds: x.folds, foldOf: x.foldOf}
	out.set(local)
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
