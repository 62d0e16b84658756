package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// Options are the inputs of [Run].
type Options struct {
	// Cases are measured one after the other.
	Cases []Case
	// Steps is the number of measured steps; 0: as many as Seconds allow, and at least 5, or 3 if a step takes
	// more than 4 s.
	Steps   int
	Seconds float64 // 0: 3
	// Gradient selects the case on which the gradient is compared with float64: "auto" (also if empty) reduces a
	// large case, "full" does not, "off" skips the comparison.
	Gradient string
	// Movement adds FLOPs and bytes of each operation to every result.
	Movement bool
	// Trace is a file for the timeline of one training step and one prediction of every case; empty: none.
	Trace string
	// Timings are measured times of kernels; unknown ones are measured first.
	Timings setup.Timings
	// Program starts the process of one measurement: it reads a Request from standard input and prints the result
	// of Measure in the form of package answer.
	Program  []string
	Progress *progress.Reporter
}

// Report is the result of [Run].
type Report struct {
	Machine Machine  `json:"machine"`
	Results []Result `json:"results"`
}

// Machine describes the machine. Results of different machines are not comparable.
type Machine struct {
	CPU    string   `json:"cpu"`
	Cores  int      `json:"cores"`
	ISA    []string `json:"features"` // instruction sets
	Go     string   `json:"go"`
	OneDNN string   `json:"onednn"` // empty: not installed
	Peaks  []Peak   `json:"peaks"`  // one per number of threads
}

// Result is the result for one case: times in ms, rates in useful GFLOP/s. A training step counts three
// forward passes of the convolutions.
type Result struct {
	Model          string     `json:"model"`
	Base           int        `json:"base"` // width of the first stage
	Crop           setup.Crop `json:"crop"`
	Batch          int        `json:"batch"`
	Depth          int        `json:"depth"`
	Channels       int        `json:"channels"`
	Threads        int        `json:"threads"`
	Device         string     `json:"device,omitempty"` // "cpu" (also if empty), "cuda" or "auto"
	Precision      string     `json:"precision"`
	MemoryBytes    int64      `json:"memory_bytes,omitempty"` // the limits
	WorkspaceBytes int64      `json:"workspace_bytes,omitempty"`
	Parameters     int        `json:"parameters"`
	TrainMedian    float64    `json:"train_ms_median"`
	TrainMin       float64    `json:"train_ms_min"`
	TrainMax       float64    `json:"train_ms_max"`
	PredictMedian  float64    `json:"predict_ms_median"`
	PredictMin     float64    `json:"predict_ms_min"`
	PredictMax     float64    `json:"predict_ms_max"`
	SamplesPerS    float64    `json:"samples_per_s"` // in training
	PredictPerS    float64    `json:"predict_samples_per_s"`
	GFLOP          float64    `json:"forward_gflop"` // work of one forward pass
	GFLOPs         float64    `json:"gflops"`        // rate of the training step
	PredictGFLOPs  float64    `json:"predict_gflops"`
	PeakGFLOPs     float64    `json:"peak_gflops"`           // rate of a matrix product with as many threads
	PeakFraction   float64    `json:"peak_fraction"`         // GFLOPs / PeakGFLOPs
	PredictShare   float64    `json:"predict_peak_fraction"` // as PeakFraction, of the prediction
	Bandwidth      float64    `json:"bandwidth_gib_s"`       // rate of a copy with as many threads
	// PeakMiB is the peak resident memory of the training process, PredictPeakMiB that of the prediction process.
	// PlannedMiB and PredictPlannedMiB are what `ensemble plan --time` predicts for them.
	PeakMiB           float64 `json:"peak_mib"`
	PlannedMiB        float64 `json:"planned_mib"`
	ArenaMiB          float64 `json:"arena_mib"` // all values of a training step
	PredictPeakMiB    float64 `json:"predict_peak_mib"`
	PredictPlannedMiB float64 `json:"predict_planned_mib"`
	PredictArenaMiB   float64 `json:"predict_arena_mib"`
	// GradientError is ‖g − g64‖₂ / ‖g64‖₂ over all parameters, nil if it was not measured; GradientCase is the
	// case that was used.
	GradientError *float64  `json:"relative_gradient_error"`
	GradientCase  *Case     `json:"gradient_case,omitempty"`
	Ablation      *Ablation `json:"ablation,omitempty"` // nil with all passes of the compiler
	Loss          float64   `json:"loss"`               // after the last step
	Steps         int       `json:"steps"`
	PredictSteps  int       `json:"predict_steps"`
	Warmup        int       `json:"warmup"`     // steps before the measured ones
	CompileMS     float64   `json:"compile_ms"` // time to compile the training step
	// Movement lists the operations of a training step, PredictMovement those of a prediction.
	Movement        []engine.KernelTime `json:"movement,omitempty"`
	PredictMovement []engine.KernelTime `json:"predict_movement,omitempty"`
}

