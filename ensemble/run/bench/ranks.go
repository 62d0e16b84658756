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

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
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
	// Predict also predicts the step, after the measurement.
	Predict bool
}

// RanksReport is the duration of a training step on ranks: times in ms, rates in useful GFLOP/s.
type RanksReport struct {
	Machine     Machine `json:"machine"` // machine of rank 0, without peaks
	Processes   int     `json:"processes"`
	Ranks       int     `json:"ranks"` // ranks of the mesh; if they are more than the processes, some processes host several
	Transport   string  `json:"transport"`
	Mesh        string  `json:"mesh"`
	Sharded     bool    `json:"shard_optimizer"` // optimiser state distributed over ranks
	Network     Case    `json:"network"`
	StepTimes           // of the rank with the largest median
	SamplesPerS float64 `json:"samples_per_s"`
	GFLOP       float64 `json:"forward_gflop"` // work of one forward pass over the whole batch
	GFLOPs      float64 `json:"gflops"`        // rate of the training step
	// WaitMS and BytesSent are the largest of all ranks.
	WaitMS     float64        `json:"wait_ms"`
	BytesSent  int64          `json:"bytes_sent"`
	Parameters int            `json:"parameters"`
	Loss       float64        `json:"loss"` // after the last step
	Steps      int            `json:"steps"`
	Warmup     int            `json:"warmup"`
	Predicted  *PredictedStep `json:"predicted,omitempty"`
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
	WaitMS    float64 `json:"wait_ms"`
	BytesSent int64   `json:"bytes_sent"` // in a step
	Messages  int64   `json:"messages"`   // in a step
	PeakMiB   float64 `json:"peak_mib"`   // memory of the process with all its ranks
	ArenaMiB  float64 `json:"arena_mib"`
	// MemoryMiB is the memory of the rank's parameters, gradients, optimiser state, values and workspace.
	MemoryMiB float64 `json:"memory_mib"`
	CompileMS float64 `json:"compile_ms"` // time to compile the step
}

// rankValueCount is the number of values of a RankReport besides process and rank.
const rankValueCount = 10

// values returns the values for a message.
func (r RankReport) values() [rankValueCount]float64 {
	return [...]float64{r.TrainMedian, r.TrainMin, r.TrainMax, r.WaitMS, float64(r.BytesSent), float64(r.Messages), r.PeakMiB, r.ArenaMiB, r.MemoryMiB, r.CompileMS}
}

// rankReport restores a report from its values.
func rankReport(process, rank int, x []float64) RankReport {
	return RankReport{process, rank, StepTimes{x[0], x[1], x[2]}, x[3], int64(x[4]), int64(x[5]), x[6], x[7], x[8], x[9]}
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
		r, err := o.measure(ctx, c)
		if err == nil && o.Predict {
			err = o.predict(ctx, c, r)
		}
		if err == nil && c.Rank() == 0 {
			out = r
		}
		return err
	})
	out.Transport = transport
	return out, err
}

