package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// PredictOptions says what to predict from and where to publish.
type PredictOptions struct {
	RunDir    string    // of a finished training
	Input     []string  // forecast files
	Out       string    // root of the products: one folder a cycle
	Cycle     time.Time // only this start; zero: every start of the input
	Formats   []product.Format
	Overwrite product.Overwrite
	Writer    product.Options
	Threads   int
	Timings   Timings // of kernels
	Precision string  // "f32", "bf16" or "bf16_products"; empty has that of the training
	// Mesh lays several ranks of an MPI job out over each start; empty, every rank predicts
	// whole starts.
	Mesh string
	// MemoryBytes bounds what a network's fields and the scratch of kernels take, and
	// WorkspaceBytes the scratch alone; 0 means no bound. They change no bit.
	MemoryBytes, WorkspaceBytes int64

	Command  string // for the history in the products
	Version  string
	Progress *progress.Reporter
}

// PredictResult says what was published.
type PredictResult struct {
	Outputs  []string // files, and the manifest of each cycle
	Cycles   int
	Already  int // cycles that were published before from the same input and model
	Warnings []string
}

// Predict turns the members of each start of the input into a distribution and
// publishes mean and spread. Starts without analyses are all it needs.
//
// Started by an MPI launcher, its ranks deal the starts out among themselves: each start
// is read, computed and published by one rank, or by the ranks of one mesh together. All
// ranks give the same result.
//
// Errors: 64 and 69 for a bound of the memory that is too small, with the least that
// will do; 65 and 66 for the input, 66 without a trained model, 71 for a rank that was
// lost, 73 and 74 for the output; what was published before an error stays valid. The
// folder "reference" in the root of the products gets the model without its weights, so
// that verification finds the baselines.
func Predict(ctx context.Context, o PredictOptions) (r *PredictResult, err error) {
	err = onCrew(o.Mesh, func(w crew) error {
		r, err = predictAs(ctx, o, w)
		return err
	})
	return r, err
}

