package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/search"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// RanksOptions are the inputs of [RunOnRanks].
type RanksOptions struct {
	Case    Case          // the whole step; Threads are those of one rank
	Mesh    string        // mesh of at least as many ranks as processes; empty: as a training would choose
	Ranks   int           // ranks within this process; under an MPI launcher the number of processes of the job
	Steps   int           // measured; 0: as many as Seconds allow, and at least 5, or 3 if a step takes more than 4 s
	Seconds float64       // 0: 3
	Timings setup.Timings // measured times of kernels
	// ShardOptimizer distributes the optimiser's state over the ranks, as train.shard_optimizer.
	ShardOptimizer bool
	// Density sums this share of the gradients between ranks with different samples, as train.compression.density; 0: all.
	Density float64
	// Predict also predicts the step, after the measurement.
	Predict bool
	// Trace is a file for the timeline of one more step on all ranks; empty: none. Kernels are then timed in all steps.
	Trace string
	// MachineFile is a file for the description of the machine by what is measured, as `ensemble plan --machine` reads it; empty: none.
	MachineFile string
}

// RanksReport is the duration of a training step on ranks: times in ms, rates in useful GFLOP/s.
type RanksReport struct {
	Machine     Machine `json:"machine"` // machine of rank 0, without peaks
	Processes   int     `json:"processes"`
	Ranks       int     `json:"ranks"` // ranks of the mesh; if they are more than the processes, some processes host several
	Transport   string  `json:"transport"`
	Mesh        string  `json:"mesh"`
	Sharded     bool    `json:"shard_optimizer"`   // optimiser state distributed over ranks
	Density     float64 `json:"density,omitempty"` // of sparse sums of gradients; 0: dense
	Network     Case    `json:"network"`
	StepTimes           // of the rank with the largest median
	SamplesPerS float64 `json:"samples_per_s"`
	GFLOP       float64 `json:"forward_gflop"` // work of one forward pass over the whole batch
	GFLOPs      float64 `json:"gflops"`        // rate of the training step
	// WaitMS and BytesSent are the largest of all ranks.
	WaitMS    float64 `json:"wait_ms"`
	BytesSent int64   `json:"bytes_sent"`
	// GradientsHidden is the least of all ranks.
	GradientsHidden float64 `json:"gradients_hidden"`
	// Imbalance is how the times differ that ranks compute; nil on one rank.
	Imbalance  *MeasuredImbalance `json:"imbalance,omitempty"`
	Parameters int                `json:"parameters"`
	Loss       float64            `json:"loss"` // after the last step
	Steps      int                `json:"steps"`
	Warmup     int                `json:"warmup"`
	Predicted  *PredictedStep     `json:"predicted,omitempty"`
	// ByRank has an entry for each rank; it is empty on ranks other than 0.
	ByRank []RankReport `json:"by_rank"`
}

// StepTimes are the times of the measured steps of a rank.
type StepTimes struct {
	TrainMedian float64 `json:"train_ms_median"`
	TrainMin    float64 `json:"train_ms_min"`
	TrainMax    float64 `json:"train_ms_max"`
}

// RankReport is the result of one rank.
type RankReport struct {
	Process int `json:"process"`
	Rank    int `json:"rank"`
	StepTimes
	// WaitMS is the mean time per step that the rank waited for messages: halos, reductions of gradients and
	// moments, and slower ranks. With several ranks in a process it includes the time in which other ranks
	// compute.
	WaitMS float64 `json:"wait_ms"`
	// ComputeMS is the mean time per step in which the rank did not wait.
	ComputeMS float64 `json:"compute_ms"`
	// GradientsMS is the mean time per step in which sums of gradients ran, GradientsWaitMS that in which the rank waited for them, and
	// GradientsHidden the share of the sums that other work of the rank hid.
	GradientsMS     float64 `json:"gradients_ms"`
	GradientsWaitMS float64 `json:"gradients_wait_ms"`
	GradientsHidden float64 `json:"gradients_hidden"`
	BytesSent       int64   `json:"bytes_sent"` // in a step
	Messages        int64   `json:"messages"`   // in a step
	PeakMiB         float64 `json:"peak_mib"`   // memory of the process with all its ranks
	ArenaMiB        float64 `json:"arena_mib"`
	// MemoryMiB is the memory of the rank's parameters, gradients, optimiser state, values and workspace.
	MemoryMiB float64 `json:"memory_mib"`
	CompileMS float64 `json:"compile_ms"` // time to compile the step
}

// rankValueCount is the number of values of a RankReport besides process and rank.
const rankValueCount = 14

