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
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// Plan is a compiled training step: the graph after each pass, the kernels and the memory plan.
type Plan struct {
	*explain.Result
	err error
}

// Err returns the error of a step that MustPlan could not compile in a declaration, or nil. The other methods store
// this error.
func (p *Plan) Err() error { return p.err }

func (p *Plan) setErr(err error) { p.Result, p.err = &explain.Result{}, err }

// Plan compiles the training step of a run, as `ensemble engine explain` does. It does not train.
//
// Errors: errors of the run directory and its data; 64 and 69 as in training.
func (r *Run) Plan() (*Plan, error) {
	c, err := r.config()
	if err != nil {
		return nil, err
	}
	return runJob(func(ctx context.Context, _ job) (*Plan, error) {
		e, err := explain.Run(ctx, explain.Options{Config: c, RunDir: r.Dir})
		return &Plan{Result: e}, err
	})
}

// MustPlan calls Plan and ends the cell on an error.
func (r *Run) MustPlan() *Plan { return must(r.Plan()) }

// config loads the effective configuration of the run.
func (r *Run) config() (*config.TrainConfig, error) {
	if r.err != nil {
		return nil, r.err
	}
	return config.LoadTrain(config.Sources{Files: []string{filepath.Join(r.Dir, "config.effective.yaml")}})
}

// Passes returns a table of the compiler passes: the number of operations, the work and the memory
// after each pass. Passes without changes are omitted.
func (p *Plan) Passes() *Table {
	if p.err != nil {
		return &Table{err: p.err}
	}
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

// Graph draws the graph after a pass and outlines the operations that the pass changed. after is a
// name in the table of Passes, or "" for the graph before the first pass. It needs Graphviz.
//
// Errors, stored in the picture: 64 for a pass that did not run, 69 if Graphviz is not installed.
func (p *Plan) Graph(after string) *Picture {
	if p.err != nil {
		return &Picture{err: p.err}
	}
	var text bytes.Buffer
	if err := p.WriteDOT(&text, after); err != nil {
		return &Picture{err: err}
	}
	cmd := exec.Command("dot", "-Tsvg", "-Gsize=9,60")
	cmd.Stdin = &text
	svg, err := cmd.Output()
	if err != nil {
		err = &exit.Error{Code: exit.NoDevice, What: "Graphviz failed", Why: err.Error(), Fix: "install the program dot: apt-get install graphviz", Err: err}
	}
	return &Picture{Title: "graph " + cmp.Or(after, "as built"), SVG: svg, err: err}
}

// Memory draws the memory plan of the step: each value with its offset in the arena and its
// lifetime, from the first to the last kernel that uses it.
func (p *Plan) Memory() *Picture { return p.picture(p.MemoryPicture) }

// Time draws the kernels in sequence with the lower bounds of their run times.
func (p *Plan) Time() *Picture { return p.picture(p.TimePicture) }

func (p *Plan) picture(draw func() report.Picture) *Picture {
	if p.err != nil {
		return &Picture{err: p.err}
	}
	return pictureOf(draw())
}

// Kernels returns a table of the n kernels with the largest lower bounds of the run time, in the
// order of execution. The column "operation" contains the layouts of input and output.
func (p *Plan) Kernels(n int) *Table {
	if p.err != nil {
		return &Table{err: p.err}
	}
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
