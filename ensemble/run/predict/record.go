package predict

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// record is the result so far, and of which inits.
type record struct {
	Result
	done map[ensemble.Init]bool
}

// published is what came of one init.
type published struct {
	Outputs, Warnings []string
	Already, Degraded bool
}

// add takes one init in.
func (r *record) add(init ensemble.Init, one published) {
	r.done[init] = true
	r.Cycles++
	if one.Already {
		r.Already++
	}
	if one.Degraded {
		r.Degraded++
	}
	r.Outputs, r.Warnings = append(r.Outputs, one.Outputs...), append(r.Warnings, one.Warnings...)
}

// publishedAs is what came of an init, from its manifest.
func publishedAs(root string, init ensemble.Init, m *product.Manifest, warnings []string) (r published) {
	if m == nil {
		return r
	}
	r = published{Warnings: warnings, Already: true, Degraded: m.Status == manifest.Degraded}
	if r.Degraded && warnings == nil {
		r.Warnings = m.Warnings // why it was, of the time when it was made
	}
	for _, name := range m.Tops() {
		r.Outputs = append(r.Outputs, filepath.Join(product.CycleDir(root, init), name))
	}
	return r
}

// show shows an init that was published to those who asked for it, and saves the baselines with the first: not before, as a
// refused model must not replace the reference of another.
func (in *opened) show(q *product.Product, fc *predicted, first bool) error {
	p, m := in.p, in.p.forecaster.model
	if in.found.shown != nil {
		in.found.shown(scoring.ExampleOfStart(m, q.Init, q.Members, q.Control, fc.stats, fc.out))
	}
	if !first || !p.forecaster.hasReference() {
		return nil
	}
	return m.SaveReference(filepath.Join(p.o.Out, trained.ReferenceDir))
}

// hasReference tells whether all is there of the baselines that are saved with products, as it is unless files of the model are damaged.
func (f *forecaster) hasReference() bool { return f.model.Task.Features.Fields != nil }

// completeReference saves the baselines with an init that is complete, where the process that published it ended before
// it had: by a full disk, or killed.
func (p *prediction) completeReference(first bool) error {
	f := p.forecaster
	dir := filepath.Join(p.o.Out, trained.ReferenceDir)
	if _, err := os.Stat(filepath.Join(dir, model.File)); !first || !errors.Is(err, fs.ErrNotExist) || !f.hasReference() || !f.ranks.Leads() {
		return nil
	}
	return f.model.SaveReference(dir)
}