// values returns the values for a message.
func (r RankReport) values() [rankValueCount]float64 {
	return [...]float64{r.TrainMedian, r.TrainMin, r.TrainMax, r.WaitMS, r.ComputeMS, r.GradientsMS, r.GradientsWaitMS, r.GradientsHidden,
		float64(r.BytesSent), float64(r.Messages), r.PeakMiB, r.ArenaMiB, r.MemoryMiB, r.CompileMS}
}

// rankReport restores a report from its values.
func rankReport(process, rank int, x []float64) RankReport {
	return RankReport{process, rank, StepTimes{x[0], x[1], x[2]}, x[3], x[4], x[5], x[6], x[7], int64(x[8]), int64(x[9]), x[10], x[11], x[12], x[13]}
}

// RunOnRanks measures training steps of a case on all ranks of a job.
//
// Errors: exit 64 for a mesh that does not fit; 64 and 69 for a case that cannot be compiled; 71 if a rank is
// lost; ctx.Err().
func RunOnRanks(ctx context.Context, o RanksOptions) (*RanksReport, error) {
	if o.Seconds == 0 {
		o.Seconds = 3
	}
	ranks, err := setup.MeshRanks(o.Mesh)
	if err != nil {
		return nil, err
	}
	out := &RanksReport{}
	transport, err := team.RunRanks(o.Ranks, ranks, config.DefaultStallTimeout, func(c *comm.Comm) error {
		r, share, err := o.measure(ctx, c)
		if err == nil && o.predicts() {
			err = o.predict(ctx, c, r, share)
		}
		if err == nil && c.Rank() == 0 {
			out = r
		}
		return err
	})
	out.Transport = transport
	if err == nil && o.MachineFile != "" && len(out.ByRank) > 0 {
		err = out.writeMachine(o.MachineFile)
	}
	return out, err
}

// predicts reports whether the step is also predicted.
func (o RanksOptions) predicts() bool { return o.Predict || o.MachineFile != "" }

// rankRun is a compiled step of a rank.
type rankRun struct {
	of       Case
	c        *comm.Comm
	clock    *comm.WaitClock
	mesh     spatial.Mesh
	plan     *spatial.Plan
	opt      *optim.Optimizer
	n        uint64 // of the next step
	computed []float64
	share    *shareRun // nil without a prediction
	report   RankReport
}

// compile compiles the step of a rank, with the time of each kernel if that is traced.
func (o RanksOptions) compile(c *comm.Comm) (*rankRun, error) {
	r := &rankRun{of: o.Case.shareThreads(c.Size())}
	k := &r.of
	if err := k.check(); err != nil {
		return nil, err
	}
	var err error
	if r.mesh, err = o.mesh(*k, c); err != nil {
		return nil, err
	}
	g, err := k.graph(true)
	if err != nil {
		return nil, err
	}
	r.c, r.clock = c.WithWaitClock()
	begin := time.Now()
	eo := k.Options(o.Trace != "")
	eo.Timings = o.Timings.Open(k.Threads)
	compile := spatial.Compile
	switch {
	case o.isSharded(c):
		compile = spatial.CompileShardedOptimiser
	case o.Density > 0:
		compile = func(g *graph.Graph, c *comm.Comm, m spatial.Mesh, eo engine.Options) (*spatial.Plan, error) {
			return spatial.CompileCompressed(g, c, m, *o.compression(), eo)
		}
	}
	if r.plan, err = compile(g, r.c, r.mesh, eo); err != nil {
		return nil, k.named(err, "")
	}
	if c.Rank() == 0 {
		o.Timings.Save(eo.Timings)
	}
	oo := optim.Options{Threads: k.Threads}
	if o.isSharded(c) {
		oo.Ranks = r.plan.Shards()
	}
	if r.opt, err = optim.New(r.plan.Store(), oo); err != nil {
		return nil, errors.Join(err, r.plan.Close())
	}
	for name, whole := range k.fields(0, g.Find("x").Shape, g.Find("target").Shape) {
		s := g.Find(name).Shape
		spatial.ExtractBox(r.plan.Input(name), whole, s, r.plan.OwnedBox(name, s))
	}
	debug.FreeOSMemory() // exclude memory of the compilation
	r.report = RankReport{CompileMS: float64(time.Since(begin)) / 1e6, ArenaMiB: mib(r.plan.ArenaBytes()), MemoryMiB: mib(r.plan.MemoryBytes() + r.plan.Store().Bytes() + r.opt.Bytes())}
	return r, nil
}

// isSharded reports whether the optimiser is sharded.
func (o RanksOptions) isSharded(c *comm.Comm) bool { return o.ShardOptimizer && c.Size() > 1 }

