package run

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// reference is the forecast that a network corrects: a baseline that gives a normal
// distribution, fitted to each target by itself.
type reference struct {
	method *baseline.Method
	fits   []baseline.Fit // as targets are stored
}

// correctedFile is its file in a model folder.
const correctedFile = "reference.safetensors"

// What a network is told where the reference has no value, which it may have at points where
// climatology has none: the members' mean with its usual error. And the least sigma, so that
// its logarithm is finite.
const (
	missingSigma = 1    // in units of the error scale
	leastSigma   = 0.01 // in the same
)

// into writes the reference of a target to a place of a batch: perUnit is 1 over the error
// scale, st the statistics of the members, with divisor M−1.
func (r *reference) into(b *Batch, at, out int, valid ensemble.Valid, st statistics, perUnit float32) {
	y := r.fits[at].Forecast(baseline.Raw{Valid: valid.Time, Mean: st.mean, Std: st.std})
	for q, mean := range y[0] {
		shift, sigma := (mean-st.mean[q])*perUnit, y[1][q]*perUnit
		if shift-shift != 0 || sigma-sigma != 0 {
			shift, sigma = 0, missingSigma
		}
		b.ReferenceShift[out+q], b.ReferenceSigma[out+q] = shift, max(sigma, leastSigma)
	}
}

// within is the reference of a rank, for its slab alone; of a whole one if s is nil.
func (r *reference) within(s *team.Slab, rank int) *reference {
	if r == nil || s == nil {
		return r
	}
	out := &reference{method: r.method}
	w := s.WindowOf(rank)
	for _, f := range team.AtLevels(r.fits, s, rank) {
		parts := partsOfFit(f)
		for i, a := range f.Arrays() {
			if !a.Pooled {
				parts.F64[i], parts.F32[i] = cutTerms(parts.F64[i], a.Terms, s.Grid, w), cutTerms(parts.F32[i], a.Terms, s.Grid, w)
			}
		}
		out.fits = append(out.fits, parts.fit(r.method))
	}
	return out
}

// cutTerms keeps a window of an array of so many terms for each point of a grid.
func cutTerms[T float32 | float64](x []T, terms int, g *ensemble.Grid, w ensemble.Window) []T {
	if len(x) == 0 || g.Whole(w) {
		return x
	}
	points := make([]int, g.Size())
	for p := range points {
		points[p] = p
	}
	var out []T
	for _, p := range ensemble.Cut(points, g, w) {
		out = append(out, x[p*terms:(p+1)*terms]...)
	}
	return out
}

// fitParts are a fit taken apart, to be cut and sent: its text, and its arrays by their place.
type fitParts struct {
	Text []byte
	F64  [][]float64
	F32  [][]float32
}

func partsOfFit(f baseline.Fit) fitParts {
	text, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("the text of a fit: %v", err)) // it is a struct of numbers
	}
	arrays := f.Arrays()
	p := fitParts{text, make([][]float64, len(arrays)), make([][]float32, len(arrays))}
	for i, a := range arrays {
		switch x := a.Data.(type) {
		case *[]float64:
			p.F64[i] = *x
		case *[]float32:
			p.F32[i] = *x
		}
	}
	return p
}

// fit is the fit of which these are the parts.
func (p fitParts) fit(m *baseline.Method) baseline.Fit {
	f := m.Empty()
	if err := json.Unmarshal(p.Text, f); err != nil {
		panic(fmt.Sprintf("the text of a fit: %v", err))
	}
	for i, a := range f.Arrays() {
		switch x := a.Data.(type) {
		case *[]float64:
			*x = p.F64[i]
		case *[]float32:
			*x = p.F32[i]
		}
	}
	return f
}

// save writes the reference, if there is one.
//
// Errors: as saveBaselines.
func (r *reference) save(path string) error {
	if r == nil {
		return nil
	}
	all := make([]Baselines, len(r.fits))
	for i, f := range r.fits {
		all[i].Fits = []Baseline{{r.method, f}}
	}
	return saveBaselines(path, all)
}

// loadCorrected reads the reference that a model's networks correct; nil if they correct none.
//
// Errors: exit 65 if it is missing or does not fit the model, and as loadBaselines.
func loadCorrected(path string, m *Model) (*reference, error) {
	if m.Spec.Reference == "" {
		return nil, nil
	}
	all, err := loadBaselines(path, m.Grid.Size())
	if err != nil {
		return nil, err
	}
	r := &reference{method: baseline.MethodByID(m.Spec.Reference)}
	for _, b := range all {
		if len(b.Fits) == 1 && b.Fits[0].Method == r.method {
			r.fits = append(r.fits, b.Fits[0].Fit)
		}
	}
	if want := len(m.Task.Targets) * len(m.Task.Features.Axes.Levels); r.method == nil || len(r.fits) != want {
		return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the model corrects %q, which was not saved with it for all %d targets", m.Spec.Reference, want),
			At: path, Fix: "train again, or copy the whole folder again"}
	}
	return r, nil
}

