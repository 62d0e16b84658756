package explain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/program"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Options are the inputs of [Run].
type Options struct {
	Config *config.TrainConfig
	// Mode is "train" for a training step (also if empty), or "predict".
	Mode string
	// Crop is the size of the field. The zero value takes the grid of the forecast files, of which only the index
	// is read.
	Crop   setup.Crop
	Device string // "cpu" (also if empty), "cuda" or "auto"; a training has train.device
	// Threads of a prediction, 0 for all; a training has train.threads.
	Threads int
	// MemoryBytes limits arena and workspaces together, WorkspaceBytes the workspaces alone. 0 means train.memory
	// and train.workspace for a training, and no limit for a prediction.
	MemoryBytes, WorkspaceBytes int64
	Timings                     setup.Timings // measured times of kernels
	// Pass restricts the report to one pass, with every value that it changed.
	Pass string
	// Without names optional passes that are left out, for a training in place of train.without_passes.
	Without []string
	// DumpAfter requests the graph after this pass as text.
	DumpAfter string
	// Peaks of the machine; rates that are 0 are measured.
	Peaks engine.Peaks
	HTML  string // file of the page; the graph is written beside it as DOT; empty: neither
	// ProgramGraph is the file of the plan's program graph as JSON; empty: none.
	ProgramGraph string
	// RunDir is a finished training with this configuration. The network then lacks the channels that it removed,
	// and predictions use int8 if it was quantised. Empty: the unpruned network.
	RunDir string

	kept []channels.Kept
	int8 map[string]*op.Int8Scales
}

// Result is the explained plan.
type Result struct {
	Mode    string `json:"mode"`
	Network string `json:"network"`
	// Precision and the memory limits that the plan was made with; 0: no limit.
	Precision      string   `json:"precision"`
	MemoryBytes    int64    `json:"memory_bytes,omitempty"`
	WorkspaceBytes int64    `json:"workspace_bytes,omitempty"`
	Without        []string `json:"without,omitempty"` // passes that were left out
	*engine.Explanation
	// Graph is the text of the graph after the pass DumpAfter.
	Graph   string   `json:"graph,omitempty"`
	Outputs []string `json:"-"`

	pass string // Options.Pass
}

