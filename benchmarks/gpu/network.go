package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/internal/measure"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// network is the 3-D U-Net on fields of a size.
type network struct {
	Base      int    `json:"base"`
	Stages    int    `json:"stages"`
	Batch     int    `json:"batch"`
	Channels  int    `json:"channels"`
	Field     field  `json:"field"`
	Precision string `json:"precision"`
	Threads   int    `json:"-"`
}

// field is levels, rows and columns: "2x352x704".
type field [3]int

// MarshalText gives the text of the command line.
func (f field) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%dx%dx%d", f[0], f[1], f[2]), nil
}

// UnmarshalText reads it.
func (f *field) UnmarshalText(text []byte) error {
	var end string
	n, _ := fmt.Sscanf(string(text)+" .", "%dx%dx%d %s", &f[0], &f[1], &f[2], &end)
	if n != 4 || end != "." {
		return fmt.Errorf("%q is no field: give levels, rows and columns, 2x352x704", text)
	}
	return nil
}

// precisions are the names of the engine. Fields that are stored as bfloat16 are also
// multiplied so, as the peer does.
var precisions = map[string]string{"f32": "f32", "tf32": "tf32", "bf16": "bf16_products", "f16": "f16"}

func (n network) check() error {
	if precisions[n.Precision] == "" {
		return fmt.Errorf("precision %q: known are f32, tf32, bf16 and f16", n.Precision)
	}
	if n.Stages < 1 || n.Stages > unet3d.MaxStages {
		return fmt.Errorf("%d stages: the network has 1 to %d", n.Stages, unet3d.MaxStages)
	}
	if min(n.Base, n.Batch, n.Channels, n.Field[0], n.Field[1], n.Field[2]) < 1 {
		return fmt.Errorf("base %d, batch %d, channels %d, field %v: all are at least 1", n.Base, n.Batch, n.Channels, n.Field)
	}
	return nil
}

// graph is the network with the mean absolute error, or for predictions without. Sides
// that do not divide are padded within.
func (n network) graph(train bool, seed uint64) (*graph.Graph, error) {
	b := graph.New(seed)
	x := b.Input("x", graph.Shape{n.Batch, n.Channels, n.Field[0], n.Field[1], n.Field[2]})
	y := unet3d.UNet{Base: n.Base, Stages: n.Stages}.BuildPadded(b, x)
	b.Output("y", y)
	if train {
		b.Loss(op.L1(b, y, b.Input("target", y.Shape())))
	}
	return b.Build()
}

// passes is how many forward passes a training step counts: one forward, and the
// gradients of input and filter.
const passes = 3

// flops is the useful work of one forward pass: twice the products of the convolutions,
// taps on the padding in depth left out.
func (n network) flops() (int64, error) {
	g, err := n.graph(false, 1)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, v := range g.Nodes {
		if v.Kind == graph.KindOp && engine.ClassOf(g, v) == engine.Contraction {
			sum += v.Op.FLOPs(g.InShapes(v), v.Shape, v.Attrs)
		}
	}
	return sum, nil
}

// options are those of every plan on a device.
func (n network) options(backend string) engine.Options {
	return engine.Options{Device: engine.Device{Backend: backend, Threads: n.Threads}, Numerics: engine.Numerics{Precision: precisions[n.Precision]}}
}

// Adam's rate where only time is measured.
const rate = 1e-4

// trainer is a training step that can be taken again and again.
type trainer struct {
	plan *engine.Plan
	opt  *optim.Optimizer
	n    uint64
	// filled are the memories of the fields that have been.
	filled []*float32
}

// trainer compiles the step.
func (n network) trainer(o engine.Options, seed uint64) (*trainer, error) {
	g, err := n.graph(true, seed)
	if err != nil {
		return nil, err
	}
	plan, err := engine.Compile(g, o)
	if err != nil {
		return nil, err
	}
	opt, err := optim.New(plan.Store(), optim.Options{Threads: n.Threads})
	if err != nil {
		return nil, errors.Join(err, plan.Close())
	}
	return &trainer{plan: plan, opt: opt}, nil
}

func (t *trainer) step(ctx context.Context, rate float64) error {
	if err := t.plan.Run(ctx, t.n); err != nil {
		return err
	}
	t.n++
	_, err := t.opt.Step(rate)
	return err
}

// fed takes a step as a training does: while the device works, the fields of the next one
// are on their way to it.
func (t *trainer) fed(ctx context.Context) error {
	if err := t.plan.Start(ctx, t.n); err != nil {
		return err
	}
	t.n++
	if err := t.plan.Stage(); err != nil {
		return errors.Join(err, t.plan.Wait())
	}
	t.fill()
	if err := t.plan.Wait(); err != nil {
		return err
	}
	_, err := t.opt.Step(rate)
	return err
}

// fill draws the fields of a step, once for each memory that they may be in.
func (t *trainer) fill() {
	x, y := t.plan.Input("x"), t.plan.Input("target")
	if !slices.Contains(t.filled, &x[0]) {
		noise(x, 2)
		noise(y, 3)
		t.filled = append(t.filled, &x[0])
	}
}

func (t *trainer) Close() error { return errors.Join(t.plan.Close(), t.opt.Close()) }

// noise fills x with normal numbers that are the same in every process; large fields
// repeat them.
func noise(x []float32, seed uint64) {
	r := rand.New(rand.NewPCG(1, seed))
	const period = 1<<20 - 3 // no side divides it
	own := x[:min(len(x), period)]
	for i := range own {
		own[i] = float32(r.NormFloat64())
	}
	for at := len(own); at < len(x); at += len(own) {
		copy(x[at:], own)
	}
}

// warmup is how many steps come before the measured ones: the first is asked for kernel
// by kernel, the second also records.
const warmup = 3

// repeat takes the times of a step: steps of them, or as many as the seconds allow and at
// least five.
func (c *config) repeat(step func() error) (measure.Times, error) {
	const least = 5
	for range warmup {
		if err := step(); err != nil {
			return measure.Times{}, err
		}
	}
	var all []time.Duration
	end := time.Now().Add(time.Duration(c.seconds * float64(time.Second)))
	for len(all) < c.steps || c.steps == 0 && (len(all) < least || time.Now().Before(end)) {
		start := time.Now()
		if err := step(); err != nil {
			return measure.Times{}, err
		}
		all = append(all, time.Since(start))
	}
	return measure.TimesOf(all), nil
}

// usedBytes is what the first GPU has given to programs; 0 if the driver does not say.
func usedBytes() uint64 {
	inv, err := cuda.Inspect()
	if err != nil || len(inv.Devices) == 0 {
		return 0
	}
	return inv.Devices[0].TotalBytes - inv.Devices[0].FreeBytes
}

// deviceBytes is what a plan asks a device for: arena and scratch, parameters, gradients
// and states, and where its inputs arrive.
func deviceBytes(p *engine.Plan, train bool) int64 {
	params, feeds := 1, 1
	if train {
		params, feeds = 2, 2 // gradients; the inputs of the next step
	}
	elements := params * p.Store().ParamCount()
	for _, e := range p.Store().Entries() {
		if e.State {
			elements += e.Size()
		}
	}
	elements += feeds * (len(p.Input("x")) + len(p.Input("target")))
	return p.MemoryBytes() + 4*int64(elements)
}

// finite tells whether a number is one.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
