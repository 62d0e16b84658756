package cuda

import (
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// CopyAsync copies between host and device, after all enqueued work and concurrently
// with later work. arrived makes later work wait for it.
func (b *Backend) CopyAsync(dst, src []float32) (arrived func() error, err error) {
	if len(dst) == 0 {
		return func() error { return nil }, nil
	}
	t, err := b.dev.CopyAsync(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), elem*int64(len(dst)))
	if err != nil {
		return nil, err
	}
	return func() error { return b.dev.Join(t) }, nil
}

// emulatedCopyRate is the bandwidth between host and emulated device, in bytes per
// second: that of PCI Express 5 with 16 lanes. Only its ratio to the rates of kernels
// matters.
const emulatedCopyRate = 50e9

// CopyRates returns the bandwidths of copies to the host and from it, in bytes per
// second. They are measured once, with copies of 32 MiB, beyond which the bandwidth no
// longer increases.
func (b *Backend) CopyRates() (toHost, fromHost float64, err error) {
	if b.dev.Properties().Emulated {
		return emulatedCopyRate, emulatedCopyRate, nil
	}
	if b.copyRates[0] > 0 {
		return b.copyRates[0], b.copyRates[1], nil
	}
	const bytes = 32 << 20
	dev, err := b.dev.Alloc(bytes)
	if err != nil {
		return 0, 0, noMemory(err)
	}
	defer b.dev.Free(dev)
	host, err := b.dev.AllocHost(bytes)
	if err != nil {
		return 0, 0, err
	}
	defer b.dev.FreeHost(host)
	for i, pair := range [][2]device.Pointer{{host, dev}, {dev, host}} {
		best := time.Duration(1 << 62)
		for range 4 { // the first may be slower
			if err := b.dev.Wait(); err != nil {
				return 0, 0, err
			}
			start := time.Now()
			t, err := b.dev.CopyAsync(pair[0], pair[1], bytes)
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
		b.copyRates[i] = bytes / best.Seconds()
	}
	return b.copyRates[0], b.copyRates[1], nil
}

// FreeBytes returns the free memory, or all memory if the device does not report it.
func (b *Backend) FreeBytes() (int64, error) {
	if d, ok := b.dev.(interface{ FreeBytes() (int64, error) }); ok {
		return d.FreeBytes()
	}
	return b.dev.Properties().MemoryBytes, nil
}

// EstimateSeconds estimates the run time of a kernel at the rates of the cost model:
//
//	max(launch + bytes/memoryRate, launch + FLOPs/rate)
//
// The second term counts for windowed operations only; rate is that of the tensor cores
// for channels-last fields, else that of the CUDA cores.
func (b *Backend) EstimateSeconds(q backend.Request) float64 {
	bytes := storedBytes(q.Out)
	last := q.Out.Layout == graph.ChannelsLast
	for _, t := range q.In {
		bytes += storedBytes(t)
		last = last || t.Layout == graph.ChannelsLast
	}
	seconds := startTime + bytes/memoryRate
	if in := q.InShapes(); isWindowed(q.Op, in, q.Attrs) {
		rate := float64(plainRate)
		if last {
			rate = matrixRate
		}
		seconds = max(seconds, startTime+float64(q.Op.FLOPs(in, q.Out.Shape, q.Attrs))/rate)
	}
	return seconds
}

// storedBytes returns the size of a value in memory.
func storedBytes(t backend.Tensor) float64 { return float64(elems(t)) * float64(t.DType.Bytes()) }
