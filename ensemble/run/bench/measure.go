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

// Phase is what one process of a measurement does.
type Phase string

// The phases. Each has a process of its own, so that its peak memory is its own.
const (
	BenchTrain    Phase = "train"    // gradients, loss and Adam's update
	BenchPredict  Phase = "predict"  // forward only
	BenchGradient Phase = "gradient" // distance of a gradient from float64
)

// Request is what a process is asked to measure.
type Request struct {
	Case  Case  `json:"case"`
	Phase Phase `json:"phase"`
	// Steps is the number of measured steps; 0 takes Seconds, and no fewer than the
	// least.
	Steps   int     `json:"steps"`
	Seconds float64 `json:"seconds"`
	// Kernels asks for the timeline of the last step, bounded by Peak.
	Kernels bool   `json:"kernels"`
	Peak    Peak   `json:"peak"`
	Timings string `json:"timings,omitempty"` // folder of kernels' timings; empty: none
}

// Measurement is what it answers.
type Measurement struct {
	MS         benchstats.Times `json:"ms"`
	Warmup     int              `json:"warmup"`
	CompileMS  float64          `json:"compile_ms"`
	PeakMiB    float64          `json:"peak_mib"`
	ArenaMiB   float64          `json:"arena_mib"`
	Parameters int              `json:"parameters"`
	Loss       float64          `json:"loss,omitempty"` // after the last step
	// GradientError is |g − g64|₂ / |g64|₂ over all parameters together.
	GradientError float64     `json:"gradient_error,omitempty"`
	Step          *StepRecord `json:"step,omitempty"` // one more step, if asked for
}

// StepRecord is the timeline of one step.
type StepRecord struct {
	Phase     Phase               `json:"phase"`
	Whole     time.Duration       `json:"whole_ns"`
	Graph     time.Duration       `json:"graph_ns"`     // forward and backward
	Optimizer time.Duration       `json:"optimizer_ns"` // Adam's update, after the graph
	Kernels   []engine.KernelTime `json:"kernels"`
}

const (
	benchWarmup   = 2 // steps before the first measured one
	benchMinSteps = 5 // measured steps, if their number is not given
	// A step that takes longer than benchSlow is warmed up once, and measured
	// benchMinSlowSteps times at least.
	benchSlow         = 4 * time.Second
	benchMinSlowSteps = 3
)

// Repeat warms a step up, calls warm, and takes the step's times: as many as steps
// says, or if that is 0, as many as seconds allow and no fewer than the least. The
// last step of the warm-up tells whether it is a slow one (the first also pays for
// what is done once), and is the first measured one then. clock is time.Now.
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

// Measure does what one process of a measurement is asked for.
//
// Errors: as of engine.Compile: exit 64 and 69, before any timing; ctx.Err().
func Measure(ctx context.Context, r Request) (*Measurement, error) {
	if err := r.Case.check(); err != nil {
		return nil, err
	}
	if r.Phase == BenchGradient {
		e, err := r.Case.gradientError(ctx)
		return &Measurement{GradientError: e}, err
	}
	begin := time.Now()
	s, err := r.Case.compileTimed(r.Phase == BenchTrain, r.Kernels, setup.Timings{Dir: r.Timings})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m := &Measurement{
		CompileMS: float64(time.Since(begin)) / 1e6, ArenaMiB: float64(s.plan.ArenaBytes()) / (1 << 20),
		Parameters: s.plan.Store().ParamCount(),
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

// record takes one more step and gives its timeline.
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

// adam is what the optimiser's update of n parameters computes and moves: a sum of
// squares over the gradients, then one sweep that reads gradient, parameter and
// both moments and writes the last three.
func (r *StepRecord) adam(n int, peak engine.Peaks) engine.KernelTime {
	const flops, values = 2 + 15, 1 + 7 // for each parameter
	m := engine.Movement{Op: "adam", Kernel: "sweep", Class: engine.Pointwise, Shape: graph.Shape{n},
		FLOPs: flops * int64(n), Bytes: 4 * values * int64(n), MeasuredS: r.Optimizer.Seconds()}
	m.BoundS, m.Bound = peak.Bound(m.FLOPs, m.Bytes)
	if m.MeasuredS > 0 && peak.Bytes > 0 {
		m.MUE = 100 * float64(m.Bytes) / m.MeasuredS / peak.Bytes
	}
	return engine.KernelTime{Movement: m, Start: r.Whole - r.Optimizer, Duration: r.Optimizer}
}

// compileTimed is Compile of a checked case with cuts of kernels by their times.
func (k Case) compileTimed(train, profile bool, t setup.Timings) (*Step, error) {
	o := k.Options(profile)
	o.Timings = t.Open(k.Threads)
	s, err := k.compile(train, o)
	if err == nil {
		t.Save(o.Timings)
	}
	return s, err
}
