package bench

import (
	"context"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Phase is the task of one measuring process.
type Phase string

// Phases. Each runs in a separate process, so that peak memory is measured separately.
const (
	BenchTrain    Phase = "train"    // gradients, loss and Adam's update
	BenchPredict  Phase = "predict"  // forward only
	BenchGradient Phase = "gradient" // error of a gradient relative to float64
)

// Request is the input of a measuring process.
type Request struct {
	Case  Case  `json:"case"`
	Phase Phase `json:"phase"`
	// Steps is the number of measured steps; 0: as many as Seconds allow, at least the minimum.
	Steps   int     `json:"steps"`
	Seconds float64 `json:"seconds"`
	// Kernels requests the timeline of one more step; Peak gives the bounds of its kernels.
	Kernels bool `json:"kernels"`
	// Pairs requests Measurement.Ratios, and nothing else.
	Pairs   bool   `json:"pairs,omitempty"`
	Peak    Peak   `json:"peak"`
	Timings string `json:"timings,omitempty"` // folder of kernel timings; empty: none
}

// Measurement is the result of a measuring process.
type Measurement struct {
	MS         benchstats.Times `json:"ms"`
	Warmup     int              `json:"warmup"`
	CompileMS  float64          `json:"compile_ms"`
	PeakMiB    float64          `json:"peak_mib"`    // resident memory of the process
	ArenaMiB   float64          `json:"arena_mib"`   // all values of a step
	PlannedMiB float64          `json:"planned_mib"` // expected PeakMiB
	Parameters int              `json:"parameters"`
	Loss       float64          `json:"loss,omitempty"` // after the last step
	// GradientError is ‖g − g64‖₂ / ‖g64‖₂ over all parameters.
	GradientError float64     `json:"gradient_error,omitempty"`
	Step          *StepRecord `json:"step,omitempty"`   // one more step, if requested
	Ratios        *Ratios     `json:"ratios,omitempty"` // of pairs, if requested
}

// StepRecord is the timeline of one step.
type StepRecord struct {
	Phase     Phase               `json:"phase"`
	Whole     time.Duration       `json:"whole_ns"`
	Graph     time.Duration       `json:"graph_ns"`     // forward and backward
	Optimizer time.Duration       `json:"optimizer_ns"` // Adam's update, after the graph
	Kernels   []engine.KernelTime `json:"kernels"`
}

// Numbers of steps.
const (
	benchWarmup   = 2 // steps before the first measured one
	benchMinSteps = 5 // measured steps, if their number is not given
	// A step that takes longer than benchSlow is warmed up once, and measured
	// benchMinSlowSteps times at least.
	benchSlow         = 4 * time.Second
	benchMinSlowSteps = 3 // measured steps of a slow step, at least
)

// Repeat warms a step up, calls warm, and returns the times of measured steps: steps of them or, if that is
// 0, as many as seconds allow and at least the minimum. The last warm-up step decides whether the step counts
// as slow; a slow step's warm-up is also its first measurement. (The first step includes one-time work.)
// clock is time.Now.
func Repeat(step func() error, warm func(), steps int, seconds float64, clock func() time.Time) (all []time.Duration, warmup int, err error) {
	var start time.Time
	for range benchWarmup {
		start = clock()
		if err := step(); err != nil {
			return nil, 0, err
		}
	}
	least := benchMinSteps
	warmup = benchWarmup
	if took := clock().Sub(start); took > benchSlow {
		all, least = append(all, took), benchMinSlowSteps
		warmup--
	} else {
		start = clock()
	}
	warm()
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	for len(all) < steps || steps == 0 && (len(all) < least || clock().Before(end)) {
		start := clock()
		if err := step(); err != nil {
			return nil, 0, err
		}
		all = append(all, clock().Sub(start))
	}
	return all, warmup, nil
}

// Measure performs one measurement in this process.
//
// Errors: those of engine.Compile: exit 64 and 69, before any timing; ctx.Err().
func Measure(ctx context.Context, r Request) (*Measurement, error) {
	if err := r.Case.check(); err != nil {
		return nil, err
	}
	if r.Phase == BenchGradient {
		e, err := r.Case.gradientError(ctx)
		return &Measurement{GradientError: e}, err
	}
	if r.Pairs {
		ratios, err := r.ratios(ctx)
		return &Measurement{Ratios: &ratios}, err
	}
	begin := time.Now()
	s, err := r.Case.compileTimed(r.Phase == BenchTrain, r.Kernels, setup.Timings{Dir: r.Timings})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m := &Measurement{
		CompileMS: float64(time.Since(begin)) / 1e6, ArenaMiB: float64(s.plan.ArenaBytes()) / (1 << 20),
		Parameters: s.plan.Store().ParamCount(), PlannedMiB: float64(setup.StepMemory(s.MemoryBytes())) / (1 << 20),
	}
	all, warmup, err := Repeat(func() error { return s.Run(ctx) }, s.plan.ResetTimes, r.Steps, r.Seconds, time.Now)
	if err != nil {
		return nil, err
	}
	m.MS, m.Warmup = benchstats.TimesOf(all), warmup
	if m.Loss = s.plan.Loss(); math.IsNaN(m.Loss) || math.IsInf(m.Loss, 0) {
		return nil, &exit.Error{Code: exit.No, What: "the loss is not finite", At: r.Case.String(), Fix: "report this with the command line"}
	}
	if m.PeakMiB, err = setup.PeakMiB(); err != nil {
		return nil, err
	}
	if r.Kernels {
		if m.Step, err = s.record(ctx, r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// record runs one more step and returns its timeline.
func (s *Step) record(ctx context.Context, r Request) (*StepRecord, error) {
	start := time.Now()
	if err := s.plan.Run(ctx, s.n); err != nil {
		return nil, err
	}
	out := &StepRecord{Phase: r.Phase, Graph: time.Since(start), Kernels: s.plan.Timeline(r.Peak.Engine())}
	if s.opt != nil {
		begin := time.Now()
		if _, err := s.opt.Step(benchRate); err != nil {
			return nil, err
		}
		out.Optimizer = time.Since(begin)
	}
	out.Whole = time.Since(start)
	return out, nil
}

// adam returns FLOPs and bytes of the optimiser's update of n parameters: a sum of squares over the
// gradients, then one pass that reads gradient, parameter and both moments and writes the last three.
func (r *StepRecord) adam(n int, peak engine.Peaks) engine.KernelTime {
	const flops, values = 2 + 15, 1 + 7 // per parameter
	m := engine.Movement{Op: "adam", Kernel: "sweep", Class: engine.Pointwise, Shape: graph.Shape{n},
		FLOPs: flops * int64(n), LeastFLOPs: flops * int64(n), Bytes: 4 * values * int64(n), MeasuredS: r.Optimizer.Seconds()}
	m.BoundS, m.Bound = peak.Bound(m.FLOPs, m.Bytes)
	if m.MeasuredS > 0 && peak.Bytes > 0 {
		m.MUE = 100 * float64(m.Bytes) / m.MeasuredS / peak.Bytes
	}
	return engine.KernelTime{Movement: m, Start: r.Whole - r.Optimizer, Duration: r.Optimizer}
}

// compileTimed compiles a checked case with kernels chosen by their measured times.
func (k Case) compileTimed(train, profile bool, t setup.Timings) (*Step, error) {
	o := k.Options(profile)
	o.Timings = t.Open(k.Threads)
	s, err := k.compile(train, o)
	if err == nil {
		t.Save(o.Timings)
	}
	return s, err
}
