package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// trained is a training step.
type trained struct {
	Case    string `json:"case"`
	Backend string `json:"backend"`
	Network
	// RequestedBatch is the requested batch if no plan exists for it.
	RequestedBatch int              `json:"requested_batch,omitempty"`
	Why            string           `json:"why,omitempty"`
	MS             benchstats.Times `json:"train_ms"`
	PerSample      float64          `json:"train_ms_per_sample"`
	CompileMS      float64          `json:"compile_ms"`
	Loss           float64          `json:"loss"` // after the last step
	// GFLOP is the useful work of a step's convolutions, GFLOPs its rate over the whole step.
	GFLOP  float64 `json:"gflop"`
	GFLOPs float64 `json:"gflops"`
	// ConvGFLOPs is the rate of the convolutions while they run.
	ConvGFLOPs  float64             `json:"conv_gflops"`
	Parameters  int                 `json:"parameters"`
	ArenaBytes  int64               `json:"arena_bytes"`
	DeviceBytes int64               `json:"device_bytes"`           // memory of plan and optimiser
	UsedBytes   uint64              `json:"device_used_bytes"`      // by all programs, from the driver
	BeforeBytes uint64              `json:"device_used_before"`     // before this program
	Classes     []classTime         `json:"classes"`                // kernels measured one by one
	Slowest     []engine.KernelTime `json:"slowest,omitempty"`      // kernels
	OptimizerMS float64             `json:"optimizer_ms,omitempty"` // time of the optimiser in that step
}

// classTime sums the kernels of a class in one step.
type classTime struct {
	Class engine.Class `json:"class"`
	Ops   int          `json:"ops"`
	MS    float64      `json:"ms"`
	GFLOP float64      `json:"gflop"`
	GB    float64      `json:"gb"` // read and written by kernels
}

// slowest is the number of kernels that an answer lists.
const slowest = 12

// train measures training steps, then one step kernel by kernel.
func train(ctx context.Context, c *Options) (answer.Sectioned, error) {
	asked, why, err := c.reduceBatch()
	if err != nil {
		return nil, err
	}
	flops, err := c.flops()
	if err != nil {
		return nil, err
	}
	a := &trained{RequestedBatch: asked, Why: why, Case: c.Case, Backend: c.Backend, Network: c.Network, BeforeBytes: usedBytes(), GFLOP: float64(bench.TrainPasses*flops) / 1e9}
	if err := c.trainSteps(ctx, a); err != nil {
		return nil, err
	}
	a.PerSample = a.MS.Median / float64(c.Batch)
	a.GFLOPs = 1e3 * a.GFLOP / a.MS.Median
	return a, c.trainKernels(ctx, a)
}

// Sections returns the report as text.
func (a *trained) Sections() answer.Sections {
	kernels := answer.Section{Text: []string{"The slowest kernels"}, Columns: append(answer.TextColumns("operation", "layer", "kernel", "shape"), answer.NumberColumn("ms", "", "%.3f"))}
	for _, k := range a.Slowest {
		kernels.Rows = append(kernels.Rows, []any{k.Op, k.Layer, k.Kernel, k.Shape, float64(k.Duration) / 1e6})
	}
	return append(a.facts(a.Backend, [2]string{"training step", times(a.MS) + fmt.Sprintf(", %.4g ms a sample", a.PerSample)},
		[2]string{"useful work", fmt.Sprintf("%.4g GFLOP, %.4g GFLOP/s, of convolutions alone %.4g", a.GFLOP, a.GFLOPs, a.ConvGFLOPs)},
		[2]string{"memory", fmt.Sprintf("%.4g GB of the device, %.4g of it the arena", float64(a.DeviceBytes)/1e9, float64(a.ArenaBytes)/1e9)},
		[2]string{"loss", fmt.Sprintf("%.4g after the last step", a.Loss)}), classTable(a.Classes), kernels)
}

