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
// Errors: 64 and 69 for a bound of the memory that is too small, with the least that
// will do; 65 and 66 for the input, 66 without a trained model, 73 and 74 for the
// output; what was published before an error stays valid. The folder "reference"
// in the root of the products gets the model without its weights, so that
// verification finds the baselines.
func Predict(ctx context.Context, o PredictOptions) (*PredictResult, error) {
	made, err := rundir.ReadManifest(o.RunDir)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(o.RunDir); errors.Is(err, os.ErrNotExist) {
			return nil, &exit.Error{Code: exit.NotYet, What: "no such run directory", At: o.RunDir,
				Fix: "correct the path, or train first: ensemble train -c FILE --run-dir " + o.RunDir, Err: err}
		}
		return nil, &exit.Error{Code: exit.NotYet, What: "the run is not finished", At: filepath.Join(o.RunDir, "manifest.json"),
			Why: "without a manifest the model may be incomplete", Fix: "finish the training: ensemble train … --run-dir " + o.RunDir + " --resume auto", Err: err}
	}
	if err != nil {
		return nil, err
	}
	modelDir := filepath.Join(o.RunDir, "model")
	m, err := LoadModel(modelDir)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	sums, err := manifest.Sum(o.Input...)
	if err != nil {
		return nil, err
	}
	modelSum, err := modelChecksum(modelDir)
	if err != nil {
		return nil, err
	}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	in, err := fio.Open(ctx, o.Input, fio.Options{Pool: pool})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	k := &m.Task
	forecasts, warnings, err := forecastsOf(ctx, in, k.Features.Axes, k.Used)
	if err != nil {
		return nil, err
	}
	if g := forecasts[0].Grid; !g.SameAs(m.Grid, gridTolerance) {
		return nil, gridsDiffer("the input", g, "the model", m.Grid, o.Input[0])
	}
	if !o.Cycle.IsZero() {
		if forecasts = slices.DeleteFunc(forecasts, func(f *ensemble.Forecast) bool { return !f.Init.Equal(o.Cycle) }); len(forecasts) == 0 {
			return nil, &exit.Error{Code: exit.NotYet, What: "the cycle is not in the input", At: ensemble.InitAt(o.Cycle).String(),
				Fix: "add its files, or leave --cycle out"}
		}
	}
	res := &PredictResult{Warnings: warnings}
	found := templates(in.Catalogue().Entries, k.Used)
	task := o.Progress.Start("predict", int64(len(forecasts)))
	defer task.Done()
	eo := o.engineOptions()
	defer o.Timings.save(eo.Timings)
	for i, fc := range forecasts {
		out, err := m.Predict(ctx, eo, fc)
		if err != nil {
			return nil, namedMemory(err, flagMemory, flagWorkspace)
		}
		pub := product.Publication{Formats: o.Formats, Overwrite: o.Overwrite, Options: o.Writer, Start: time.Now(),
			ConfigChecksum: made.ConfigChecksum}
		if out.Clipped > 0 {
			w := fmt.Sprintf("start %s: %d values of the spread of the full ensemble were below 0 and are 0", fc.Init, out.Clipped)
			pub.Warnings = append(pub.Warnings, w)
			res.Warnings = append(res.Warnings, w)
		}
		p := m.product(fc, out)
		p.Command, p.Version, p.ModelChecksum = o.Command, o.Version, modelSum
		p.Inputs = inputsOf(in.Catalogue(), fc.Init, sums)
		if err := addTemplates(p, in, found); err != nil {
			return nil, err
		}
		published, already, err := product.Publish(ctx, pool, o.Out, p, pub)
		if err != nil {
			return nil, err
		}
		if res.Cycles++; res.Cycles == 1 { // not before: a refused model must not replace the reference of another
			described := *m
			described.Networks = nil
			if err := described.Save(filepath.Join(o.Out, referenceDir)); err != nil {
				return nil, err
			}
		}
		if already {
			res.Already++
		}
		dir := product.CycleDir(o.Out, fc.Init)
		for _, f := range published.Outputs {
			res.Outputs = append(res.Outputs, filepath.Join(dir, f.Path))
		}
		task.Set(int64(i+1), fc.Init.String())
	}
	return res, nil
}

// engineOptions are those of a prediction's plan; the caller saves its timings.
func (o PredictOptions) engineOptions() engine.Options {
	e := engineOptions(o.Threads)
	e.Timings, e.Precision = o.Timings.open(o.Threads), o.Precision
	e.MemoryLimit, e.Workspace = o.MemoryBytes, o.WorkspaceBytes
	return e
}

// inputsOf lists the files that hold fields of a start, by name: what else was on
// the command line, in what order and in which folders, is no part of a product.
func inputsOf(c *ensemble.Catalogue, init ensemble.Init, sums []manifest.File) []manifest.File {
	holds := map[string]bool{}
	for _, e := range c.Entries {
		if e.Init == init {
			holds[e.File] = true
		}
	}
	var out []manifest.File
	for _, s := range sums {
		if holds[s.Path] {
			s.Path = filepath.Base(s.Path)
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b manifest.File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.SHA256, b.SHA256))
	})
	return out
}

// product makes the published fields of a prediction: for every target that was
// asked for its mean and spread, and the estimate of the full ensemble's spread.
func (m *Model) product(fc *ensemble.Forecast, out *Forecast) *product.Product {
	k, n, d := &m.Task, m.Grid.Size(), len(m.Task.Features.Axes.Levels)
	p := &product.Product{Init: fc.Init, Grid: fc.Grid, Metadata: product.Metadata{
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