// predictAs predicts as one rank of a crew.
func predictAs(ctx context.Context, o PredictOptions, w crew) (*PredictResult, error) {
	p := &prediction{o: o, ranks: w.share, sums: map[string]manifest.File{}}
	defer p.close()
	err := p.open(ctx)
	if err == nil {
		err = p.in.check(ctx, p.input, mine(w, p.inits))
	}
	if err := w.all.together(err); err != nil {
		return nil, err
	}
	if err := w.all.same("the program, the model, the input or the command line", p.identity()); err != nil {
		return nil, err
	}
	res := &PredictResult{Warnings: p.in.warnings}
	task := o.Progress.Start("predict", int64(len(p.inits)))
	defer task.Done()
	err = deal(ctx, w, len(p.inits), func(i int) (published, error) { return p.start(ctx, p.inits[i], i == 0) },
		func(i int, r published) error {
			res.Cycles++
			if r.Already {
				res.Already++
			}
			res.Outputs, res.Warnings = append(res.Outputs, r.Outputs...), append(res.Warnings, r.Warnings...)
			task.Set(int64(i+1), p.inits[i].String())
			return nil
		})
	if w.all.leads() {
		o.Timings.save(p.engine.Timings)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// prediction is what all starts of a Predict have in common.
type prediction struct {
	o         PredictOptions
	trained   *rundir.Manifest
	model     *Model
	modelSum  string
	ranks     *team // that predict one start together
	pool      *decode.Pool
	input     *fio.Input
	in        *selection
	inits     []ensemble.Init
	templates map[templateKey]ensemble.Entry
	sums      map[string]manifest.File // of the files that this rank has read so far
	engine    engine.Options
}

// open loads the model and looks through the input. close is called in any case.
func (p *prediction) open(ctx context.Context) (err error) {
	o := p.o
	if p.trained, err = finished(o.RunDir); err != nil {
		return err
	}
	modelDir := filepath.Join(o.RunDir, "model")
	if p.model, err = LoadModel(modelDir); err != nil {
		return err
	}
	p.model.ranks = p.ranks
	if p.modelSum, err = modelChecksum(modelDir); err != nil {
		return err
	}
	if p.pool, err = decode.NewPool(decode.Options{}); err != nil {
		return err
	}
	if p.input, err = fio.Open(ctx, o.Input, fio.Options{Pool: p.pool}); err != nil {
		return err
	}
	k := &p.model.Task
	if p.in, err = selectForecasts(p.input, k.Features.Axes, k.Used); err != nil {
		return err
	}
	if !p.in.grid.SameAs(p.model.Grid, gridTolerance) {
		return gridsDiffer("the input", p.in.grid, "the model", p.model.Grid).on(p.in.entries[0]).err()
	}
	p.inits = p.in.inits
	if !o.Cycle.IsZero() {
		if p.inits = slices.DeleteFunc(slices.Clone(p.inits), func(i ensemble.Init) bool { return !i.Equal(o.Cycle) }); len(p.inits) == 0 {
			return &exit.Error{Code: exit.NotYet, What: "the cycle is not in the input", At: ensemble.InitAt(o.Cycle).String(),
				Fix: "add its files, or leave --cycle out"}
		}
	}
	if p.ranks != nil {
		if err := p.ranks.layOut(p.model.Spec, p.model.Task, p.model.Grid, 1); err != nil {
			return err
		}
		p.model.local = p.model.Task.local(p.ranks.slab, p.ranks.slab.me)
	}
	p.templates = templates(p.input.Catalogue().Entries, k.Used)
	p.engine = o.engineOptions()
	return nil
}

func (p *prediction) close() {
	if p.input != nil {
		p.input.Close()
	}
	if p.pool != nil {
		p.pool.Close()
	}
	if p.model != nil {
		p.model.Close()
	}
}

// finished reads the manifest of a finished run.
//
// Errors: exit 66 if the run is not there, or not finished.
func finished(runDir string) (*rundir.Manifest, error) {
	m, err := rundir.ReadManifest(runDir)
	if !errors.Is(err, os.ErrNotExist) {
		return m, err
	}
	if _, err := os.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return nil, &exit.Error{Code: exit.NotYet, What: "no such run directory", At: runDir,
			Fix: "correct the path, or train first: ensemble train -c FILE --run-dir " + runDir, Err: err}
	}
	return nil, &exit.Error{Code: exit.NotYet, What: "the run is not finished", At: filepath.Join(runDir, "manifest.json"),
		Why: "without a manifest the model may be incomplete", Fix: "finish the training: ensemble train … --run-dir " + runDir + " --resume auto", Err: err}
}

// identity is what all ranks must have alike. Files are told apart by their names and
// the starts in them; each is read, and its checksum made, by the ranks that need it.
func (p *prediction) identity() string {
	return fmt.Sprint(p.o.Version, p.modelSum, p.trained.ConfigChecksum, p.o.Input, p.o.Out, p.o.Formats, p.o.Overwrite, p.o.Writer, p.o.Precision, p.inits)
}

// published is what came of one start.
type published struct {
	Outputs, Warnings []string
	Already           bool
}

// start predicts and publishes one start. With the first one, the model's baselines are
// published too.
func (p *prediction) start(ctx context.Context, init ensemble.Init, first bool) (r published, err error) {
	forecasts, warnings, err := p.in.read(ctx, p.input, []ensemble.Init{init}, p.ranks)
	if err := p.ranks.together(err); err != nil {
		return r, err
	}
	if p.ranks != nil {
		ctx = context.WithoutCancel(ctx) // the others would wait
	}
	m := p.model
	begun := time.Now()
	out, err := m.Predict(ctx, p.engine, forecasts[0])
	if err != nil {
		return r, namedMemory(err, flagMemory, flagWorkspace)
	}
	if !p.ranks.leads() {
		return r, nil
	}
	pub := product.Publication{Formats: p.o.Formats, Overwrite: p.o.Overwrite, Options: p.o.Writer, Start: begun,
		ConfigChecksum: p.trained.ConfigChecksum, Warnings: warnings}
	if out.Clipped > 0 {
		pub.Warnings = append(pub.Warnings, fmt.Sprintf("start %s: %d values of the spread of the full ensemble were below 0 and are 0", init, out.Clipped))
	}
	q := m.product(init, p.in.grid, out)
	q.Command, q.Version, q.ModelChecksum = p.o.Command, p.o.Version, p.modelSum
	if q.Inputs, err = p.inputsOf(init); err != nil {
		return r, err
	}
	if err := addTemplates(q, p.input, p.templates); err != nil {
		return r, err
	}
	made, already, err := product.Publish(ctx, p.pool, p.o.Out, q, pub)
	if err != nil {
		return r, err
	}
	if first { // not before: a refused model must not replace the reference of another
		described := *m
		described.Networks = nil
		if err := described.Save(filepath.Join(p.o.Out, referenceDir)); err != nil {
			return r, err
		}
	}
	r = published{Warnings: pub.Warnings, Already: already}
	for _, f := range made.Outputs {
		r.Outputs = append(r.Outputs, filepath.Join(product.CycleDir(p.o.Out, init), f.Path))
	}
	return r, nil
}

// inputsOf lists the files that hold fields of a start, by name: what else was on
// the command line, in what order and in which folders, is no part of a product.
func (p *prediction) inputsOf(init ensemble.Init) ([]manifest.File, error) {
	var out []manifest.File
	seen := map[string]bool{}
	for _, e := range p.input.Catalogue().Entries {
		if e.Init != init || seen[e.File] {
			continue
		}
		seen[e.File] = true
		s, ok := p.sums[e.File]
		if !ok {
			sums, err := manifest.Sum(e.File)
			if err != nil {
				return nil, err
			}
			s = sums[0]
			p.sums[e.File] = s
		}
		s.Path = filepath.Base(s.Path)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b manifest.File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.SHA256, b.SHA256))
	})
	return out, nil
}