// classTable returns the time of each class of kernels.
func classTable(all []classTime) answer.Section {
	s := answer.Section{Text: []string{"Kernels measured one by one"}, Columns: append(answer.TextColumns("class"), answer.NumberColumn("operations", "", ""), answer.NumberColumn("ms", "", "%.3f"),
		answer.NumberColumn("GFLOP", "", "%.1f"), answer.NumberColumn("GB", "", "%.3f"))}
	for _, c := range all {
		s.Rows = append(s.Rows, []any{c.Class, c.Ops, c.MS, c.GFLOP, c.GB})
	}
	return s
}

// reduceBatch reduces the batch, with Options.SmallerBatch, until a step can be compiled. It returns the requested
// batch if it differs, and the reason.
func (c *Options) reduceBatch() (asked int, why string, err error) {
	for first := c.Batch; c.SmallerBatch; c.Batch-- {
		t, err := c.trainer(c.options(c.Backend), 1)
		if err == nil {
			return asked, why, t.Close()
		}
		if code := exit.CodeOf(err); c.Batch == 1 || code != exit.Usage && code != exit.NoDevice {
			return 0, "", err
		}
		asked, why = first, err.Error()
	}
	return 0, "", nil
}

// trainSteps measures whole steps.
func (c *Options) trainSteps(ctx context.Context, a *trained) error {
	start := time.Now()
	t, err := c.trainer(c.options(c.Backend), 1)
	if err != nil {
		return err
	}
	a.CompileMS = float64(time.Since(start)) / 1e6
	t.fill()
	if a.MS, err = c.repeat(func() error { return t.stepPrefetched(ctx) }); err == nil {
		a.Loss, a.Parameters = t.plan.Loss(), t.plan.Store().ParamCount()
		a.ArenaBytes, a.DeviceBytes, a.UsedBytes = t.plan.ArenaBytes(), deviceBytes(t.plan, true)+t.opt.Bytes(), usedBytes()
		if !finite(a.Loss) {
			err = &exit.Error{Code: exit.No, What: "the loss is not finite", Fix: "report this with the command line"}
		}
	}
	return errors.Join(err, t.Close())
}

// trainKernels measures kernels.
func (c *Options) trainKernels(ctx context.Context, a *trained) error {
	o := c.options(c.Backend)
	o.Profile = true
	t, err := c.trainer(o, 1)
	if err != nil {
		return err
	}
	t.fill()
	for i := range warmup {
		if i == warmup-1 {
			t.plan.ResetTimes()
		}
		start := time.Now()
		if err = t.plan.Run(ctx, uint64(i)); err != nil {
			break
		}
		graph := time.Since(start)
		if _, err = t.opt.Step(rate); err != nil {
			break
		}
		a.OptimizerMS = float64(time.Since(start)-graph) / 1e6
	}
	if err == nil {
		a.Classes, a.Slowest = classes(t.plan.Timeline(engine.Peaks{}))
		for _, k := range a.Classes {
			if k.Class == engine.Contraction {
				a.ConvGFLOPs = 1e3 * a.GFLOP / k.MS
			}
		}
	}
	return errors.Join(err, t.Close())
}

// classes sums kernels by class, and returns the slowest kernels.
func classes(all []engine.KernelTime) (sums []classTime, most []engine.KernelTime) {
	for _, class := range engine.Classes {
		s := classTime{Class: class}
		for _, k := range all {
			if k.Class == class {
				s.Ops++
				s.MS += float64(k.Duration) / 1e6
				s.GFLOP += float64(k.FLOPs) / 1e9
				s.GB += float64(k.Bytes) / 1e9
			}
		}
		if s.Ops > 0 {
			sums = append(sums, s)
		}
	}
	most = slices.Clone(all)
	slices.SortStableFunc(most, func(a, b engine.KernelTime) int { return cmp.Compare(b.Duration, a.Duration) })
	return sums, most[:min(slowest, len(most))]
}