// compression is that of the sums of gradients; nil if they are dense.
func (o RanksOptions) compression() *spatial.Compression {
	if o.Density == 0 {
		return nil
	}
	return &spatial.Compression{Options: topk.Options{Density: o.Density}}
}

// step runs a training step. It returns its time, and the part in which the rank did not wait.
func (r *rankRun) step(ctx context.Context) (took, computed time.Duration, err error) {
	begin, waited := time.Now(), r.clock.Waited()
	if err = r.plan.Run(ctx, r.n); err == nil {
		_, err = r.opt.Step(benchRate)
	}
	r.n++
	took = time.Since(begin)
	return took, took - (r.clock.Waited() - waited), err
}

// Close frees plans and optimiser.
func (r *rankRun) Close() error { return errors.Join(r.opt.Close(), r.plan.Close(), r.share.Close()) }

// time measures steps, as many as the options ask for.
func (r *rankRun) time(ctx context.Context, o RanksOptions) error {
	var took time.Duration
	var err error
	for range benchWarmup {
		if took, _, err = r.step(ctx); err != nil {
			return err
		}
	}
	steps, err := o.steps(r.c, took)
	if err != nil {
		return err
	}
	own := &r.report
	if own.PeakMiB, err = setup.PeakMiB(); err != nil {
		return err
	}
	if o.predicts() {
		if r.share, err = o.compileShare(ctx, r); err != nil {
			return err
		}
	}
	r.plan.ResetTimes()
	costs := r.plan.SumCosts()
	times := make([]time.Duration, steps)
	var sent comm.Traffic
	var all, computed time.Duration
	for i := range times {
		if err := r.share.run(ctx, r.c); err != nil {
			return err
		}
		before := r.c.Traffic()
		if times[i], computed, err = r.step(ctx); err != nil {
			return err
		}
		now := r.c.Traffic().Sub(before)
		sent.Messages, sent.Bytes = sent.Messages+now.Messages, sent.Bytes+now.Bytes
		r.computed = append(r.computed, float64(computed)/1e6)
		all += times[i]
	}
	perStep := func(d time.Duration) float64 { return float64(d) / 1e6 / float64(steps) }
	ms := benchstats.TimesOf(times)
	own.StepTimes = StepTimes{ms.Median, ms.Min, ms.Max}
	for _, c := range r.computed {
		own.ComputeMS += c / float64(steps)
	}
	own.WaitMS = perStep(all) - own.ComputeMS
	own.BytesSent, own.Messages = sent.Bytes/int64(steps), sent.Messages/int64(steps)
	now := r.plan.SumCosts()
	own.GradientsMS, own.GradientsWaitMS = perStep(now.Running-costs.Running), perStep(now.Exposed-costs.Exposed)
	if own.GradientsMS > 0 {
		own.GradientsHidden = max(0, 1-own.GradientsWaitMS/own.GradientsMS)
	}
	return nil
}

