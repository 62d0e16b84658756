package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
)

// Peak are the peak rates of the machine with a number of threads.
type Peak struct {
	Threads   int     `json:"threads"`
	GFLOPs    float64 `json:"peak_gflops"`     // rate of a matrix product
	By        string  `json:"peak_by"`         // implementation that multiplied
	Bandwidth float64 `json:"bandwidth_gib_s"` // rate of a copy, GiB/s
	// CacheMiB is the size of the second caches of the threads' cores, and CacheBandwidth the rate of a copy within them, GiB/s. 0: unknown.
	CacheMiB       float64 `json:"cache_mib,omitempty"`
	CacheBandwidth float64 `json:"cache_bandwidth_gib_s,omitempty"`
}

// Engine converts the peaks to the units of plans.
func (p Peak) Engine() engine.Peaks {
	return engine.Peaks{FLOPs: p.GFLOPs * 1e9, Bytes: p.Bandwidth * (1 << 30), Cache: int64(p.CacheMiB * (1 << 20)), CacheBytes: p.CacheBandwidth * (1 << 30)}
}

// Sizes of the peak measurements: matrices that keep every core busy for tens of ms, and memory that exceeds
// all caches.
const (
	peakSide      = 2048
	peakCopyBytes = 256 << 20
	peakTime      = time.Second // for each of them
	// A copy within caches takes a part of the first cache, whose rate is the highest, and is repeated, as starting threads takes long.
	peakNearBytes   = 32 << 10 // of each thread, read and written
	peakNearRepeats = 4096
)

// MeasurePeak multiplies large matrices and copies memory on a number of threads. The best repetition counts,
// as a peak is what the hardware can reach.
//
// Errors: ctx.Err(); exit 69 without a backend that multiplies.
func MeasurePeak(ctx context.Context, threads int) (Peak, error) {
	return measureRates(ctx, threads, func(ctx context.Context, f func() error) (float64, error) { return best(ctx, f, peakTime) })
}

// measureRates is MeasurePeak with another time of the repetitions: the shortest or the mean.
func measureRates(ctx context.Context, threads int, timeOf func(context.Context, func() error) (float64, error)) (Peak, error) {
	p := Peak{Threads: network.Threads(threads), By: "oneDNN " + dnnl.Version() + " matrix product"}
	multiply, quit, err := oneDNNProduct(p.Threads)
	if errors.Is(err, dnnl.ErrUnavailable) {
		p.By = "1×1×1 convolution of this program"
		multiply, quit, err = ownProduct(ctx, p.Threads)
	}
	if err != nil {
		return p, err
	}
	seconds, err := timeOf(ctx, multiply)
	if err = errors.Join(err, quit()); err != nil {
		return p, err
	}
	p.GFLOPs = 2 * peakSide * peakSide * peakSide / seconds / 1e9
	if seconds, err = timeOf(ctx, memoryCopy(p.Threads, peakCopyBytes, 1)); err != nil {
		return p, err
	}
	p.Bandwidth = 2 * peakCopyBytes / seconds / (1 << 30) // bytes read and written
	if l2 := cpuinfo.Read().L2; l2 > 0 {
		bytes := p.Threads * peakNearBytes / 2
		if seconds, err = timeOf(ctx, memoryCopy(p.Threads, bytes, peakNearRepeats)); err != nil {
			return p, err
		}
		p.CacheMiB = float64(p.Threads*l2) / (1 << 20)
		p.CacheBandwidth = 2 * float64(bytes) * peakNearRepeats / seconds / (1 << 30)
	}
	return p, nil
}

// best returns the shortest time of f in seconds, of runs within some time.
func best(ctx context.Context, f func() error, within time.Duration) (float64, error) {
	times, err := repeat(ctx, f, within)
	return slices.Min(times), err
}

// mean returns the mean time of f in seconds.
func mean(ctx context.Context, f func() error) (float64, error) {
	times, err := repeat(ctx, f, peakTime)
	sum := 0.
	for _, t := range times {
		sum += t
	}
	return sum / float64(len(times)), err
}

// repeat runs f for some time, after one warm-up run, and returns the times in seconds, at least one.
func repeat(ctx context.Context, f func() error, within time.Duration) (times []float64, err error) {
	if err := f(); err != nil {
		return []float64{math.Inf(1)}, err
	}
	for end := time.Now().Add(within); len(times) == 0 || time.Now().Before(end); {
		start := time.Now()
		if err = f(); err == nil {
			err = ctx.Err()
		}
		if times = append(times, time.Since(start).Seconds()); err != nil {
			break
		}
	}
	return times, err
}

// oneDNNProduct multiplies matrices of peakSide with oneDNN.
func oneDNNProduct(threads int) (multiply, quit func() error, err error) {
	if _, err := dnnl.Open(); err != nil {
		return nil, nil, err
	}
	m := make([][]float32, 3)
	for i := range m {
		m[i] = make([]float32, peakSide*peakSide)
		for j := range m[i] {
			m[i][j] = float32(j%7) - 3
		}
	}
	return func() error { return dnnl.SGEMM(peakSide, peakSide, peakSide, m[0], m[1], m[2], threads) }, func() error { return nil }, nil
}

// ownProduct multiplies them as a 1×1×1 convolution: peakSide input and output channels on as many points.
func ownProduct(ctx context.Context, threads int) (multiply, quit func() error, err error) {
	const h, w = 32, peakSide / 32
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, peakSide, 1, h, w})
	f := b.Param("w", graph.Shape{peakSide, peakSide, 1, 1, 1}, graph.HeNormal(peakSide))
	b.Output("y", op.Conv3D(b, x, f, op.Conv{}))
	g, err := b.Build()
	if err != nil {
		return nil, nil, err
	}
	o := network.Options(threads, "")
	o.Mode = engine.Infer
	plan, err := engine.Compile(g, o)
	if err != nil {
		return nil, nil, err
	}
	return func() error { return plan.Run(ctx, 0) }, plan.Close, nil
}

// memoryCopy copies bytes repeatedly, each thread its part.
func memoryCopy(threads, bytes, repeats int) func() error {
	from, to := make([]float32, bytes/4), make([]float32, bytes/4)
	for i := range from {
		from[i] = float32(i)
	}
	return func() error {
		var all sync.WaitGroup
		for t := range threads {
			lo, hi := t*len(from)/threads, (t+1)*len(from)/threads
			all.Go(func() {
				for range repeats {
					copy(to[lo:hi], from[lo:hi])
				}
			})
		}
		all.Wait()
		return nil
	}
}
