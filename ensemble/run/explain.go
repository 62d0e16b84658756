package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// ExplainOptions says which plan to explain and how.
type ExplainOptions struct {
	Config *config.TrainConfig
	// Mode is "train" for the step of a training (also if empty), or "predict".
	Mode string
	// Crop is the size of the field. The zero value takes the grid of the forecast
	// files, of which only the catalogue is read.
	Crop   Crop
	Device string // "cpu" (also if empty), "cuda" or "auto"; a training has train.device
	// Threads of a prediction, 0 for all; a training has train.threads.
	Threads int
	// MemoryBytes bounds arena and scratch together, and WorkspaceBytes the scratch
	// alone. 0 means train.memory and train.workspace for a training, and no bound for
	// a prediction, which does not know these keys.
	MemoryBytes, WorkspaceBytes int64
	Timings                     Timings // of kernels
	// Pass restricts the report to one pass, with every value that it changed.
	Pass string
	// DumpAfter asks for the graph after this pass as text.
	DumpAfter string
	// Peaks of the machine; rates that are 0 are measured first.
	Peaks engine.Peaks
	HTML  string // file of the picture; empty for none
	// RunDir is that of a finished training with the configuration: the network is the one without the
	// channels that it removed, and predictions are in int8 if it was quantised. Empty has the whole one.
	RunDir string

	kept []channels.Kept
	int8 map[string]*op.Int8
}

// ExplainResult is the explained plan.
type ExplainResult struct {
	Mode    string `json:"mode"`
	Network string `json:"network"`
	// Precision and the bounds of the memory, 0 for none, that the plan was made with.
	Precision      string `json:"precision"`
	MemoryBytes    int64  `json:"memory_bytes,omitempty"`
	WorkspaceBytes int64  `json:"workspace_bytes,omitempty"`
	*engine.Explanation
	// Graph is the text of the graph after the pass of DumpAfter.
	Graph   string   `json:"graph,omitempty"`
	Outputs []string `json:"-"`

	pass string // of ExplainOptions
}

// Explain compiles the network of a configuration as Train or Predict does and
// says what every pass made of it and what the plan is. Nothing is trained, and
// no field is read; kernels whose times are not known are timed. A training's plan
// is that of one rank alone, whatever train.mesh says.
//
// Errors: 64 for an unknown pass or mode and a size that the network cannot
// have, 64 and 69 for a bound of the memory that is too small, with the least that
// will do, 65 and 66 for the forecast files if their grid is needed, 69 without the
// device, 73 and 74 for the picture.
func Explain(ctx context.Context, o ExplainOptions) (*ExplainResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.RunDir != "" {
		m, _, err := model.LoadReference(filepath.Join(o.RunDir, "model"))
		if err != nil {
			return nil, err
		}
		o.kept, o.int8 = m.Spec.Kept, m.Int8
	}
	grid, err := o.grid(ctx)
	if err != nil {
		return nil, err
	}
	if k := unfitted(taskOf(o.Config)); o.kept == nil {
		if o.kept, err = startChannels(o.Config, &k, grid); err != nil {
			return nil, err
		}
	}
	s := o.subject()
	g, err := s.spec.Graph(&s.task, grid, s.batch, s.seed, s.loss)
	if err != nil {
		return nil, err
	}
	if o.Peaks.FLOPs == 0 || o.Peaks.Bytes == 0 {
		measured, err := MeasurePeak(ctx, s.options.Threads)
		if err != nil {
			return nil, err
		}
		o.Peaks.FLOPs = cmp.Or(o.Peaks.FLOPs, measured.engine().FLOPs)
		o.Peaks.Bytes = cmp.Or(o.Peaks.Bytes, measured.engine().Bytes)
	}
	e, err := engine.Explain(g, s.options, o.Peaks)
	if err != nil {
		return nil, namedMemory(err, s.memory, s.workspace)
	}
	o.Timings.save(s.options.Timings)
	r := &ExplainResult{Mode: o.Mode, Network: s.describe(grid), Precision: s.options.Precision,
		MemoryBytes: s.options.Memory.Limit, WorkspaceBytes: s.options.Workspace, Explanation: e, pass: o.Pass}
	if o.DumpAfter != "" {
		var b strings.Builder
		if err := r.Stages[r.stageAfter(o.DumpAfter)].Graph.WriteText(&b); err != nil {
			return nil, err
		}
		r.Graph = b.String()
	}
	if o.HTML != "" {
		var b bytes.Buffer
		if err := r.WriteHTML(&b); err != nil {
			return nil, err
		}
		if err := exit.Create(o.HTML, atomicfile.WriteFile(o.HTML, b.Bytes())); err != nil {
			return nil, err
		}
		r.Outputs = append(r.Outputs, o.HTML)
	}
	return r, nil
}