// Run measures every case: peaks of the machine, a training step, a prediction, and the error of the gradient
// relative to float64, each in a separate process.
//
// Errors: exit 64 and 69 for a case that cannot be compiled, before any timing; ctx.Err().
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cpu := cpuinfo.Read()
	r := &Report{Machine: Machine{CPU: cpu.Model, Cores: cpu.Cores, ISA: cpu.Features, Go: runtime.Version(), OneDNN: dnnl.Version()}}
	task := o.Progress.Start("bench", int64(len(o.Cases)))
	defer task.Done()
	b := bencher{Options: o, gradients: map[Case]gradient{}}
	for i, c := range o.Cases {
		task.Set(int64(i), c.String())
		peak, err := r.Machine.peak(ctx, c.Threads)
		if err != nil {
			return nil, err
		}
		res, err := b.measure(ctx, c, peak)
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, *res)
	}
	task.Set(int64(len(o.Cases)), "")
	if o.Trace != "" {
		return r, b.trace.save(o.Trace)
	}
	return r, nil
}

// check completes the options and compiles every case once.
func (o *Options) check() error {
	if len(o.Cases) == 0 || len(o.Program) == 0 || o.Steps < 0 || o.Seconds < 0 {
		return &exit.Error{Code: exit.Usage, What: "no valid case to measure",
			Why: fmt.Sprintf("%d cases, %d steps, %g seconds", len(o.Cases), o.Steps, o.Seconds), Fix: "give at least one case, and no negative times"}
	}
	if o.Seconds == 0 {
		o.Seconds = 3
	}
	if o.Gradient == "" {
		o.Gradient = "auto"
	}
	o.Cases = slices.Clone(o.Cases)
	for i := range o.Cases {
		if err := o.Cases[i].check(); err != nil {
			return err
		}
	}
	for _, c := range o.Cases {
		for _, train := range []bool{true, false} {
			s, err := c.compileTimed(train, false, o.Timings)
			if err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
		}
	}
	debug.FreeOSMemory() // memory for the measuring processes
	return nil
}

// peak returns the peaks for a number of threads, measured once.
func (m *Machine) peak(ctx context.Context, threads int) (Peak, error) {
	if i := slices.IndexFunc(m.Peaks, func(p Peak) bool { return p.Threads == threads }); i >= 0 {
		return m.Peaks[i], nil
	}
	p, err := MeasurePeak(ctx, threads)
	debug.FreeOSMemory()
	m.Peaks = append(m.Peaks, p)
	return p, err
}

// bencher is the state that cases share.
type bencher struct {
	Options
	gradients map[Case]gradient // by case, whatever its threads
	trace     trace
}

// gradient is the error of a gradient, and the case on which it was measured.
type gradient struct {
	of    Case
	error float64
}

