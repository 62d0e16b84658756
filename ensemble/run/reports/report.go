package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// Options are the inputs of [Write].
type Options struct {
	Dir string // run directory, or folder with scores.json
}

// Write writes report/index.html in a run directory, with further files if it has many variables and leads, and each map
// beside it as PNG. It may be repeated at any
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
	if err := filesystem.MkdirAll(dir, 0o755); err != nil {
		return "", exit.CreateError(dir, err)
	}
	return filepath.Join(dir, PageFile), WritePage(dir, page)
}

// collectPage collects what a folder contains for the page.
func collectPage(dir string) (*report.Page, error) {
	if _, err := filesystem.Stat(dir); errors.Is(err, os.ErrNotExist) {
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
		page.Panels, page.Places = Panels(show), PlacePanels(show)
	}
	if page.Charts, err = LossCharts(dir); err != nil {
		return nil, err
	}
	if text, err := filesystem.ReadFile(filepath.Join(dir, "config.effective.yaml")); err == nil {
		page.Config = string(text)
	}
	if text, err := filesystem.ReadFile(filepath.Join(dir, "environment.json")); err == nil {
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
	case errors.Is(err, os.ErrNotExist) && page.Config == "": // a folder of verify
	case errors.Is(err, os.ErrNotExist):
		page.Status = append(page.Status, report.Fact{Name: "status", Text: "not finished"})
	default:
		return nil, err
	}
	if show != nil && show.HasForecast() {
		page.Status = append(page.Status,
			report.Fact{Name: "members", Text: fmt.Sprintf("%d used of %d, %s", show.Used, show.Full, ensemble.DescribeControl(show.Control))},
			report.Fact{Name: "forecast shown", Text: fmt.Sprintf("initialisation %s, %s", show.Init, show.Times())})
	}
	if page.Scores == nil && len(page.Panels) == 0 && len(page.Places) == 0 && len(page.Charts) == 0 {
		return nil, &exit.Error{Code: exit.NotYet, What: "nothing to report", At: dir,
			Why: "the folder contains no scores, map example or events", Fix: "give a run directory, or the folder of `ensemble verify --out`"}
	}
	return page, nil
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

// WritePublic writes the scores, maps and losses of a run as a page into a folder. It has no path, host name or
// configuration, so that it can be published.
//
// Errors: as Write.
func WritePublic(dir, to string) error {
	page, err := collectPage(dir)
	if err != nil {
		return err
	}
	page.Config, page.Facts, page.Inputs, page.Warnings = "", nil, nil, nil
	if err := filesystem.MkdirAll(to, 0o755); err != nil {
		return exit.CreateError(to, err)
	}
	return WritePage(to, page)
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