// measure runs on every rank.
func (o RanksOptions) measure(ctx context.Context, c *comm.Comm) (r *RanksReport, err error) {
	k := o.Case.shareThreads(c.Size())
	if err := k.check(); err != nil {
		return nil, err
	}
	m, err := k.mesh(o.Mesh, c)
	if err != nil {
		return nil, err
	}
	g, err := k.graph(true)
	if err != nil {
		return nil, err
	}
	c, clock := c.WithWaitClock()
	begin := time.Now()
	eo := k.Options(false)
	eo.Timings = o.Timings.Open(k.Threads)
	compile, shared := spatial.Compile, o.ShardOptimizer && c.Size() > 1
	if shared {
		compile = spatial.CompileShardedOptimiser
	}
	plan, err := compile(g, c, m, eo)
	if err != nil {
		return nil, k.named(err, "")
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	if c.Rank() == 0 {
		o.Timings.Save(eo.Timings)
	}
	oo := optim.Options{Threads: k.Threads}
	if shared {
		oo.Ranks = plan.Shards()
	}
	opt, err := optim.New(plan.Store(), oo)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	for name, whole := range k.fields(0, g.Find("x").Shape, g.Find("target").Shape) {
		s := g.Find(name).Shape
		spatial.ExtractBox(plan.Input(name), whole, s, plan.OwnedBox(name, s))
	}
	debug.FreeOSMemory() // exclude memory of the compilation
	own := RankReport{CompileMS: float64(time.Since(begin)) / 1e6, ArenaMiB: mib(plan.ArenaBytes()), MemoryMiB: mib(plan.MemoryBytes() + plan.Store().Bytes() + opt.Bytes())}

	var n uint64
	step := func() (time.Duration, error) {
		begin := time.Now()
		err := plan.Run(ctx, n)
		if n++; err == nil {
			_, err = opt.Step(benchRate)
		}
		return time.Since(begin), err
	}
	var took time.Duration
	for range benchWarmup {
		if took, err = step(); err != nil {
			return nil, err
		}
	}
	steps, err := o.steps(c, took)
	if err != nil {
		return nil, err
	}
	sent, waited := c.Traffic(), clock.Waited()
	times := make([]time.Duration, steps)
	for i := range times {
		if times[i], err = step(); err != nil {
			return nil, err
		}
	}
	sent, waited = c.Traffic().Sub(sent), clock.Waited()-waited
	ms := benchstats.TimesOf(times)
	own.StepTimes = StepTimes{ms.Median, ms.Min, ms.Max}
	own.WaitMS = float64(waited) / 1e6 / float64(steps)
	own.BytesSent, own.Messages = sent.Bytes/int64(steps), sent.Messages/int64(steps)
	if own.PeakMiB, err = setup.PeakMiB(); err != nil {
		return nil, err
	}
	loss := plan.Loss()
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return nil, &exit.Error{Code: exit.No, What: "the loss is not finite", At: k.String(), Fix: "report this with the command line"}
	}
	numbers := own.values()
	all, err := comm.AllGather(c, numbers[:])
	if err != nil {
		return nil, err
	}
	flops, err := k.FLOPs()
	if err != nil {
		return nil, err
	}
	cpu := cpuinfo.Read()
	r = &RanksReport{
		Machine:   Machine{CPU: cpu.Model, Cores: cpu.Cores, ISA: cpu.Features, Go: runtime.Version(), OneDNN: dnnl.Version(), Peaks: []Peak{}},
		Processes: team.ProcessCount(c), Ranks: c.Size(), Mesh: m.String(), Sharded: shared, Network: k, GFLOP: float64(flops) / 1e9,
		Parameters: plan.Store().ParamCount(), Loss: loss, Steps: steps, Warmup: benchWarmup,
	}
	for rank := range c.Size() {
		one := rankReport(c.Process(rank), rank, all[rank*rankValueCount:(rank+1)*rankValueCount])
		r.ByRank = append(r.ByRank, one)
		r.WaitMS, r.BytesSent = max(r.WaitMS, one.WaitMS), max(r.BytesSent, one.BytesSent)
	}
	slowest := slices.MaxFunc(r.ByRank, func(a, b RankReport) int { return cmp.Compare(a.TrainMedian, b.TrainMedian) })
	r.StepTimes = slowest.StepTimes
	r.SamplesPerS = 1000 * float64(k.Batch) / r.TrainMedian
	r.GFLOPs = TrainPasses * float64(flops) / r.TrainMedian / 1e6
	return r, nil
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

// Sections returns the report as text.
func (r *RanksReport) Sections() answer.Sections {
	ranks := answer.Section{Columns: []answer.Column{answer.NumberColumn("process", "", ""), answer.NumberColumn("rank", "", ""), answer.NumberColumn("ms", "", "%.1f"), answer.NumberColumn("waited", "ms", "%.1f"),
		answer.NumberColumn("MiB sent", "", "%.2f"), answer.NumberColumn("messages", "", ""), answer.NumberColumn("arena", "MiB", "%.1f"), answer.NumberColumn("memory", "MiB", "%.1f"), answer.NumberColumn("peak", "MiB", "%.1f")}}
	for _, k := range r.ByRank {
		ranks.Rows = append(ranks.Rows, []any{k.Process, k.Rank, k.TrainMedian, k.WaitMS, float64(k.BytesSent) / (1 << 20), k.Messages, k.ArenaMiB, k.MemoryMiB, k.PeakMiB})
	}
	steps := []string{fmt.Sprintf("ms of %s after %d warm-up steps; other columns are per step", humanise.Count(r.Steps, "step"), r.Warmup)}
	if p := r.Predicted; p != nil {
		steps = append(steps, fmt.Sprintf("predicted %.1f ms, %.2f of the measured step, with %.4g GFLOP/s and %.4g GB/s a rank, messages of %.1f µs and %.3g GB/s", p.StepMS, p.Ratio, p.GFLOPs, p.GBs, p.LatencyUS, p.LinkGBs))
	}
	return answer.Sections{{Text: []string{fmt.Sprintf("%s (%s), mesh %s, %v each", setup.DescribeRanks(r.Processes, r.Ranks), r.Transport, cmp.Or(r.Mesh, "none"), r.Network),
		fmt.Sprintf("training step %.1f ms (%.1f to %.1f) of the slowest rank, %.2f samples/s, %.1f GFLOP/s", r.TrainMedian, r.TrainMin, r.TrainMax, r.SamplesPerS, r.GFLOPs)}}, ranks,
		{Text: steps}}
}