// Run compiles the network of a configuration as train or predict does, and reports the effect of every pass
// and the plan. Nothing is trained and no field is read; kernels with unknown times are timed. The plan of a
// training is that of a single rank, whatever train.mesh is.
//
// Reads: the index of the forecast files, unless Crop is given.
// Writes: the page Options.HTML and the graph beside it; Options.ProgramGraph.
// Errors: exit 64 for an unknown pass or mode, and a field size that the network does not support; 64 and 69
// for a memory limit that is too small, naming the least sufficient value; 65 and 66 for the forecast files;
// 69 without the device; 73 and 74 for the files.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.RunDir != "" {
		m, _, err := model.LoadDescription(filepath.Join(o.RunDir, "model"))
		if err != nil {
			return nil, err
		}
		o.kept, o.int8 = m.Spec.Kept, m.Int8
	}
	grid, err := o.Grid(ctx)
	if err != nil {
		return nil, err
	}
	if k := setup.PlaceholderTask(setup.TaskOf(o.Config)); o.kept == nil {
		if o.kept, err = setup.PretrainedChannels(o.Config, &k, grid); err != nil {
			return nil, err
		}
	}
	s := o.Subject()
	g, err := s.Spec.Graph(&s.Task, grid, s.Batch, s.Seed, s.Loss)
	if err != nil {
		return nil, err
	}
	if o.Peaks.FLOPs == 0 || o.Peaks.Bytes == 0 {
		measured, err := bench.MeasurePeak(ctx, s.Options.Threads)
		if err != nil {
			return nil, err
		}
		o.Peaks.FLOPs = cmp.Or(o.Peaks.FLOPs, measured.Engine().FLOPs)
		if o.Peaks.Bytes == 0 {
			o.Peaks.Bytes, o.Peaks.Caches = measured.Engine().Bytes, measured.Engine().Caches
		}
	}
	e, err := engine.Explain(g, s.Options, o.Peaks)
	if err != nil {
		return nil, setup.NameMemoryLimit(err, s.memory, s.workspace)
	}
	o.Timings.Save(s.Options.Timings)
	r := &Result{Mode: o.Mode, Network: s.Describe(grid), Precision: s.Options.Precision,
		MemoryBytes: s.Options.Memory.Limit, WorkspaceBytes: s.Options.Workspace, Explanation: e, Without: s.Options.Without, pass: o.Pass}
	if o.DumpAfter != "" {
		var b strings.Builder
		if err := r.PassReports[r.stageAfter(o.DumpAfter)].Graph.WriteText(&b); err != nil {
			return nil, err
		}
		r.Graph = b.String()
	}
	if o.HTML != "" {
		if err := r.writePage(o.HTML); err != nil {
			return nil, err
		}
	}
	if o.ProgramGraph != "" {
		if err := r.writeProgramGraph(o.ProgramGraph); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// writeProgramGraph writes the operations of the plan, in order of execution, as a program graph.
func (r *Result) writeProgramGraph(path string) error {
	order := make([]int, len(r.Ops))
	for i, o := range r.Ops {
		order[i] = o.Node
	}
	var b bytes.Buffer
	if err := program.Of(r.Explanation.Graph, order).WriteJSON(&b); err != nil {
		return err
	}
	r.Outputs = append(r.Outputs, path)
	return exit.CreateError(path, atomicfile.WriteFile(path, b.Bytes()))
}

// writePage writes the page, and the graph for Graphviz beside it.
func (r *Result) writePage(path string) error {
	dot := strings.TrimSuffix(path, ".html") + ".dot"
	var page, graph bytes.Buffer
	if err := errors.Join(r.WriteDOT(&graph, r.drawnPass()), r.writeHTML(&page, filepath.Base(dot))); err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		text []byte
	}{{dot, graph.Bytes()}, {path, page.Bytes()}} {
		if err := exit.CreateError(f.path, atomicfile.WriteFile(f.path, f.text)); err != nil {
			return err
		}
	}
	r.Outputs = append(r.Outputs, path, dot)
	return nil
}

// drawnPass is the pass after which the graph is drawn: the requested one, or the last.
func (r *Result) drawnPass() string { return cmp.Or(r.pass, r.PassReports[len(r.PassReports)-1].Pass) }

// stageAfter returns the index of the stage after a pass. Stage 0 is before all passes.
func (r *Result) stageAfter(name string) int {
	return slices.IndexFunc(r.PassReports, func(s engine.PassReport) bool { return s.Pass == name })
}

// Check completes and checks the options.
//
// Errors: exit 64.
func (o *Options) Check() error {
	o.Mode = cmp.Or(o.Mode, "train")
	if o.Mode != "train" && o.Mode != "predict" {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown mode %q", o.Mode), At: "--mode", Fix: "give train or predict"}
	}
	if o.Crop != (setup.Crop{}) && (o.Crop.Height < 1 || o.Crop.Width < 1) {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a field of %d by %d points", o.Crop.Height, o.Crop.Width), Fix: "give two numbers above 0, rows and columns"}
	}
	if o.MemoryBytes < 0 || o.WorkspaceBytes < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid memory limits: %d bytes, workspace %d bytes", o.MemoryBytes, o.WorkspaceBytes),
			Fix: "give positive limits, or 0 for those of the configuration"}
	}
	if o.Peaks.FLOPs < 0 || o.Peaks.Bytes < 0 {
		return &exit.Error{Code: exit.Usage, What: "a negative peak rate", Fix: "give positive rates, or 0 to measure them"}
	}
	var names []string
	for _, p := range pass.List {
		names = append(names, p.Name)
	}
	if err := CheckOptional(o.Without); err != nil {
		return err
	}
	for _, f := range []struct{ flag, name string }{{"--pass", o.Pass}, {"--dump-after", o.DumpAfter}} {
		if slices.Contains(o.Without, f.name) {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("pass %q is left out", f.name), At: f.flag, Fix: "show another pass, or keep this one"}
		}
		if f.name == "" || slices.Contains(names, f.name) {
			continue
		}
		fix := "`ensemble engine passes` lists the passes"
		if near := nearest.Find(f.name, names); near != "" {
			fix = "did you mean `" + near + "`?"
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown pass %q", f.name), At: f.flag, Fix: fix}
	}
	return nil
}