// measure runs the processes of one case.
func (b *bencher) measure(ctx context.Context, c Case, peak Peak) (*Result, error) {
	req := Request{Case: c, Steps: b.Steps, Seconds: b.Seconds, Kernels: b.Movement || b.Trace != "", Peak: peak, Timings: b.Timings.Dir}
	req.Phase = BenchTrain
	train, err := b.process(ctx, req)
	if err != nil {
		return nil, err
	}
	req.Phase = BenchPredict
	predict, err := b.process(ctx, req)
	if err != nil {
		return nil, err
	}
	flops, err := c.FLOPs()
	if err != nil {
		return nil, err
	}
	rate := func(passes int, t benchstats.Times) float64 { return float64(passes) * float64(flops) / t.Median / 1e6 }
	r := &Result{
		Model: c.Model, Base: c.Base, Crop: c.Crop, Batch: c.Batch, Depth: c.Depth, Channels: Channels, Threads: c.Threads,
		Device: c.Device, Precision: c.Precision, MemoryBytes: c.MemoryBytes, WorkspaceBytes: c.WorkspaceBytes, Parameters: train.Parameters,
		TrainMedian: train.MS.Median, TrainMin: train.MS.Min, TrainMax: train.MS.Max,
		PredictMedian: predict.MS.Median, PredictMin: predict.MS.Min, PredictMax: predict.MS.Max,
		SamplesPerS: 1000 * float64(c.Batch) / train.MS.Median, PredictPerS: 1000 * float64(c.Batch) / predict.MS.Median,
		GFLOP: float64(flops) / 1e9, GFLOPs: rate(TrainPasses, train.MS), PredictGFLOPs: rate(1, predict.MS),
		PeakGFLOPs: peak.GFLOPs, Bandwidth: peak.Bandwidth,
		PeakMiB: train.PeakMiB, PlannedMiB: train.PlannedMiB, ArenaMiB: train.ArenaMiB,
		PredictPeakMiB: predict.PeakMiB, PredictPlannedMiB: predict.PlannedMiB, PredictArenaMiB: predict.ArenaMiB,
		Loss: train.Loss, Steps: train.MS.N, PredictSteps: predict.MS.N, Warmup: train.Warmup, CompileMS: train.CompileMS,
	}
	r.PeakFraction, r.PredictShare = r.GFLOPs/peak.GFLOPs, r.PredictGFLOPs/peak.GFLOPs
	if b.Trace != "" {
		b.trace.add(c, train.Step, predict.Step)
	}
	if b.Movement {
		r.Movement = append(train.Step.Kernels, train.Step.adam(train.Parameters, peak.Engine()))
		r.PredictMovement = predict.Step.Kernels
	}
	if err := b.ablate(ctx, req, r); err != nil {
		return nil, err
	}
	return r, b.compareGradient(ctx, c, r)
}

// compareGradient adds the error of the gradient to a result.
func (b *bencher) compareGradient(ctx context.Context, c Case, r *Result) error {
	if b.Gradient == "off" {
		return nil
	}
	g := c
	if b.Gradient == "auto" {
		g = c.gradientCase()
	}
	key := g
	key.Threads = 0 // the number of threads does not affect the gradient
	known, ok := b.gradients[key]
	if !ok {
		m, err := b.process(ctx, Request{Case: g, Phase: BenchGradient})
		if err != nil {
			return err
		}
		known = gradient{g, m.GradientError}
		b.gradients[key] = known
	}
	r.GradientError, r.GradientCase = &known.error, &known.of
	return nil
}

// process runs one measurement in a separate process.
//
// Errors: the error of the process; exit 70 if it gave no answer.
func (b *bencher) process(ctx context.Context, r Request) (*Measurement, error) {
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.Program[0], b.Program[1:]...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, runErr := cmd.Output()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var got struct {
		answer.Envelope
		Measurement Measurement `json:"measurement"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return nil, &exit.Error{Code: exit.Bug, What: "the measuring process returned no result", At: r.Case.String(),
			Why: fmt.Sprint(errors.Join(runErr, err)), Fix: "if memory ran out give a smaller case or --memory; else report this", Err: runErr}
	}
	if f := got.Error; f != nil {
		return nil, &exit.Error{Code: exit.Code(got.ExitCode), What: f.What, At: f.At, Why: f.Why, Fix: f.Fix}
	}
	return &got.Measurement, nil
}
