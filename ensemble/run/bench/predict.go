package bench

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// PredictedStep is the step that `ensemble plan` predicts with rates that are measured on the ranks of the job. All
// ranks measure at the same time, so they share processors, memory and links as in a training.
type PredictedStep struct {
	StepMS    float64 `json:"step_ms"`
	Ratio     float64 `json:"ratio"`  // predicted over the measured median
	GFLOPs    float64 `json:"gflops"` // of the slowest rank
	GBs       float64 `json:"gb_s"`
	LatencyUS float64 `json:"latency_us"` // of the slowest pair of neighbours
	LinkGBs   float64 `json:"link_gb_s"`
	// ShareMS is the step of the slowest rank that computes its share alone, without messages, while the others do the same.
	ShareMS float64 `json:"share_ms"`
	// WaitMS is the time in which ranks wait at exchanges and sums for others that are behind.
	WaitMS float64 `json:"wait_ms"`
	// Convolutions is their time in a step of one rank's share, without messages, over that of the timing table.
	Convolutions float64 `json:"convolutions"`
}

// Sizes and numbers of the messages that measure a link.
const (
	linkRounds      = 200
	linkBytes       = 4 << 20
	linkBytesRounds = 20
)

// predict adds the predicted step to the report of rank 0. alone are the times of steps of the rank's share.
func (o RanksOptions) predict(ctx context.Context, c *comm.Comm, r *RanksReport, alone shareTimes) error {
	k := r.Network
	rates, err := measureRates(ctx, k.Threads, func(ctx context.Context, f func() error) (float64, error) {
		if err := comm.Barrier(c); err != nil {
			return 0, err
		}
		return mean(ctx, f)
	})
	if err != nil {
		return err
	}
	mesh, err := spatial.ParseMesh(r.Mesh)
	if err != nil {
		return err
	}
	share := k.shareOf(mesh)
	latency, rate, err := measureLink(c)
	if err != nil {
		return err
	}
	optimiser := setup.Adam
	optimiser.Sharded, optimiser.Compression = r.Sharded, o.compression()
	peaks := rates.Engine()
	own := []float64{peaks.FLOPs, peaks.Bytes, alone.step.Seconds(), latency.Seconds(), rate}
	all, err := comm.AllGather(c, own)
	if err != nil || c.Rank() > 0 {
		return err
	}
	m := setup.TypicalMachine
	m.FLOPs, m.Bytes = all[0], all[1]
	longest, link := all[2], search.Link{Rate: cluster.Rate(all[4])}
	for x := range slices.Chunk(all, len(own)) {
		m.FLOPs, m.Bytes, longest = min(m.FLOPs, x[0]), min(m.Bytes, x[1]), max(longest, x[2])
		link = search.Link{Alpha: max(link.Alpha, cluster.Time(x[3]*float64(cluster.Second))), Rate: min(link.Rate, cluster.Rate(x[4]))}
	}
	m.IntraNode, m.InterNode = link, link
	p := &PredictedStep{GFLOPs: m.FLOPs / 1e9, GBs: m.Bytes / 1e9, LatencyUS: 1e6 * link.Alpha.Seconds(), LinkGBs: float64(link.Rate) / 1e9, ShareMS: 1e3 * longest, WaitMS: 1e3 * max(0, alone.together.Seconds()-longest)}
	if p.Convolutions, err = share.scaleKernels(ctx, &m, cpu.ConvRates(o.Timings.Open(k.Threads)), longest); err != nil {
		return err
	}
	predicted, err := k.price(ctx, m, optimiser, r.Mesh)
	if err != nil {
		return err
	}
	p.StepMS = 1e3*predicted.Step.Seconds() + p.WaitMS
	p.Ratio = p.StepMS / r.TrainMedian
	r.Predicted = p
	return nil
}

// coarsestCell is the side of the coarsest cell of the networks of cases, in points.
const coarsestCell = 32

// shareOf returns a case of about the work of one rank of a mesh: its samples, rows and columns; fewer rows where the mesh
// divides another axis.
func (k Case) shareOf(m spatial.Mesh) Case {
	rows, columns := 1, 1
	for _, a := range m {
		switch a.Name {
		case spatial.DataAxis:
			k.Batch = max(1, k.Batch/a.Size)
		case "lon":
			columns *= a.Size
		default:
			rows *= a.Size
		}
	}
	k.Crop.Height, k.Crop.Width = shareOfSide(k.Crop.Height, rows), shareOfSide(k.Crop.Width, columns)
	return k
}

// shareOfSide returns an n-th of a side, in whole coarsest cells; the side if it is not a multiple of them.
func shareOfSide(points, n int) int {
	if points%coarsestCell != 0 {
		return points
	}
	return max(1, points/coarsestCell/n) * coarsestCell
}

