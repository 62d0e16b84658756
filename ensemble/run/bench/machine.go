package bench

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/cost"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// machineTime is the time of all measurements of a machine together.
const machineTime = 25 * time.Second

// MeasureMachine measures the rates of this machine for predictions of the time of steps (package cost), with 1, 2, 4, … threads and
// with all.
//
// Cost: half a minute, and 600 MB of memory.
// Errors: ctx.Err(); exit 69 without the device.
func MeasureMachine(ctx context.Context) (*cost.Machine, error) {
	cpu := cpuinfo.Read()
	m := &cost.Machine{Format: cost.MachineFormat, CPU: cpu.Model, Arch: cpu.Arch, ISA: kern.ISA(), Cores: runtime.GOMAXPROCS(0),
		L2: int64(cpu.L2), L3: int64(cpu.L3), Memory: doctor.SystemMemory().TotalBytes}
	counts := threadCounts(m.Cores)
	task := progress.Start(ctx, "measure this machine", int64(len(counts)))
	defer task.Done()
	for i, n := range counts {
		task.Set(int64(i), "")
		r, err := measureMachineRates(ctx, m, n, machineTime/time.Duration(len(counts)))
		if err != nil {
			return nil, err
		}
		m.Rates = append(m.Rates, r)
	}
	return m, nil
}

// threadCounts are the powers of two below n, and n.
func threadCounts(n int) (counts []int) {
	for t := 1; t < n; t *= 2 {
		counts = append(counts, t)
	}
	return append(counts, n)
}

// Sizes of the measurements. Convolutions of that many channels on fields of side² points keep every core busy for some ms, and their
// values stay in the caches that cores share.
const (
	rateChannels = 128
	rateSide     = 64
	rateLinks    = 8  // elementwise operations on each value
	rateStarts   = 24 // pairs of operations on a few values
)

// measureMachineRates measures the rates with a number of threads.
func measureMachineRates(ctx context.Context, m *cost.Machine, threads int, within time.Duration) (cost.Rates, error) {
	r := cost.Rates{Threads: threads}
	near := int64(threads) * max(m.L2, 1<<18) // bytes of the second caches
	copied := func(bytes int64) func() (rateMeasurement, error) {
		return func() (rateMeasurement, error) {
			repeats := int(max(1, cost.L3Bytes/bytes))
			return rateMeasurement{run: memoryCopy(threads, int(bytes/2), repeats), work: float64(bytes) * float64(repeats), close: func() error { return nil }}, nil
		}
	}
	product, minimal := convolutionOf(1), convolutionOf(3)
	measurements := []struct {
		to      *float64
		prepare func() (rateMeasurement, error)
	}{
		{&r.Products, func() (rateMeasurement, error) { return ownKernels(ctx, threads, "f32", product) }},
		{&r.Minimal, func() (rateMeasurement, error) { return ownKernels(ctx, threads, "f32", minimal) }},
		{&r.BF16Products, func() (rateMeasurement, error) { return ownKernels(ctx, threads, "bf16_products", product) }},
		{&r.BF16Minimal, func() (rateMeasurement, error) { return ownKernels(ctx, threads, "bf16_products", minimal) }},
		{&r.Elementwise, func() (rateMeasurement, error) { return ownKernels(ctx, threads, "f32", elementwiseChain(near)) }},
		{&r.L2, copied(near / 2)},
		{&r.L3, copied(cost.L3Bytes)},
		{&r.DRAM, copied(cost.DRAMBytes)},
		{&r.Start, func() (rateMeasurement, error) { return ownKernels(ctx, threads, "f32", starts) }},
	}
	for _, v := range measurements {
		p, err := v.prepare()
		if exit.CodeOf(err) == exit.NoDevice && (v.to == &r.BF16Products || v.to == &r.BF16Minimal) {
			continue // the processor cannot multiply bfloat16
		}
		if err != nil {
			return r, err
		}
		seconds, err := best(ctx, p.run, within/time.Duration(len(measurements)))
		if err = errors.Join(err, p.close()); err != nil {
			return r, err
		}
		*v.to = p.work / seconds
	}
	r.Start = 1 / r.Start // operations per second
	return r, nil
}

// rateMeasurement is something to be timed, and the amount of work of a run.
type rateMeasurement struct {
	run, close func() error
	work       float64
}

// rateGraph adds a graph whose rate is measured, and returns its result and what to count of a compiled plan.
type rateGraph func(b *graph.Builder) (y graph.Value, count func(*engine.Plan) float64)

// ownKernels compiles a graph for a prediction.
func ownKernels(ctx context.Context, threads int, precision string, of rateGraph) (m rateMeasurement, err error) {
	b := graph.New(1)
	y, count := of(b)
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		return m, err
	}
	o := network.Options(threads, "")
	o.Mode, o.Precision = engine.Infer, precision
	plan, err := engine.Compile(g, o)
	if err != nil {
		return m, err
	}
	return rateMeasurement{run: func() error { return plan.Run(ctx, 0) }, close: plan.Close, work: count(plan)}, nil
}

// convolutionOf is a convolution with a filter of k×k points. Its products count in the form with the least.
func convolutionOf(k int) rateGraph {
	return func(b *graph.Builder) (graph.Value, func(*engine.Plan) float64) {
		x := b.Input("x", graph.Shape{1, rateChannels, 1, rateSide, rateSide})
		w := b.Param("w", graph.Shape{rateChannels, rateChannels, 1, k, k}, graph.HeNormal(rateChannels*k*k))
		return op.Conv3D(b, x, w, op.Conv{Pad: op.Same(1, k, k)}), func(p *engine.Plan) (products float64) {
			g := p.Graph()
			for _, m := range p.Movement(engine.Peaks{}) {
				n := g.Nodes[m.Node]
				if c, ok := op.ConvWorkOf(n.Op, g.InShapes(n), n.Shape, n.Attrs, m.BF16Products); ok {
					products += c.Products
				}
			}
			return products
		}
	}
}

// elementwiseChain is a chain of operations whose operand and result together take a quarter of some bytes.
func elementwiseChain(cache int64) rateGraph {
	return func(b *graph.Builder) (graph.Value, func(*engine.Plan) float64) {
		lons := int(max(1, cache/(4*4*2*graph.BlockSize*rateSide)))
		x := b.Input("x", graph.Shape{1, graph.BlockSize, 1, rateSide, lons})
		for range rateLinks {
			x = op.ReLU(b, op.Scale(b, x, 1.0001))
		}
		return x, func(p *engine.Plan) float64 { return float64(p.FLOPs()) }
	}
}

// starts are operations that cannot be fused, on a few values.
func starts(b *graph.Builder) (graph.Value, func(*engine.Plan) float64) {
	x := b.Input("x", graph.Shape{1, graph.BlockSize, 1, 2, 2})
	for range rateStarts {
		x = op.Upsample(b, op.AvgPool(b, x, [3]int{1, 2, 2}), [3]int{1, 2, 2}, false)
	}
	return x, func(p *engine.Plan) float64 { return float64(len(p.Movement(engine.Peaks{}))) }
}