// measure runs on every rank. It also returns the times of steps of the rank's share, for a prediction.
func (o RanksOptions) measure(ctx context.Context, c *comm.Comm) (report *RanksReport, share shareTimes, err error) {
	r, err := o.compile(c)
	if err != nil {
		return nil, share, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.time(ctx, o); err != nil {
		return nil, share, err
	}
	if loss := r.plan.Loss(); math.IsNaN(loss) || math.IsInf(loss, 0) {
		return nil, share, &exit.Error{Code: exit.No, What: "the loss is not finite", At: r.of.String(), Fix: "report this with the command line"}
	}
	if report, err = o.report(r); err != nil {
		return nil, share, err
	}
	if share, err = r.share.times(r.c, r.mesh); err != nil {
		return nil, share, err
	}
	if o.Trace != "" {
		err = r.writeTrace(ctx, o.Trace)
	}
	return report, share, err
}

// report gathers the results of all ranks.
func (o RanksOptions) report(r *rankRun) (*RanksReport, error) {
	numbers := r.report.values()
	all, err := comm.AllGather(r.c, numbers[:])
	if err != nil {
		return nil, err
	}
	computed, err := comm.AllGather(r.c, r.computed)
	if err != nil {
		return nil, err
	}
	flops, err := r.of.FLOPs()
	if err != nil {
		return nil, err
	}
	cpu := cpuinfo.Read()
	out := &RanksReport{
		Machine:   Machine{CPU: cpu.Model, Cores: cpu.Cores, ISA: cpu.Features, Go: runtime.Version(), OneDNN: dnnl.Version(), Peaks: []Peak{}},
		Processes: team.ProcessCount(r.c), Ranks: r.c.Size(), Mesh: r.mesh.String(), Sharded: o.isSharded(r.c), Density: o.Density, Network: r.of, GFLOP: float64(flops) / 1e9,
		Parameters: r.plan.Store().ParamCount(), Loss: r.plan.Loss(), Steps: len(r.computed), Warmup: benchWarmup, GradientsHidden: 1,
		Imbalance: measuredImbalance(slices.Collect(slices.Chunk(computed, len(r.computed)))),
	}
	for rank := range r.c.Size() {
		one := rankReport(r.c.Process(rank), rank, all[rank*rankValueCount:(rank+1)*rankValueCount])
		out.ByRank = append(out.ByRank, one)
		out.WaitMS, out.BytesSent = max(out.WaitMS, one.WaitMS), max(out.BytesSent, one.BytesSent)
		out.GradientsHidden = min(out.GradientsHidden, one.GradientsHidden)
	}
	slowest := slices.MaxFunc(out.ByRank, func(a, b RankReport) int { return cmp.Compare(a.TrainMedian, b.TrainMedian) })
	out.StepTimes = slowest.StepTimes
	out.SamplesPerS = 1000 * float64(r.of.Batch) / out.TrainMedian
	out.GFLOPs = TrainPasses * float64(flops) / out.TrainMedian / 1e6
	return out, nil
}

// mib converts bytes to MiB.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// steps returns the number of steps for all ranks, from the duration of the last one on rank 0.
func (o RanksOptions) steps(c *comm.Comm, took time.Duration) (int, error) {
	if o.Steps > 0 {
		return o.Steps, nil
	}
	least := benchMinSteps
	if took > benchSlow {
		least = benchMinSlowSteps
	}
	n := []int64{max(int64(least), int64(o.Seconds/took.Seconds()))}
	err := comm.Broadcast(c, 0, n)
	return int(n[0]), err
}

// shareThreads returns the case for one of n ranks on this machine: unset threads are divided evenly.
func (k Case) shareThreads(n int) Case {
	if k.Threads == 0 {
		k.Threads = max(1, network.Threads(0)/n)
	}
	return k
}

// mesh returns the mesh of the options, or the one that a training would choose; with sparse sums the fastest one with data ranks.
//
// Errors: exit 64 for sparse sums without data ranks.
func (o RanksOptions) mesh(k Case, c *comm.Comm) (spatial.Mesh, error) {
	without := func(mesh spatial.Mesh) error {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("sparse sums on mesh %q", mesh.String()), At: "--density",
			Why: "gradients are sparse between ranks with different samples, and the mesh has no data axis of several ranks", Fix: fmt.Sprintf("give --mesh data:%d --batch %d", max(2, c.Size()), max(2, c.Size()))}
	}
	if o.Density == 0 || o.Mesh != "" {
		m, err := k.mesh(o.Mesh, c)
		if err == nil && o.Density > 0 && !m.HasDataRanks() {
			err = without(m)
		}
		return m, err
	}
	g, err := k.graph(true)
	if err != nil {
		return nil, err
	}
	optimiser := setup.Adam
	optimiser.Compression = o.compression()
	found, err := search.Search(context.Background(), g, c.Size(), setup.TypicalMachine, optimiser, search.Options{})
	if errors.Is(err, search.ErrMesh) {
		return nil, setup.NoMeshError(c.Size(), "--ranks", g)
	}
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found.Meshes, func(p search.Plan) bool { return p.Mesh.HasDataRanks() })
	if i < 0 {
		return nil, without(found.Best.Mesh)
	}
	return found.Meshes[i].Mesh, nil
}

// mesh returns the mesh in text, or the one that a training on n ranks would choose.
//
// Errors: exit 64 if it does not have n ranks, or none exists.
func (k Case) mesh(text string, c *comm.Comm) (spatial.Mesh, error) {
	n := c.Size()
	g, err := k.graph(true)
	if err != nil {
		return nil, err
	}
	if text != "" {
		m, err := spatial.ParseMesh(text)
		if err == nil && m.Size() != n {
			err = &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a mesh of %d ranks (%v) in a job of %d", m.Size(), m, n), At: "--mesh",
				Why: "every process needs a rank of the mesh", Fix: "start at most as many processes as it has ranks"}
		}
		if err == nil {
			err = setup.BenchMesh.CheckMesh(g, m, k.Batch, team.ProcessCount(c))
		}
		return m, err
	}
	return setup.FastestMesh(context.Background(), g, setup.TypicalMachine, n, setup.Adam, "--mesh")
}
