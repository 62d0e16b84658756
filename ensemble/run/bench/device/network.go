package device

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
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/digits"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Network is the 3-D U-Net on fields of a size.
type Network struct {
	Base      int    `json:"base"`   // width of the first stage
	Stages    int    `json:"stages"` // poolings
	Batch     int    `json:"batch"`
	Channels  int    `json:"channels"`
	Field     Field  `json:"field"`
	Precision string `json:"precision"`
	Threads   int    `json:"-"`
}

// Field is levels, rows and columns: "2x352x704".
type Field [3]int

// MarshalText returns the text of the command line.
func (f Field) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%dx%dx%d", f[0], f[1], f[2]), nil
}

// UnmarshalText parses it.
//
// Errors: exit 64.
func (f *Field) UnmarshalText(text []byte) error {
	var end string
	n, _ := fmt.Sscanf(string(text)+" .", "%dx%dx%d %s", &f[0], &f[1], &f[2], &end)
	if n != 4 || end != "." {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid field %q", text), At: "--field", Fix: "give levels, rows and columns, 2x352x704"}
	}
	return nil
}

// facts returns rows of results below a description of the network.
func (n Network) facts(backend string, rows ...[2]string) answer.Sections {
	about := fmt.Sprintf("3-D U-Net of base %d, %d channels, %dx%dx%d, batch %d, %s, on %s", n.Base, n.Channels, n.Field[0], n.Field[1], n.Field[2], n.Batch, n.Precision, backend)
	return answer.Sections{answer.FactsSection(append([][2]string{{"network", about}}, rows...)...)}
}

// times formats the times of a step.
func times(t benchstats.Times) string {
	return fmt.Sprintf("%s ms [%s–%s], %d steps", digits.Three(t.Median), digits.Three(t.Min), digits.Three(t.Max), t.N)
}

// precisions maps names to those of the engine. With bf16, fields are stored and multiplied in bfloat16, as
// in the other program.
var precisions = map[string]string{"f32": "f32", "tf32": "tf32", "bf16": "bf16_products", "f16": "f16"}

// check checks the size of the network.
func (n Network) check() error {
	if precisions[n.Precision] == "" {
		return fmt.Errorf("precision %q: valid are f32, tf32, bf16 and f16", n.Precision)
	}
	if n.Stages < 1 || n.Stages > unet3d.MaxStages {
		return fmt.Errorf("%d stages: valid are 1 to %d", n.Stages, unet3d.MaxStages)
	}
	if min(n.Base, n.Batch, n.Channels, n.Field[0], n.Field[1], n.Field[2]) < 1 {
		return fmt.Errorf("base %d, batch %d, channels %d, field %v: all must be at least 1", n.Base, n.Batch, n.Channels, n.Field)
	}
	return nil
}

// graph builds the network with mean absolute error as loss, or for prediction without. Sides that do not
// divide are padded.
func (n Network) graph(train bool, seed uint64) (*graph.Graph, error) {
	b := graph.New(seed)
	x := b.Input("x", graph.Shape{n.Batch, n.Channels, n.Field[0], n.Field[1], n.Field[2]})
	y := unet3d.UNet{Base: n.Base, Stages: n.Stages}.BuildPadded(b, x)
	b.Output("y", y)
	if train {
		b.Loss(op.L1(b, y, b.Input("target", y.Shape())))
	}
	return b.Build()
}

// flops is the useful work of one forward pass.
func (n Network) flops() (int64, error) {
	g, err := n.graph(false, 1)
	if err != nil {
		return 0, err
	}
	return bench.UsefulFLOPs(g), nil
}

// options returns the options of all plans on a device, as in training and prediction.
func (n Network) options(backend string) engine.Options {
	o := network.Options(n.Threads, backend)
	o.Precision = precisions[n.Precision]
	return o
}

// rate is Adam's learning rate if only time is measured.
const rate = 1e-4

// trainer is a training step that can be repeated.
type trainer struct {
	plan *engine.Plan
	opt  *optim.Optimizer
	n    uint64
	// filled are the addresses of fields that were filled.
	filled []*float32
}

// trainer compiles the step.
func (n Network) trainer(o engine.Options, seed uint64) (*trainer, error) {
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

// step takes one step.
func (t *trainer) step(ctx context.Context, rate float64) error {
	if err := t.plan.Run(ctx, t.n); err != nil {
		return err
	}
	t.n++
	_, err := t.opt.Step(rate)
	return err
}

// stepPrefetched takes a step as in training: while the device computes, the fields of the next step are transferred to
// it.
func (t *trainer) stepPrefetched(ctx context.Context) error {
	if err := t.plan.Start(ctx, t.n); err != nil {
		return err
	}
	t.n++
	if err := t.plan.StageInputs(); err != nil {
		return errors.Join(err, t.plan.Wait())
	}
	t.fill()
	if err := t.plan.Wait(); err != nil {
		return err
	}
	_, err := t.opt.Step(rate)
	return err
}

// fill draws the fields of a step, once for each memory in which they may be.
func (t *trainer) fill() {
	x, y := t.plan.Input("x"), t.plan.Input("target")
	if !slices.Contains(t.filled, &x[0]) {
		noise(x, 2)
		noise(y, 3)
		t.filled = append(t.filled, &x[0])
	}
}

// Close frees plan and optimiser.
func (t *trainer) Close() error { return errors.Join(t.plan.Close(), t.opt.Close()) }

// noise fills x with normal random numbers, the same in every process; large fields repeat them.
func noise(x []float32, seed uint64) {
	r := rand.New(rand.NewPCG(1, seed))
	const period = 1<<20 - 3 // coprime to the sides
	own := x[:min(len(x), period)]
	for i := range own {
		own[i] = float32(r.NormFloat64())
	}
	for at := len(own); at < len(x); at += len(own) {
		copy(x[at:], own)
	}
}

// warmup is the number of steps before the measured ones: the first runs kernel by kernel, the second
// records.
const warmup = 3

// repeat measures a step, after one that bench.Repeat does not count.
func (c *Options) repeat(step func() error) (benchstats.Times, error) {
	if err := step(); err != nil {
		return benchstats.Times{}, err
	}
	all, _, err := bench.Repeat(step, func() {}, c.Steps, c.Seconds, time.Now)
	if err != nil {
		return benchstats.Times{}, err
	}
	return benchstats.TimesOf(all), nil
}

// usedBytes is the memory that programs use on the first GPU; 0 if the driver does not report it.
func usedBytes() uint64 {
	inv, err := cuda.Inspect()
	if err != nil || len(inv.Devices) == 0 {
		return 0
	}
	return inv.Devices[0].TotalBytes - inv.Devices[0].FreeBytes
}

// deviceBytes is the memory that a plan needs on a device: arena, workspaces, parameters, gradients, states,
// and input buffers.
func deviceBytes(p *engine.Plan, train bool) int64 {
	params, feeds := 1, 1
	if train {
		params, feeds = 2, 2 // gradients, and the inputs of the next step
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

// finite reports whether a number is neither NaN nor infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