// crossFit are the references of the training starts. Each is fitted without its block, so
// that a network learns to correct errors that the reference makes of starts that it has not
// seen, as it will have to in predictions. Those of validation starts are fitted to all training
// starts, and that of the trained model to those of validation as well, as the baselines are with
// which it is compared. A nil crossFit is that of networks that correct none.
type crossFit struct {
	folds  []ensemble.Fold
	foldOf []int // of each training start, its fold
	all    *reference
	final  *reference   // of the trained model
	of     []*reference // [fold]
	err    error
}

// newCrossFit is a crossFit without fits, for the starts of a training.
//
// Errors: those of ensemble.GapFolds.
func newCrossFit(c *config.TrainConfig, inits []ensemble.Init) (*crossFit, error) {
	m := baseline.MethodByID(c.Model.Reference)
	if m == nil {
		return nil, nil
	}
	folds, err := ensemble.GapFolds(inits, c.Model.CrossFit.Folds, lastTarget(c), c.Model.CrossFit.Gap)
	if err != nil {
		return nil, err
	}
	x := &crossFit{folds: folds, foldOf: make([]int, len(inits)), all: &reference{method: m}, final: &reference{method: m}}
	for f, fold := range folds {
		x.of = append(x.of, &reference{method: m})
		for _, i := range fold.Out {
			x.foldOf[i] = f
		}
	}
	return x, nil
}

// add fits the next target, of which the first dates of a set are those of the training
// starts, and the others those of validation. An error is kept until share, as other ranks wait for it.
func (x *crossFit) add(target string, set *baseline.Set) {
	if x == nil || x.err != nil {
		return
	}
	every := make([]int, len(set.Valid))
	for i := range every {
		every[i] = i
	}
	fit := func(r *reference, dates []int) {
		f, err := r.method.Fit(datesOf(set, dates))
		if err != nil {
			x.err = cmp.Or(x.err, error(&exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s cannot be fitted to %d starts of %s", r.method.ID, len(dates), target),
				At: "model.reference", Why: err.Error(), Fix: "name another baseline, lower model.cross_fit.folds, or extend data.split.train", Err: err}))
		}
		r.fits = append(r.fits, f)
	}
	fit(x.all, every[:len(x.foldOf)])
	fit(x.final, every)
	for f, fold := range x.folds {
		fit(x.of[f], fold.In)
	}
}

// datesOf are some dates of a set, without members.
func datesOf(s *baseline.Set, dates []int) *baseline.Set {
	out, n := &baseline.Set{Weights: s.Weights}, s.Points()
	for _, i := range dates {
		out.Valid = append(out.Valid, s.Valid[i])
		out.Mean = append(out.Mean, s.Mean[i*n:(i+1)*n]...)
		out.Std = append(out.Std, s.Std[i*n:(i+1)*n]...)
		out.Obs = append(out.Obs, s.Obs[i*n:(i+1)*n]...)
	}
	return out
}

// share gives every rank the references on its slab, which the leading one has fitted.
//
// Errors: that of add; those of other ranks.
func (x *crossFit) share(ranks *team.Team) (*crossFit, error) {
	if x == nil {
		return nil, nil
	}
	if err := ranks.Together(x.err); err != nil || ranks.Own() == nil {
		return x, err
	}
	var parts [][]fitParts
	if ranks.Leads() {
		for _, r := range append([]*reference{x.all, x.final}, x.of...) {
			var fits []fitParts
			for _, f := range r.fits {
				fits = append(fits, partsOfFit(f))
			}
			parts = append(parts, fits)
		}
	}
	parts, err := team.FromLeader(ranks, parts)
	if err != nil {
		return nil, err
	}
	out := &crossFit{folds: x.folds, foldOf: x.foldOf}
	for i, fits := range parts {
		r := &reference{method: x.all.method}
		for _, p := range fits {
			r.fits = append(r.fits, p.fit(r.method))
		}
		switch r = r.within(ranks.Own(), ranks.Comm.Rank()); i {
		case 0:
			out.all = r
		case 1:
			out.final = r
		default:
			out.of = append(out.of, r)
		}
	}
	if !ranks.Leads() {
		x.all, x.final = out.all, out.final // stand for the whole ones, which only the leading rank saves
	}
	return out, nil
}

// whole is the reference of validation starts; nil for none.
func (x *crossFit) whole() *reference {
	if x == nil {
		return nil
	}
	return x.all
}

// trained is the reference of the trained model; nil for none.
func (x *crossFit) trained() *reference {
	if x == nil {
		return nil
	}
	return x.final
}

// task is a task with the reference of a training start.
func (x *crossFit) task(k *Task, start int) *Task {
	if x == nil {
		return k
	}
	own := *k
	own.reference = x.of[x.foldOf[start]]
	return &own
}
