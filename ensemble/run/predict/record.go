package predict

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// results is the result so far.
type results struct {
	Result
	done map[ensemble.Init]bool // initialisations done
}

// addInit adds the outcome of an initialisation.
func (r *results) addInit(init ensemble.Init, one InitResult) {
	r.done[init] = true
	one.Init = init
	r.ByInit = append(r.ByInit, one)
	r.Inits++
	if one.Existing {
		r.Existing++
	}
	if one.Degraded {
		r.Degraded++
	}
	r.Outputs, r.Warnings = append(r.Outputs, one.Outputs...), append(r.Warnings, one.Warnings...)
}

// resultOf returns the outcome of an initialisation from its manifest. Warnings about the whole input are left out: they are
// reported once.
func (in *openInput) resultOf(init ensemble.Init, m *product.Manifest, warnings []string) (r InitResult) {
	if m == nil {
		return r
	}
	r = InitResult{Init: init, Existing: true, Degraded: m.Status == manifest.Degraded, Members: len(m.MembersUsed), Complete: m.MembersComplete, Expected: m.MembersExpected}
	if r.Degraded && warnings == nil {
		warnings = m.Warnings // the reasons recorded when it was made
	}
	r.Warnings = slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return w == in.otherModel || slices.Contains(in.p.unlikeRanks, w) })
	for _, name := range m.TopLevelOutputs() {
		r.Outputs = append(r.Outputs, filepath.Join(product.InitDir(in.p.options.Out, init), name))
	}
	return r
}

// reportPublished reports a published initialisation, and saves the baselines with the first one. They are not saved
// before, as a model that is refused must not replace the reference of another one.
func (in *openInput) reportPublished(q *product.Product, fc *initForecast, first bool) error {
	p := in.p
	if in.found.onExample != nil {
		in.found.onExample(scoring.PredictionExample(p.forecaster.model, scoring.Prediction{Init: q.Init, Used: q.Members, Control: q.Control, Fallback: q.Fallback != ""}, fc.stats, fc.out))
	}
	if !first || !p.forecaster.hasReference() {
		return nil
	}
	return p.forecaster.saveReference(p.options.Out)
}

// hasReference reports whether the model's baselines can be saved; files of a damaged model may be missing.
func (f *forecaster) hasReference() bool { return f.model.Task.Features.Fields != nil }

// completeReference saves the baselines if an earlier process published the products and ended before it
// saved them, or while it did, and removes what such a process left.
func (p *prediction) completeReference(first bool) error {
	f, out := p.forecaster, p.options.Out
	if !first || !f.hasReference() || !f.ranks.IsRoot() {
		return nil
	}
	_, saved := filesystem.Stat(filepath.Join(out, trained.ReferenceDir, model.File))
	_, locked := filesystem.Lstat(referenceLock(out))
	left, err := lease.HasTemporary(referenceLock(out), referenceStage)
	if err != nil {
		return exit.ReadError(out, err)
	}
	if !errors.Is(saved, fs.ErrNotExist) && errors.Is(locked, fs.ErrNotExist) && !left {
		return nil
	}
	return f.saveReference(out)
}

// referenceLock is the lease of the process that saves the baselines beside products.
func referenceLock(out string) string { return filepath.Join(out, "."+trained.ReferenceDir+".lock") }

// referenceStage is the prefix of the folder that becomes the one of the baselines.
const referenceStage = "." + trained.ReferenceDir + ".partial-"

// saveReference saves the baselines in the folder reference of the products, unless another process does so at the moment.
// The folder is written beside and exchanged with the old one, so that a link in its place is never followed.
//
// Errors: exit 73 if the folder is a symbolic link; those of lease.Take.
func (f *forecaster) saveReference(out string) (err error) {
	dir := filepath.Join(out, trained.ReferenceDir)
	if err := product.RefuseLink(dir); err != nil {
		return err
	}
	l, err := lease.Take(referenceLock(out), "the folder "+trained.ReferenceDir+" of the products")
	if errors.Is(err, lease.ErrHeld) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Release()) }()
	if err := atomicfile.RemoveTemporary(out, trained.ReferenceDir); err != nil { // of a killed process
		return exit.CreateError(dir, err)
	}
	stage, err := atomicfile.TempDir(out, referenceStage)
	if err != nil {
		return exit.CreateError(dir, err)
	}
	defer filesystem.RemoveAll(stage)
	if err := f.model.SaveDescription(stage); err != nil {
		return err
	}
	if err = atomicfile.ReplaceDir(stage, dir); errors.Is(err, errors.ErrUnsupported) {
		return f.model.SaveDescription(dir)
	}
	return exit.CreateError(dir, err)
}
