package task

import (
	"encoding/json"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// Reference is the forecast that a network corrects: a baseline with a normal distribution, fitted
// independently to each target.
type Reference struct {
	Method *baseline.Method
	Fits   []baseline.Fit // [target]
}

// SetReference sets the reference that the network corrects; nil for none.
func (k *Task) SetReference(r *Reference) { k.reference = r }

// Reference returns the reference that the network corrects; nil for none.
func (k *Task) Reference() *Reference { return k.reference }

// ReferenceFile is the name of the reference's file in a model folder.
const ReferenceFile = "reference.safetensors"

// missingSigma is the sigma at points where the reference is missing, for example without
// climatology; the shift is 0 there. minSigma is the smallest sigma, so that its logarithm is
// finite. Both are in units of the error scale.
const (
	missingSigma = 1
	minSigma     = 0.01
)

// fillBatch writes the reference of a target at offset out of a batch: the shift of its mean from the
// members' mean, and its standard deviation.
//
// Unit: the error scale; perUnit is 1/error scale. st are the statistics of the members, with
// divisor M−1.
// Missing: shift 0 and sigma missingSigma.
func (r *Reference) fillBatch(b *Batch, at, out int, valid ensemble.Valid, st Statistics, perUnit float32) {
	y := r.Fits[at].Forecast(baseline.Raw{Valid: valid.Time, Mean: st.Mean, Std: st.Std})
	for q, mean := range y[0] {
		shift, sigma := (mean-st.Mean[q])*perUnit, y[1][q]*perUnit
		if shift-shift != 0 || sigma-sigma != 0 {
			shift, sigma = 0, missingSigma
		}
		b.ReferenceShift[out+q], b.ReferenceSigma[out+q] = shift, max(sigma, minSigma)
	}
}

// ForRank returns the reference of a rank, restricted to its slab. A nil slab is the whole grid.
func (r *Reference) ForRank(s *team.Shard, rank int) *Reference {
	if r == nil || s == nil {
		return r
	}
	out := &Reference{Method: r.Method}
	w := s.WindowOf(rank)
	for _, f := range team.SelectLevels(r.Fits, s, rank) {
		parts := SplitFit(f)
		for i, a := range f.Arrays() {
			if !a.Pooled {
				parts.F64[i], parts.F32[i] = sliceTerms(parts.F64[i], a.Terms, s.Grid, w), sliceTerms(parts.F32[i], a.Terms, s.Grid, w)
			}
		}
		out.Fits = append(out.Fits, parts.Fit(r.Method))
	}
	return out
}

// sliceTerms selects a window from an array with a number of terms for each point of a grid.
func sliceTerms[T float32 | float64](x []T, terms int, g *ensemble.Grid, w ensemble.Window) []T {
	if len(x) == 0 || g.IsWhole(w) {
		return x
	}
	points := make([]int, g.Size())
	for p := range points {
		points[p] = p
	}
	var out []T
	for _, p := range ensemble.CropField(points, g, w) {
		out = append(out, x[p*terms:(p+1)*terms]...)
	}
	return out
}

// FitParts is a fit split into its JSON text and its arrays, which can be cut to a slab and sent to
// other ranks.
type FitParts struct {
	Text []byte
	F64  [][]float64
	F32  [][]float32
}

// SplitFit splits a fit. The arrays are not copied.
func SplitFit(f baseline.Fit) FitParts {
	text, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("encoding a fit: %v", err)) // a struct of numbers always encodes
	}
	arrays := f.Arrays()
	p := FitParts{text, make([][]float64, len(arrays)), make([][]float32, len(arrays))}
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

// Fit joins the parts to a fit of a method.
func (p FitParts) Fit(m *baseline.Method) baseline.Fit {
	f := m.Empty()
	if err := json.Unmarshal(p.Text, f); err != nil {
		panic(fmt.Sprintf("decoding a fit: %v", err))
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

// Save writes the reference, if there is one.
//
// Errors: as SaveBaselines.
func (r *Reference) Save(path string) error {
	if r == nil {
		return nil
	}
	all := make([]Baselines, len(r.Fits))
	for i, f := range r.Fits {
		all[i].Fits = []Baseline{{r.Method, f}}
	}
	return SaveBaselines(path, all)
}

// LoadReference reads the reference of a model: fits of a method for all targets of a task, on a
// grid with the given number of points.
//
// Errors: exit 65 if it is missing or does not match the model, and as LoadBaselines.
func LoadReference(path, method string, k *Task, points int) (*Reference, error) {
	all, err := LoadBaselines(path, points)
	if err != nil {
		return nil, err
	}
	r := &Reference{Method: baseline.MethodByID(method)}
	for _, b := range all {
		if len(b.Fits) == 1 && b.Fits[0].Method == r.Method {
			r.Fits = append(r.Fits, b.Fits[0].Fit)
		}
	}
	if want := len(k.Targets) * len(k.Features.Axes.Levels); r.Method == nil || len(r.Fits) != want {
		return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the model folder lacks the reference %q for all %d targets", method, want),
			At: path, Fix: "train again, or copy the whole folder again"}
	}
	return r, nil
}