// stageAfter is the place among the stages of the one after a pass that check has
// found in the list. It is not the first, which is before all passes.
func (r *ExplainResult) stageAfter(name string) int {
	return slices.IndexFunc(r.Stages, func(s engine.Stage) bool { return s.Pass == name })
}

// check completes the options.
func (o *ExplainOptions) check() error {
	o.Mode = cmp.Or(o.Mode, "train")
	if o.Mode != "train" && o.Mode != "predict" {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("there is no mode %q", o.Mode), At: "--mode", Fix: "give train or predict"}
	}
	if o.Crop != (Crop{}) && (o.Crop.Height < 1 || o.Crop.Width < 1) {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a field of %d by %d points", o.Crop.Height, o.Crop.Width), Fix: "give two numbers above 0, rows and columns"}
	}
	if o.MemoryBytes < 0 || o.WorkspaceBytes < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a memory of %d bytes, %d of them scratch", o.MemoryBytes, o.WorkspaceBytes),
			Fix: "give bounds above 0, or 0 for those of the configuration"}
	}
	if o.Peaks.FLOPs < 0 || o.Peaks.Bytes < 0 {
		return &exit.Error{Code: exit.Usage, What: "a peak below 0", Fix: "give rates above 0, or none to have them measured"}
	}
	var names []string
	for _, p := range pass.List {
		names = append(names, p.Name)
	}
	for _, f := range []struct{ flag, name string }{{"--pass", o.Pass}, {"--dump-after", o.DumpAfter}} {
		if f.name == "" || slices.Contains(names, f.name) {
			continue
		}
		fix := "`ensemble engine passes` lists the passes"
		if near := nearest.Find(f.name, names); near != "" {
			fix = "did you mean `" + near + "`?"
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("there is no pass %q", f.name), At: f.flag, Fix: fix}
	}
	return nil
}

// subject is what Train or Predict compiles.
type subject struct {
	spec    model.Spec
	task    model.Task
	batch   int
	seed    uint64
	loss    bool
	options engine.Options
	// memory and workspace say where the bounds are set.
	memory, workspace bound
}

// subject gives the step of the first network of a training, or the prediction.
func (o *ExplainOptions) subject() subject {
	s := subject{spec: specOf(o.Config), task: unfitted(taskOf(o.Config)), batch: 1, memory: flagMemory, workspace: flagWorkspace}
	s.spec.Kept = o.kept
	if o.Mode == "predict" {
		s.options = inference{threads: o.Threads, device: o.Device, timings: o.Timings, memory: o.MemoryBytes, workspace: o.WorkspaceBytes}.options()
		s.options.Mode, s.options.Consume, s.options.Int8 = engine.Infer, true, o.int8
	} else {
		c := o.Config.Train.Train
		s.batch, s.seed, s.loss = c.BatchSize, uint64(c.Seed), true
		if o.MemoryBytes == 0 {
			s.memory = trainMemory
		}
		if o.WorkspaceBytes == 0 {
			s.workspace = trainWorkspace
		}
		c.Memory, c.Workspace = cmp.Or(config.Bytes(o.MemoryBytes), c.Memory), cmp.Or(config.Bytes(o.WorkspaceBytes), c.Workspace)
		s.options = trainOptions(c, o.Timings.open(c.Threads))
	}
	s.options = s.spec.Options(s.options)
	return s
}

// unfitted is a task with some numbers in place of those that a training fits to
// data. They are constants of the graph and do not change its form, as long as none
// is 0 or 1 and no two are equal: the compiler merges equal constants.
func unfitted(k model.Task) model.Task {
	k.SpreadRange = 1.3
	for i := range len(k.Targets) * len(k.Features.Axes.Levels) {
		x := float64(i)
		k.ErrorScale, k.SpreadScale = append(k.ErrorScale, 1.1+x), append(k.SpreadScale, 1.7+x)
		k.SpreadAffine = append(k.SpreadAffine, [2]float64{0.3 + x, 0.9 + x})
	}
	return k
}

