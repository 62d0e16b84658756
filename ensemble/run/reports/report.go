package reports

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// Options are the inputs of [Write].
type Options struct {
	Dir string // run directory, or folder with scores.json
}

// Write writes report/index.html in a run directory, and each map beside it as PNG. It may be repeated at any
// time.
//
// Reads: scores.json, events.jsonl, environment.json and report/example.safetensors, as far as they exist.
// Errors: exit 66 if the folder contains nothing to report; 65 for damaged files; 73 and 74 for the output.
func Write(o Options) (path string, err error) {
	page, err := collectPage(o.Dir)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.Dir, "report")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", exit.CreateError(dir, err)
	}
	return filepath.Join(dir, PageFile), WritePage(dir, page)
}

// collectPage collects what a folder contains for the page.
func collectPage(dir string) (*report.Page, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, trained.MissingRunError(dir, err)
	}
	page := &report.Page{Title: "Report of " + filepath.Base(dir)}
	scores, err := trained.ReadScores(dir)
	if err != nil && exit.CodeOf(err) != exit.NotYet {
		return nil, err
	}
	page.Scores = scores
	show, err := scoring.LoadExample(dir)
	if err != nil {
		return nil, err
	}
	if show != nil {
		page.Panels = Panels(show)
	}
	if page.Charts, err = LossCharts(dir); err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(filepath.Join(dir, "config.effective.yaml")); err == nil {
		page.Config = string(text)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "environment.json")); err == nil {
		page.Facts = environmentFacts(text)
	}
	switch m, err := rundir.ReadManifest(dir); {
	case err == nil:
		page.Warnings = m.Warnings
		for _, f := range m.Inputs {
			page.Inputs = append(page.Inputs, report.File{Path: f.Path, Size: f.Size, SHA256: f.SHA256})
		}
		page.Status = append(page.Status, report.Fact{Name: "status", Text: m.Status}, report.Fact{Name: "finished", Text: m.End.UTC().Format("2006-01-02 15:04Z")},
			report.Fact{Name: "program", Text: m.Version})
	case errors.Is(err, os.ErrNotExist):
		page.Status = append(page.Status, report.Fact{Name: "status", Text: "not finished"})
	default:
		return nil, err
	}
	if show != nil {
		page.Status = append(page.Status,
			report.Fact{Name: "members", Text: fmt.Sprintf("%d used of %d, control %sd", show.Used, show.Full, show.Control)},
			report.Fact{Name: "forecast shown", Text: fmt.Sprintf("initialisation %s, %s", show.Init, show.Times())})
	}
	if page.Scores == nil && len(page.Panels) == 0 && len(page.Charts) == 0 {
		return nil, &exit.Error{Code: exit.NotYet, What: "nothing to report", At: dir,
			Why: "the folder contains no scores, map example or events", Fix: "give a run directory, or the folder of `ensemble verify --out`"}
	}
	return page, nil
}