// shareRun measures the training step that a rank computes alone for its share of the work, while the others do the same. Its
// steps alternate with those that are predicted: rates of a shared machine change within seconds.
type shareRun struct {
	*Step
	took      []time.Duration
	intervals [][]time.Duration // by step
}

// shareTimes are the median time of a step of a rank's share, and that of a step in which ranks wait for each other at exchanges and sums.
type shareTimes struct{ step, together time.Duration }

// compileShare compiles the step of the rank's share and runs it without measuring.
func (o RanksOptions) compileShare(ctx context.Context, r *rankRun) (*shareRun, error) {
	step, err := r.of.shareOf(r.mesh).compileTimed(true, true, o.Timings)
	if err != nil {
		return nil, err
	}
	for range benchWarmup {
		if err := step.Run(ctx); err != nil {
			return nil, errors.Join(err, step.Close())
		}
	}
	return &shareRun{Step: step}, nil
}

// run measures a step between two barriers. Without a prediction (nil) it does nothing.
func (s *shareRun) run(ctx context.Context, c *comm.Comm) error {
	if s == nil {
		return nil
	}
	if err := comm.Barrier(c); err != nil {
		return err
	}
	began := time.Now()
	if err := s.Step.Run(ctx); err != nil {
		return err
	}
	s.took = append(s.took, time.Since(began))
	s.intervals = append(s.intervals, intervals(s.plan))
	return comm.Barrier(c)
}

// times returns the measured times; zeros without a prediction.
//
// Errors: those of messages.
func (s *shareRun) times(c *comm.Comm, mesh spatial.Mesh) (t shareTimes, err error) {
	if s == nil {
		return t, nil
	}
	t.step = time.Duration(benchstats.TimesOf(s.took).Median * float64(time.Millisecond))
	t.together, err = inLockstep(c, mesh, s.intervals)
	return t, err
}

// Close frees the step, if there is one.
func (s *shareRun) Close() error {
	if s == nil {
		return nil
	}
	return s.Step.Close()
}

// scaleKernels gives a machine the rates of a timing table, scaled so that the predicted step of a case on one rank has
// the measured time, in seconds. Kernels in a step are slower than in the table: their operands are not in caches, and ranks
// may share processors. It returns the factor of their times.
func (k Case) scaleKernels(ctx context.Context, m *search.Machine, table map[cpu.ConvPass]float64, measured float64) (float64, error) {
	m.ConvRate = func(search.Conv) (float64, bool) { return math.Inf(1), true }
	others, err := k.price(ctx, *m, setup.Adam, "")
	if err != nil {
		return 0, err
	}
	rated := func(factor float64) func(v search.Conv) (float64, bool) {
		return func(v search.Conv) (float64, bool) {
			return cmp.Or(table[cpu.ConvPass(v)], m.FLOPs) / factor, true
		}
	}
	m.ConvRate = rated(1)
	whole, err := k.price(ctx, *m, setup.Adam, "")
	if err != nil {
		return 0, err
	}
	rest := others.Step.Seconds()
	factor := max(measured-rest, measured/2) / (whole.Step.Seconds() - rest) // at least half of a step are convolutions
	m.ConvRate = rated(factor)
	return factor, nil
}

// price returns the predicted step of a case on a machine and a mesh.
func (k Case) price(ctx context.Context, m search.Machine, o search.Optimiser, mesh string) (search.Plan, error) {
	g, err := k.graph(true)
	if err != nil {
		return search.Plan{}, err
	}
	ranks, err := spatial.ParseMesh(mesh)
	if err != nil {
		return search.Plan{}, err
	}
	return search.CostOf(ctx, g, m, o, ranks)
}

// measureLink exchanges messages between pairs of neighbours, all pairs at the same time. It returns the time of a small
// message, and the bytes per second of a large one in each direction.
func measureLink(c *comm.Comm) (latency time.Duration, rate float64, err error) {
	partner := c.Rank() ^ 1
	exchange := func(x, y []float32) error {
		if partner >= c.Size() {
			return nil
		}
		return comm.WaitAll(c.Recv(partner, 0, y), c.Send(partner, 0, x))
	}
	measure := func(values, rounds int) (time.Duration, error) {
		x, y := make([]float32, values), make([]float32, values)
		if err := comm.Barrier(c); err != nil {
			return 0, err
		}
		began := time.Now()
		for range rounds {
			if err := exchange(x, y); err != nil {
				return 0, err
			}
		}
		return time.Since(began) / time.Duration(rounds), nil
	}
	if latency, err = measure(1, linkRounds); err != nil {
		return 0, 0, err
	}
	large, err := measure(linkBytes/4, linkBytesRounds)
	return latency, linkBytes / max(large-latency, time.Microsecond).Seconds(), err
}