// Subject is what a training or a prediction compiles.
type Subject struct {
	Spec    network.Spec
	Task    task.Task
	Batch   int
	Seed    uint64
	Loss    bool
	Options engine.Options
	// memory and workspace name the keys or flags of the limits.
	memory, workspace setup.MemoryLimit
}

// Subject returns the step of a training's first network, or the prediction.
func (o *Options) Subject() Subject {
	s := Subject{Spec: setup.SpecOf(o.Config), Task: setup.PlaceholderTask(setup.TaskOf(o.Config)), Batch: 1, memory: setup.FlagMemory, workspace: setup.FlagWorkspace}
	s.Spec.Kept = o.kept
	if o.Mode == "predict" {
		s.Options = setup.Inference{Threads: o.Threads, Device: o.Device, Timings: o.Timings, Memory: o.MemoryBytes, Workspace: o.WorkspaceBytes}.Options()
		s.Options.Mode, s.Options.DonateInputs, s.Options.Int8, s.Options.Without = engine.Infer, true, o.int8, o.Without
	} else {
		c := o.Config.Train.Train
		s.Batch, s.Seed, s.Loss = c.BatchSize, uint64(c.Seed), true
		if o.MemoryBytes == 0 {
			s.memory = setup.TrainMemory
		}
		if o.WorkspaceBytes == 0 {
			s.workspace = setup.TrainWorkspace
		}
		c.Memory, c.Workspace = cmp.Or(config.Bytes(o.MemoryBytes), c.Memory), cmp.Or(config.Bytes(o.WorkspaceBytes), c.Workspace)
		if len(o.Without) > 0 {
			c.WithoutPasses = o.Without
		}
		s.Options = setup.EngineOptions(c, o.Timings.Open(c.Threads))
		if c.Optimizer == config.KFACOptimizer { // the step that computes factors too
			s.Options.MaxFactorSide = c.KFAC.MaxSide
		}
	}
	s.Options = s.Spec.Options(s.Options)
	return s
}

// Describe describes the network, its batch and the limits of its plan.
func (s *Subject) Describe(grid *ensemble.Grid) string {
	text := s.Spec.Kind
	if s.Spec.Kind == "unet3d" {
		text += fmt.Sprintf(" base %d, %d stages", s.Spec.Base, s.Spec.Stages)
	}
	if n := len(s.Spec.Kept); n > 0 {
		text += fmt.Sprintf(", without channels of %d layers", n)
	}
	text += fmt.Sprintf(", %s head, %d channels, depth %d, field %d×%d, batch %d, %s", s.Spec.Head.Name(), s.Task.Features.Channels(),
		len(s.Task.Features.Axes.Levels), grid.NY, grid.NX, s.Batch, s.Options.Precision)
	if s.Options.Memory.Limit > 0 {
		text += fmt.Sprintf(", memory %v", config.Bytes(s.Options.Memory.Limit))
	}
	if len(s.Options.Without) > 0 {
		text += ", without passes " + strings.Join(s.Options.Without, ", ")
	}
	if s.Options.Workspace > 0 {
		text += fmt.Sprintf(", workspace %v", config.Bytes(s.Options.Workspace))
	}
	return text
}

// Grid returns the grid of Options.Crop, or of the forecast files.
//
// Errors: exit 65 and 66.
func (o *Options) Grid(ctx context.Context) (*ensemble.Grid, error) {
	if o.Crop != (setup.Crop{}) { // a crop is not periodic in longitude
		return &ensemble.Grid{Kind: ensemble.Projected, NY: o.Crop.Height, NX: o.Crop.Width}, nil
	}
	grid, err := GridOf(ctx, o.Config)
	return grid, withCropHint(err)
}

