package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
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
	Crop Crop
	// MemoryBytes bounds arena and scratch together; 0 means no bound.
	MemoryBytes int64
	// Pass restricts the report to one pass, with every value that it changed.
	Pass string
	// DumpAfter asks for the graph after this pass as text.
	DumpAfter string
	// Peaks of the machine; rates that are 0 are measured first.
	Peaks engine.Peaks
	HTML  string // file of the picture; empty for none
}

// ExplainResult is the explained plan.
type ExplainResult struct {
	Mode    string `json:"mode"`
	Network string `json:"network"`
	*engine.Explanation
	// Graph is the text of the graph after the pass of DumpAfter.
	Graph   string   `json:"graph,omitempty"`
	Outputs []string `json:"-"`

	pass string // of ExplainOptions
}

// Explain compiles the network of a configuration as Train or Predict does and
// says what every pass made of it and what the plan is. Nothing is trained, and
// no field is read.
//
// Errors: 64 for an unknown pass or mode and a size that the network cannot
// have, 65 and 66 for the forecast files if their grid is needed, 69 without the
// device, 73 and 74 for the picture.
func Explain(ctx context.Context, o ExplainOptions) (*ExplainResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	g, opts, name, err := o.build(ctx)
	if err != nil {
		return nil, err
	}
	if o.Peaks.FLOPs == 0 || o.Peaks.Bytes == 0 {
		measured, err := MeasurePeak(ctx, opts.Threads)
		if err != nil {
			return nil, err
		}
		o.Peaks.FLOPs = cmp.Or(o.Peaks.FLOPs, measured.engine().FLOPs)
		o.Peaks.Bytes = cmp.Or(o.Peaks.Bytes, measured.engine().Bytes)
	}
	e, err := engine.Explain(g, opts, o.Peaks)
	if err != nil {
		return nil, err
	}
	r := &ExplainResult{Mode: o.Mode, Network: name, Explanation: e, pass: o.Pass}
	if o.DumpAfter != "" {
		var b strings.Builder
		if err := r.stage(o.DumpAfter).Graph.WriteText(&b); err != nil {
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

// stage finds the stage after a pass that check has found in the list.
func (r *ExplainResult) stage(name string) *engine.Stage {
	i := slices.IndexFunc(r.Stages, func(s engine.Stage) bool { return s.Pass == name })
	return &r.Stages[i]
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

// build makes the graph and the options of its plan as training and prediction
// do. Numbers that a training fits on data (scales, affine spreads) are one: they
// change constants of the graph, not its form.
func (o *ExplainOptions) build(ctx context.Context) (*graph.Graph, engine.Options, string, error) {
	c := o.Config
	grid := &ensemble.Grid{Kind: ensemble.Projected, NY: o.Crop.Height, NX: o.Crop.Width} // longitudes of a piece do not close
	if o.Crop == (Crop{}) {
		var err error
		if grid, err = gridOf(ctx, c); err != nil {
			return nil, engine.Options{}, "", orCrop(err)
		}
	}
	task := Task{
		Features: ensemble.Features{Axes: ensemble.Axes{Variables: c.Data.Variables, Levels: c.Data.Levels, Leads: c.Data.Leads},
			Aggregates: aggregates(c.Data.Features), Location: c.Model.Location, Season: c.Model.Season, DDOF: c.Data.SpreadDDOF},
		Targets: targetVariables(c), TargetLead: c.Data.TargetLead, SpreadRange: 1,
	}
	n := len(task.Targets) * len(c.Data.Levels)
	task.ErrorScale, task.SpreadScale, task.SpreadAffine = make([]float64, n), make([]float64, n), make([][2]float64, n)
	for i := range n {
		task.ErrorScale[i], task.SpreadScale[i], task.SpreadAffine[i] = 1, 1, [2]float64{0, 1}
	}
	spec := Spec{Kind: c.Model.Kind, Base: c.Model.Base, Stages: c.Model.Stages, Dropout: c.Model.Dropout, Periodic: c.Model.Periodic,
		Head: c.Model.Head, Loss: c.Train.Train.Loss.Kind, SpreadWeight: c.Train.Train.Loss.Spread}
	opts := engineOptions(c.Train.Train.Threads)
	opts.MemoryLimit, opts.Precision = o.MemoryBytes, c.Train.Train.Precision
	batch, loss := c.Train.Train.BatchSize, true
	if o.Mode == "predict" {
		opts.Mode, batch, loss = engine.Infer, 1, false
	}
	g, err := spec.graph(&task, grid, batch, uint64(c.Train.Train.Seed), loss)
	name := fmt.Sprintf("%s, %s head, %d channels, depth %d, field %d×%d, batch %d", spec.Kind, spec.Head, task.Features.Channels(), len(c.Data.Levels), grid.NY, grid.NX, batch)
	if spec.Kind == "unet3d" {
		name = fmt.Sprintf("%s base %d, %d stages%s", spec.Kind, spec.Base, spec.Stages, strings.TrimPrefix(name, spec.Kind))
	}
	return g, opts, name, err
}

// gridOf is the grid of the forecast files by their catalogue.
func gridOf(ctx context.Context, c *config.TrainConfig) (*ensemble.Grid, error) {
	files, err := config.Expand("data.forecasts", c.Data.Forecasts)
	if err != nil {
		return nil, err
	}
	in, err := fio.Open(ctx, files, fio.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	axes := ensemble.Axes{Variables: c.Data.Variables, Levels: c.Data.Levels, Leads: c.Data.Leads}
	var entries []ensemble.Entry
	for _, e := range in.Catalogue().Entries {
		if _, _, _, ok := axes.Find(e.Key); ok && e.Product == ensemble.MemberField && e.Statistic == "" {
			entries = append(entries, e)
		}
	}
	return oneGrid(entries)
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
	i := slices.IndexFunc(r.Stages, func(s engine.Stage) bool { return s.Pass == r.pass })
	before, after := r.Stages[i-1], r.Stages[i]
	one := engine.Explanation{Stages: []engine.Stage{before, after}}
	one.Stages[0].Changes = nil
	required := "may be left out"
	if after.Required {
		required = "required"
	}
	if _, err := fmt.Fprintf(w, "%s: %s (%s)\n\n", after.Pass, after.Purpose, required); err != nil {
		return err
	}
	if err := one.WriteStages(w); err != nil {
		return err
	}
	lines := engine.Difference(before.Graph, after.Graph)
	if len(lines) == 0 {
		_, err := fmt.Fprintln(w, "the values are the same as before")
		return err
	}
	fmt.Fprintln(w)
	for _, l := range lines {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
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
