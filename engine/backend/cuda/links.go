package cuda

import (
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Aside copies between the host and the device beside the work.
func (b *Backend) Aside(dst, src []float32) (arrived func() error, err error) {
	if len(dst) == 0 {
		return func() error { return nil }, nil
	}
	t, err := b.dev.CopyAside(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), elem*int64(len(dst)))
	if err != nil {
		return nil, err
	}
	return func() error { return b.dev.Join(t) }, nil
}

// emulatedLink is the rate of the links of an emulated device, in bytes a second, of which
// only the proportion to the rates of kernels counts: that of PCI Express 5 with 16 lanes.
const emulatedLink = 50e9

// Links are measured once, with copies of a size at which the rate no longer grows.
func (b *Backend) Links() (toHost, fromHost float64, err error) {
	if b.dev.Properties().Emulated {
		return emulatedLink, emulatedLink, nil
	}
	if b.links[0] > 0 {
		return b.links[0], b.links[1], nil
	}
	const bytes = 32 << 20
	there, err := b.dev.Alloc(bytes)
	if err != nil {
		return 0, 0, noMemory(err)
	}
	defer b.dev.Free(there)
	here, err := b.dev.AllocHost(bytes)
	if err != nil {
		return 0, 0, err
	}
	defer b.dev.FreeHost(here)
	for i, way := range [][2]device.Pointer{{here, there}, {there, here}} {
		best := time.Duration(1 << 62)
		for range 4 { // the first may be slower
			if err := b.dev.Wait(); err != nil {
				return 0, 0, err
			}
			start := time.Now()
			t, err := b.dev.CopyAside(way[0], way[1], bytes)
			if err != nil {
				return 0, 0, err
			}
			if err := b.dev.Join(t); err != nil {
				return 0, 0, err
			}
			if err := b.dev.Wait(); err != nil {
				return 0, 0, err
			}
			best = min(best, time.Since(start))
		}
		b.links[i] = bytes / best.Seconds()
	}
	return b.links[0], b.links[1], nil
}

// FreeBytes is what the device says, or all it has if it does not.
func (b *Backend) FreeBytes() (int64, error) {
	if d, ok := b.dev.(interface{ FreeBytes() (int64, error) }); ok {
		return d.FreeBytes()
	}
	return b.dev.Properties().MemoryBytes, nil
}

// Seconds is the time of the memory traffic, and of arithmetic where that is what bounds,
// at the rates by which ways are weighed.
func (b *Backend) Seconds(q backend.Request) float64 {
	bytes := stores(q.Out)
	last := q.Out.Layout == graph.Last
	for _, t := range q.In {
		bytes += stores(t)
		last = last || t.Layout == graph.Last
	}
	seconds := startTime + bytes/memoryRate
	if in := q.InShapes(); windowed(q.Op, in, q.Attrs) {
		rate := float64(plainRate)
		if last {
			rate = matrixRate
		}
		seconds = max(seconds, startTime+float64(q.Op.FLOPs(in, q.Out.Shape, q.Attrs))/rate)
	}
	return seconds
}

// stores is the bytes of a value in memory.
func stores(t backend.Tensor) float64 { return float64(elems(t)) * float64(t.DType.Bytes()) }