// Panels lays out a map example: for each target its means, its spreads, and what the network changed.
func Panels(e *scoring.MapExample) []report.Panel {
	titles := map[string]string{
		scoring.ShowAnalysis: "analysis", scoring.ShowRawMean: fmt.Sprintf("mean of %d members", e.Used), scoring.ShowMean: "post-processed mean",
		scoring.ShowRawSpread: fmt.Sprintf("spread of %d members", e.Used), scoring.ShowFullSpread: fmt.Sprintf("spread of all %d members", e.Full),
		scoring.ShowEstimate: fmt.Sprintf("spread of %d estimated from %d", e.Full, e.Used), scoring.ShowSpread: "post-processed spread",
	}
	var out []report.Panel
	for i, f := range e.Fields {
		if i > 0 && e.Fields[i-1].Variable == f.Variable && e.Fields[i-1].Level == f.Level && e.Fields[i-1].Lead == f.Lead {
			continue
		}
		get := func(kind string) []float32 {
			for _, g := range e.Fields {
				if g.Variable == f.Variable && g.Level == f.Level && g.Lead == f.Lead && g.Kind == kind {
					return g.Values
				}
			}
			return nil
		}
		v, _ := ensemble.VariableNamed(f.Variable)
		valid := e.Init.Valid(cmp.Or(f.Lead, e.Lead))
		panel := func(what string, diverging bool, kinds ...string) {
			p := report.Panel{Title: fmt.Sprintf("%s at %s: %s", strings.ToUpper(v.LongName[:1])+v.LongName[1:], f.Level, what), Unit: v.Unit,
				Valid: valid, Diverging: diverging}
			for _, kind := range kinds {
				if values := get(kind); values != nil {
					p.Maps = append(p.Maps, report.Map{Title: titles[kind], Grid: e.Grid, Values: values})
				}
			}
			if len(p.Maps) > 0 {
				out = append(out, p)
			}
		}
		panel("mean", false, scoring.ShowRawMean, scoring.ShowMean, scoring.ShowAnalysis)
		panel("spread", false, scoring.ShowRawSpread, scoring.ShowEstimate, scoring.ShowFullSpread, scoring.ShowSpread)
		if mean, raw := get(scoring.ShowMean), get(scoring.ShowRawMean); mean != nil {
			p := report.Panel{Title: fmt.Sprintf("%s at %s: difference", strings.ToUpper(v.LongName[:1])+v.LongName[1:], f.Level), Unit: v.Unit,
				Valid: valid, Diverging: true}
			p.Maps = append(p.Maps, report.Map{Title: "post-processed minus raw mean", Grid: e.Grid, Values: Difference(mean, raw)})
			if obs := get(scoring.ShowAnalysis); obs != nil {
				p.Maps = append(p.Maps, report.Map{Title: "raw mean minus analysis", Grid: e.Grid, Values: Difference(raw, obs)},
					report.Map{Title: "post-processed mean minus analysis", Grid: e.Grid, Values: Difference(mean, obs)})
			}
			out = append(out, p)
		}
	}
	return out
}

// Difference returns a − b at each point.
func Difference(a, b []float32) []float32 {
	out := make([]float32, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

// LossCharts draws the losses of every network of a run over the epochs; nil for a folder without events.
//
// Errors: those of reading events.
func LossCharts(dir string) ([]report.Chart, error) {
	events, err := rundir.ReadEvents(dir)
	if exit.CodeOf(err) == exit.NotYet {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []report.Chart
	lines := map[string]int{}
	for _, e := range events {
		if e.Kind != "epoch" {
			continue
		}
		network, _ := e.Number("network")
		of := "Loss"
		if stage, staged := e.Text("stage"); staged { // losses of different stages are not comparable
			of += ": " + stage
		}
		at := slices.IndexFunc(all, func(c report.Chart) bool { return c.Title == of })
		if at < 0 {
			at = len(all)
			all = append(all, report.Chart{Title: of, X: "epoch", Y: "loss"})
		}
		c := &all[at]
		for _, curve := range []struct{ name, key string }{{"training", "loss"}, {"validation", "validation_loss"}} {
			y, ok := e.Number(curve.key)
			if !ok {
				continue
			}
			title := fmt.Sprintf("%s, network %d", curve.name, int(network)+1)
			at, ok := lines[title]
			if !ok {
				at = len(c.Lines)
				lines[title] = at
				c.Lines = append(c.Lines, report.Line{Name: title})
			}
			c.Lines[at].X, c.Lines[at].Y = append(c.Lines[at].X, float64(e.Epoch)), append(c.Lines[at].Y, y)
		}
	}
	return slices.DeleteFunc(all, func(c report.Chart) bool { return len(c.Lines) == 0 }), nil
}

// environmentFacts converts environment.json to lines.
func environmentFacts(text []byte) []report.Fact {
	var env rundir.Environment
	if json.Unmarshal(text, &env) != nil {
		return nil
	}
	facts := []report.Fact{{Name: "program", Text: env.Version}, {Name: "compiler", Text: env.Go}, {Name: "system", Text: env.System}, {Name: "host", Text: env.Host},
		{Name: "processors", Text: fmt.Sprint(env.CPUs)}, {Name: "threads", Text: fmt.Sprint(env.Threads)}, {Name: "seed", Text: fmt.Sprint(env.Seed)},
		{Name: "determinism", Text: env.Determinism}, {Name: "started", Text: env.Start.Format("2006-01-02 15:04:05Z")}}
	if d := env.Device; d != nil {
		facts = append(facts, report.Fact{Name: "GPU", Text: d.Name})
		if d.Driver != "" {
			facts = append(facts, report.Fact{Name: "driver", Text: d.Driver + ", CUDA " + d.CUDA})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env.Libraries)) {
		facts = append(facts, report.Fact{Name: name, Text: env.Libraries[name]})
	}
	return facts
}
