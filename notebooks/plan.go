package notebooks

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Plan is a step as the engine compiled it: the graph after every pass, the kernels, the
// memory.
type Plan struct {
	*explain.Result
}

// Plan compiles the step of a run's training again, as `ensemble engine explain` does;
// nothing is trained.
//
// Errors: those of the run directory and its data; 64 and 69 as training has them.
func (r *Run) Plan() (*Plan, error) {
	c, err := r.config()
	if err != nil {
		return nil, err
	}
	return runJob(func(ctx context.Context, _ job) (*Plan, error) {
		e, err := explain.Run(ctx, explain.Options{Config: c, RunDir: r.Dir})
		return &Plan{e}, err
	})
}

// MustPlan is Plan, and ends the cell on an error.
func (r *Run) MustPlan() *Plan { return must(r.Plan()) }

// config is the configuration of the run.
func (r *Run) config() (*config.TrainConfig, error) {
	return config.LoadTrain(config.Sources{Files: []string{filepath.Join(r.Dir, "config.effective.yaml")}})
}

// Passes says what each pass of the compiler left.
func (p *Plan) Passes() *Table {
	t := &Table{Section: answer.Section{Title: p.Network, Columns: slices.Concat(answer.TextColumns("pass", "what it does"), answer.NumberColumns("", "operations"), answer.NumberColumns("%.2f", "work (MFLOP)", "moved (MB)", "arena (MB)"))}}
	mega := func(n int64) float64 { return float64(n) / 1e6 }
	for i, s := range p.PassReports {
		if i > 0 && len(s.Changes) == 0 && s.ArenaBytes == p.PassReports[i-1].ArenaBytes {
			continue
		}
		t.Rows = append(t.Rows, []any{s.Name(), s.Purpose, s.Ops, mega(s.FLOPs), mega(s.Bytes), mega(s.ArenaBytes)})
	}
	return t
}

// Graph draws the graph after a pass, as the passes' table names it, with what the pass
// made outlined; "" is the graph before all of them. Graphviz draws it.
//
// Errors, kept in the picture: 64 for a pass that did not run, 69 if Graphviz is not installed.
func (p *Plan) Graph(after string) *Picture {
	var text bytes.Buffer
	if err := p.WriteDOT(&text, after); err != nil {
		return &Picture{err: err}
	}
	cmd := exec.Command("dot", "-Tsvg", "-Gsize=9,60")
	cmd.Stdin = &text
	svg, err := cmd.Output()
	if err != nil {
		err = &exit.Error{Code: exit.NoDevice, What: "Graphviz did not draw the graph", Why: err.Error(), Fix: "install the program dot: apt-get install graphviz", Err: err}
	}
	return &Picture{Title: "graph " + cmp.Or(after, "as built"), SVG: svg, err: err}
}

// Memory draws the arena over the step: every value at its place, from the first to the
// last kernel that needs it.
func (p *Plan) Memory() *Picture { return pictureOf(p.MemoryPicture()) }

// Time draws the kernels one after the other, as long as the machine needs at least.
func (p *Plan) Time() *Picture { return pictureOf(p.TimePicture()) }

// Kernels lists the n kernels of the step that the machine needs longest for, in the
// order in which they run. The operation says in which layout it reads and writes.
func (p *Plan) Kernels(n int) *Table {
	order := make([]int, len(p.Ops))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Ops[b].BoundS, p.Ops[a].BoundS) })
	order = order[:min(n, len(order))]
	slices.Sort(order)
	t := &Table{Section: answer.Section{Title: fmt.Sprintf("%d of %d kernels of %s", len(order), len(p.Ops), p.Backend),
		Columns: slices.Concat(answer.NumberColumns("", "#"), answer.TextColumns("operation", "of", "shape", "kernel"), answer.NumberColumns("%.2f", "work (MFLOP)", "moved (MB)"),
			answer.NumberColumns("%.1f", "at least (µs)"), answer.TextColumns("bound by"), answer.NumberColumns("", "arena at (kB)"))}}
	for _, i := range order {
		o := p.Ops[i]
		at := o.Where
		if at == "arena" {
			at = strconv.FormatInt(o.Offset/1000, 10)
		}
		t.Rows = append(t.Rows, []any{i, o.Op, o.Layer, o.Shape, o.Kernel, float64(o.FLOPs) / 1e6, float64(o.Bytes) / 1e6, 1e6 * o.BoundS, o.Bound, at})
	}
	return t
}