// GridOf returns the grid of the sample store, or of the forecast files by their index.
//
// Errors: exit 65 and 66.
func GridOf(ctx context.Context, c *config.TrainConfig) (*ensemble.Grid, error) {
	if c.Data.Store != "" {
		return samples.StoreGrid(ctx, string(c.Data.Store))
	}
	files, err := input.ConfigFiles("data.forecasts", c.Data.Forecasts)
	if err != nil {
		return nil, err
	}
	in, err := fio.Open(ctx, files, input.ReaderOptions(c, true))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	axes, used, _ := input.ChooseStatistics(in.Catalogue(), setup.AxesOf(c), input.StatisticsOf(c))
	var entries []ensemble.Entry
	for _, e := range used.Entries {
		if _, _, _, ok := axes.Find(e.Key); ok && e.Product == ensemble.MemberField {
			entries = append(entries, e)
		}
	}
	to, err := input.DestinationOf(ctx, c, fio.Open)
	if err != nil {
		return nil, err
	}
	return to.Resolve(entries)
}

// withCropHint adds --crop, which needs no forecast file, as a remedy.
func withCropHint(err error) error {
	var e *exit.Error
	if !errors.As(err, &e) || e.Code == exit.SaveAndStop {
		return err
	}
	named := *e
	named.Fix = strings.TrimPrefix(e.Fix+"; or give --crop, which needs no forecast file", "; or ")
	return &named
}

// Sections returns one pass if Options.Pass is set, otherwise all stages and the plan.
func (r *Result) Sections() answer.Sections {
	if r.pass != "" {
		return r.passSections()
	}
	return slices.Concat(answer.Sections{{Text: []string{r.Network + ", " + r.Mode}}}, r.PassSections(), r.PlanSections())
}

// passSections returns the counts before and after a pass, and every kind of value that it added or removed.
func (r *Result) passSections() answer.Sections {
	i := r.stageAfter(r.pass)
	before, after := r.PassReports[i-1], r.PassReports[i]
	both := engine.Explanation{PassReports: []engine.PassReport{before, after}}
	both.PassReports[0].Changes = nil // added by another pass
	lines := engine.Diff(before.Graph, after.Graph)
	if len(lines) == 0 {
		lines = []string{"no values changed"}
	}
	return slices.Concat(answer.Sections{{Text: []string{fmt.Sprintf("%s: %s (%s)", after.Pass, after.Purpose, after.Absence)}}}, both.PassSections(), answer.Sections{{Text: lines}})
}

// Pass is one pass of the compiler.
type Pass struct {
	Name    string   `json:"name"`
	Purpose string   `json:"purpose"`
	Absence string   `json:"absence"` // results without it: "required" (none), "rounding" or "same bits"
	After   []string `json:"after"`   // passes that must run before, with reasons
}

// Passes lists the passes of the compiler in order.
func Passes() PassList {
	var out PassList
	for _, p := range pass.List {
		i := Pass{Name: p.Name, Purpose: p.Purpose, Absence: p.Absence.String(), After: []string{}}
		for _, o := range pass.Order {
			if o.After == p.Name {
				i.After = append(i.After, o.Before+": "+o.Reason)
			}
		}
		out = append(out, i)
	}
	return out
}

// CheckOptional verifies that passes can be left out.
//
// Errors: exit 64 with the nearest name and the list.
func CheckOptional(passes []string) error {
	_, err := pass.Without(pass.List, passes)
	return err
}

// AllBut lists the optional passes besides those of only.
//
// Errors: those of CheckOptional.
func AllBut(only []string) ([]string, error) { return pass.AllBut(only) }

// PassList is a list of passes in order.
type PassList []Pass

// Sections returns the passes, one per line.
func (l PassList) Sections() answer.Sections {
	s := answer.Section{Columns: append(answer.NumberColumns("", "#"), answer.TextColumns("pass", "without it", "purpose")...)}
	for i, p := range l {
		s.Rows = append(s.Rows, []any{i + 1, p.Name, p.Absence, p.Purpose})
	}
	return answer.Sections{s}
}
