package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
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
	Updates   float64 `json:"update_gib_s"`    // rate of x += y, GiB/s
	Caches    []Cache `json:"caches,omitempty"`
}

// Cache describes the second caches of the threads' cores together, or the third cache.
type Cache struct {
	Level     int     `json:"level"`           // 2 or 3
	MiB       float64 `json:"mib"`             // what it holds
	Bandwidth float64 `json:"bandwidth_gib_s"` // rate of a copy within the second caches, of reading from the third, GiB/s
}

// Engine converts the peaks to the units of plans.
func (p Peak) Engine() engine.Peaks {
	e := engine.Peaks{FLOPs: p.GFLOPs * 1e9, Bytes: max(p.Bandwidth, p.Updates) * (1 << 30)}
	for _, c := range p.Caches {
		e.Caches = append(e.Caches, engine.CacheLevel{Size: int64(c.MiB * (1 << 20)), Bytes: c.Bandwidth * (1 << 30)})
	}
	return e
}

// Sizes of the peak measurements: matrices that keep every core busy for tens of ms, and memory that exceeds
// all caches.
const (
	peakSide      = 2048
	peakCopyBytes = 256 << 20
	// A copy for the rate of the second caches takes a part of the first, whose rate is the highest.
	peakNearBytes = 32 << 10  // of each thread, read and written
	peakNear      = 128 << 20 // bytes that each thread reads and writes within caches, repeatedly, as starting threads takes long
)

// PeakTime is the time of each measurement of MeasurePeak. Tests that do not judge rates shorten it.
var PeakTime = time.Second

// MeasurePeak multiplies large matrices and copies memory on a number of threads. The best repetition counts,
// as a peak is what the hardware can reach.
//
// Errors: ctx.Err(); exit 69 without a backend that multiplies.
func MeasurePeak(ctx context.Context, threads int) (Peak, error) {
	return measureRates(ctx, threads, func(ctx context.Context, f func() error) (float64, error) { return best(ctx, f, PeakTime) })
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
	// rate returns GiB/s of repeated work on bytes.
	rate := func(f func() error, bytes, repeats int) float64 {
		if seconds, wrong := timeOf(ctx, f); wrong == nil {
			return float64(bytes) * float64(repeats) / seconds / (1 << 30)
		} else {
			err = errors.Join(err, wrong)
		}
		return 0
	}
	p.Bandwidth = rate(memoryCopy(p.Threads, peakCopyBytes, 1), 2*peakCopyBytes, 1)
	p.Updates = rate(memoryUpdate(p.Threads, peakCopyBytes, 1), 3*peakCopyBytes, 1)
	if l2, l3 := p.Threads*cpuinfo.Read().L2, cpuinfo.Read().L3; l2 > 0 {
		near := p.Threads * peakNearBytes
		p.Caches = append(p.Caches, Cache{2, float64(l2) / (1 << 20), rate(memoryCopy(p.Threads, near/2, peakNear/peakNearBytes), near, peakNear/peakNearBytes)})
		if far := min(8*l2, l3/2); far > 0 { // does not fit into the second caches
			repeats := max(p.Threads*peakNear/far, 1)
			p.Caches = append(p.Caches, Cache{3, float64(l3) / (1 << 20), rate(memoryRead(p.Threads, far, repeats), far, repeats)})
		}
	}
	return p, err
}

// best returns the shortest time of f in seconds, of runs within some time.
func best(ctx context.Context, f func() error, within time.Duration) (float64, error) {
	times, err := repeat(ctx, f, within)
	return slices.Min(times), err
}

// mean returns the mean time of f in seconds.
func mean(ctx context.Context, f func() error) (float64, error) {
	times, err := repeat(ctx, f, PeakTime)
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
	return onThreads(threads, len(from), repeats, func(lo, hi int) { copy(to[lo:hi], from[lo:hi]) })
}

// line is the number of words of a line of the caches. Caches and memory move whole lines.
const line = 64 / 8

// memoryRead reads bytes repeatedly, each thread its part: a word of each line.
func memoryRead(threads, bytes, repeats int) func() error {
	x := make([]uint64, bytes/8)
	for i := range x {
		x[i] = uint64(i)
	}
	var read atomic.Uint64 // keeps the compiler from leaving the reading out
	return onThreads(threads, len(x), repeats, func(lo, hi int) {
		var a, b, c, d uint64 // four, which do not wait for each other
		for part := x[lo:hi]; len(part) >= 4*line; part = part[4*line:] {
			a, b, c, d = a+part[0], b+part[line], c+part[2*line], d+part[3*line]
		}
		read.Add(a + b + c + d)
	})
}

// memoryUpdate adds bytes to as many others repeatedly, each thread its part: a word of each line. Unlike a copy it reads more
// than it writes, as optimisers and sums of gradients do.
func memoryUpdate(threads, bytes, repeats int) func() error {
	x, y := make([]uint64, bytes/8), make([]uint64, bytes/8)
	for i := range x {
		x[i], y[i] = 1, 1
	}
	return onThreads(threads, len(x), repeats, func(lo, hi int) {
		for to, from := x[lo:hi], y[lo:hi]; len(to) >= line && len(from) >= line; to, from = to[line:], from[line:] {
			to[0] += from[0]
		}
	})
}

// onThreads divides n elements among threads, each of which works on its own repeatedly.
func onThreads(threads, n, repeats int, work func(lo, hi int)) func() error {
	return func() error {
		var all sync.WaitGroup
		for t := range threads {
			all.Go(func() {
				for range repeats {
					work(t*n/threads, (t+1)*n/threads)
				}
			})
		}
		all.Wait()
		return nil
	}
}