// describe names the network, its batch and what bounds its plan.
func (s *subject) describe(grid *ensemble.Grid) string {
	text := s.spec.Kind
	if s.spec.Kind == "unet3d" {
		text += fmt.Sprintf(" base %d, %d stages", s.spec.Base, s.spec.Stages)
	}
	if n := len(s.spec.Kept); n > 0 {
		text += fmt.Sprintf(", without channels of %d layers", n)
	}
	text += fmt.Sprintf(", %s head, %d channels, depth %d, field %d×%d, batch %d, %s", s.spec.Head, s.task.Features.Channels(),
		len(s.task.Features.Axes.Levels), grid.NY, grid.NX, s.batch, s.options.Precision)
	if s.options.Memory.Limit > 0 {
		text += fmt.Sprintf(", memory %v", config.Bytes(s.options.Memory.Limit))
	}
	if s.options.Workspace > 0 {
		text += fmt.Sprintf(", workspace %v", config.Bytes(s.options.Workspace))
	}
	return text
}

// grid is that of a piece, or of the forecast files by their catalogue.
func (o *ExplainOptions) grid(ctx context.Context) (*ensemble.Grid, error) {
	if o.Crop != (Crop{}) { // longitudes of a piece do not close
		return &ensemble.Grid{Kind: ensemble.Projected, NY: o.Crop.Height, NX: o.Crop.Width}, nil
	}
	grid, err := gridOf(ctx, o.Config)
	return grid, orCrop(err)
}

// gridOf is the grid of the store, or of the forecast files by their catalogue.
func gridOf(ctx context.Context, c *config.TrainConfig) (*ensemble.Grid, error) {
	if c.Data.Store != "" {
		return storeGrid(ctx, string(c.Data.Store))
	}
	files, err := filesOf("data.forecasts", c.Data.Forecasts)
	if err != nil {
		return nil, err
	}
	in, err := fio.Open(ctx, files, reading(c, true))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	axes := axesOf(c)
	var entries []ensemble.Entry
	for _, e := range in.Catalogue().Entries {
		if _, _, _, ok := axes.Find(e.Key); ok && e.Product == ensemble.MemberField && e.Statistic == "" {
			entries = append(entries, e)
		}
	}
	to, err := destinationOf(ctx, c)
	if err != nil {
		return nil, err
	}
	return to.settle(entries)
}

// orCrop adds the remedy that needs no forecast file.
func orCrop(err error) error {
	var e *exit.Error
	if !errors.As(err, &e) || e.Code == exit.SaveAndStop {
		return err
	}
	named := *e
	named.Fix = strings.TrimPrefix(e.Fix+"; or give --crop, which needs no forecast file", "; or ")
	return &named
}

// WriteText prints the graph that was asked for, or the stage of one pass, or
// everything: all stages, then the plan.
func (r *ExplainResult) WriteText(w io.Writer) error {
	if r.Graph != "" {
		_, err := io.WriteString(w, r.Graph)
		return err
	}
	if r.pass != "" {
		return r.writePass(w)
	}
	if _, err := fmt.Fprintf(w, "%s, %s\n\n", r.Network, r.Mode); err != nil {
		return err
	}
	if err := r.WriteStages(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return r.WritePlan(w)
}

// writePass prints what one pass did: the counts before and after, and every
// kind of value that came or went.
func (r *ExplainResult) writePass(w io.Writer) error {
	i := r.stageAfter(r.pass)
	before, after := r.Stages[i-1], r.Stages[i]
	both := engine.Explanation{Stages: []engine.Stage{before, after}}
	both.Stages[0].Changes = nil // by another pass
	required := "may be left out"
	if after.Required {
		required = "required"
	}
	if _, err := fmt.Fprintf(w, "%s: %s (%s)\n\n", after.Pass, after.Purpose, required); err != nil {
		return err
	}
	if err := both.WriteStages(w); err != nil {
		return err
	}
	lines := engine.Difference(before.Graph, after.Graph)
	if len(lines) == 0 {
		_, err := fmt.Fprintln(w, "the values are the same as before")
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

// PassInfo is one pass of the compiler.
type PassInfo struct {
	Name     string   `json:"name"`
	Purpose  string   `json:"purpose"`
	Required bool     `json:"required"`
	After    []string `json:"after"` // passes that must come before, each with its reason
}

// Passes lists the passes of the compiler in order.
func Passes() []PassInfo {
	var out []PassInfo
	for _, p := range pass.List {
		i := PassInfo{Name: p.Name, Purpose: p.Purpose, Required: p.Required, After: []string{}}
		for _, o := range pass.Order {
			if o.After == p.Name {
				i.After = append(i.After, o.Before+": "+o.Reason)
			}
		}
		out = append(out, i)
	}
	return out
}

// WritePasses prints the passes, one a line.
func WritePasses(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "#\tpass\trequired\tpurpose")
	for i, p := range Passes() {
		required := "no"
		if p.Required {
			required = "yes"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", i+1, p.Name, required, p.Purpose)
	}
	return t.Flush()
}
