package bench

import (
	"context"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
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
	Sharing   float64 `json:"sharing"` // rate of rank 0 beside the others over its rate alone
}

// Sizes and numbers of the messages that measure a link.
const (
	linkRounds      = 200
	linkBytes       = 4 << 20
	linkBytesRounds = 20
)

// predict adds the predicted step to the report of rank 0.
func (o RanksOptions) predict(ctx context.Context, c *comm.Comm, r *RanksReport) error {
	threads := r.Network.Threads
	var alone Peak
	var err error
	if c.Rank() == 0 {
		if alone, err = measureRates(ctx, threads, mean); err != nil {
			return err
		}
	}
	together, err := measureRates(ctx, threads, func(ctx context.Context, f func() error) (float64, error) {
		if err := comm.Barrier(c); err != nil {
			return 0, err
		}
		return mean(ctx, f)
	})
	if err != nil {
		return err
	}
	latency, rate, err := measureLink(c)
	if err != nil {
		return err
	}
	peaks := together.Engine()
	all, err := comm.AllGather(c, []float64{peaks.FLOPs, peaks.Bytes, latency.Seconds(), rate})
	if err != nil || c.Rank() > 0 {
		return err
	}
	m, sharing := setup.TypicalMachine, together.GFLOPs/alone.GFLOPs
	m.FLOPs, m.Bytes = all[0], all[1]
	link := search.Link{Alpha: cluster.Time(all[2] * float64(cluster.Second)), Rate: cluster.Rate(all[3])}
	for x := range slices.Chunk(all, 4) {
		m.FLOPs, m.Bytes = min(m.FLOPs, x[0]), min(m.Bytes, x[1])
		link = search.Link{Alpha: max(link.Alpha, cluster.Time(x[2]*float64(cluster.Second))), Rate: min(link.Rate, cluster.Rate(x[3]))}
	}
	m.IntraNode, m.InterNode = link, link
	kernels := cpu.ConvRates(o.Timings.Open(threads)) // measured by one rank alone
	m.ConvRate = func(v search.Conv) (float64, bool) {
		flops, ok := kernels[cpu.ConvPass(v)]
		return flops * sharing, ok
	}
	step, err := r.plan(ctx, m)
	if err != nil {
		return err
	}
	r.Predicted = &PredictedStep{StepMS: 1e3 * step.Seconds(), Ratio: 1e3 * step.Seconds() / r.TrainMedian, GFLOPs: m.FLOPs / 1e9, GBs: m.Bytes / 1e9,
		LatencyUS: 1e6 * link.Alpha.Seconds(), LinkGBs: float64(link.Rate) / 1e9, Sharing: sharing}
	return nil
}

// plan returns the predicted time of the measured step on a machine.
func (r *RanksReport) plan(ctx context.Context, m search.Machine) (cluster.Time, error) {
	g, err := r.Network.graph(true)
	if err != nil {
		return 0, err
	}
	mesh, err := spatial.ParseMesh(r.Mesh)
	if err != nil {
		return 0, err
	}
	optimiser := setup.Adam
	optimiser.Sharded = r.Sharded
	p, err := search.CostOf(ctx, g, m, optimiser, mesh)
	return p.Step, err
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