// engineOptions are those of a prediction's plan; the caller saves its timings.
func (o PredictOptions) engineOptions() engine.Options {
	e := engineOptions(o.Threads)
	e.Timings, e.Precision = o.Timings.open(o.Threads), o.Precision
	e.MemoryLimit, e.Workspace = o.MemoryBytes, o.WorkspaceBytes
	return e
}

// product makes the published fields of a prediction: for every target that was
// asked for its mean and spread, and the estimate of the full ensemble's spread.
func (m *Model) product(init ensemble.Init, grid *ensemble.Grid, out *Forecast) *product.Product {
	k, n, d := &m.Task, m.Grid.Size(), len(m.Task.Features.Axes.Levels)
	p := &product.Product{Init: init, Grid: grid, Metadata: product.Metadata{
		Title:        "Post-processed ensemble forecast: mean and spread",
		Source:       fmt.Sprintf("ensemble %s, network %s on %d members", m.Version, m.Spec.Kind, len(k.Used)),
		References:   "Grönquist et al. 2021, doi:10.1098/rsta.2020.0092",
		ForecastType: "post-processed ensemble",
		Members:      k.Used, DDOF: k.Features.DDOF, Control: m.Control,
	}}
	for at := range k.Score {
		if k.Score[at] == 0 {
			continue
		}
		add := func(kind product.Kind, values []float32) {
			if values != nil {
				p.Fields = append(p.Fields, product.Field{Variable: k.Targets[at/d], Level: k.Features.Axes.Levels[at%d],
					Lead: k.TargetLead, Kind: kind, Values: values[at*n : (at+1)*n]})
			}
		}
		add(product.Mean, out.Mean)
		add(product.Spread, out.Sigma)
		add(product.EnsembleSpread, out.Spread)
	}
	return p
}

// templateKey says which fields of a product one GRIB message serves.
type templateKey struct {
	init     ensemble.Init
	variable string
	level    ensemble.Level
	lead     ensemble.Lead
}

// templates finds for every start, variable, level and lead the GRIB message of
// the first used member, so that centre, tables and times of the output are the
// input's.
func templates(entries []ensemble.Entry, used []ensemble.Member) map[templateKey]ensemble.Entry {
	out := map[templateKey]ensemble.Entry{}
	for _, e := range entries {
		if e.Length == 0 || e.Product != ensemble.MemberField || !slices.Contains(used, e.Member) {
			continue
		}
		k := templateKey{e.Init, e.Variable, e.Level, e.Lead}
		if have, ok := out[k]; !ok || e.Member < have.Member {
			out[k] = e
		}
	}
	return out
}

// addTemplates reads the messages that a product is made like.
func addTemplates(p *product.Product, in *fio.Input, found map[templateKey]ensemble.Entry) error {
	for i := range p.Fields {
		f := &p.Fields[i]
		e, ok := found[templateKey{p.Init, f.Variable, f.Level, f.Lead}]
		if !ok {
			continue // of NetCDF files
		}
		var err error
		if f.Template, err = in.Message(e); err != nil {
			return err
		}
	}
	return nil
}

// modelChecksum is one checksum for all files of a model.
func modelChecksum(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", &exit.Error{Code: exit.NotYet, What: "no trained model", At: dir, Why: err.Error(), Fix: "train first: ensemble train -c FILE --run-dir DIR", Err: err}
	}
	var files []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	sums, err := manifest.Sum(files...)
	if err != nil {
		return "", err
	}
	return "sha256:" + manifest.Identity("", "", sums), nil
}
