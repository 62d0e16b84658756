package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// work collects the calls of the kernel of one operation, in order, and keeps the first
// error.
type work struct {
	b     *Backend
	calls []func() error
	// early is the number of calls, from the first on, that read only available data
	// (backend.Request.Ready).
	early int
	err   error
}

// call adds a call of a kernel of a program.
func (w *work) call(p device.Program, kernel string, size device.Size, args ...any) {
	if w.err != nil || w.b.dryRun || emptyGrid(size) {
		return
	}
	m, err := w.b.load(p)
	if err != nil {
		w.err = err
		return
	}
	c, err := m.Call(kernel, size, args...)
	if err != nil {
		w.err = err
		return
	}
	w.calls = append(w.calls, c.Run)
}

// emptyGrid reports whether a grid has no elements: then gridFor gives it a negative
// size.
func emptyGrid(s device.Size) bool { return s.Grid[0] < 0 || s.Grid[1] < 0 || s.Grid[2] < 0 }

// do adds work that is not one of our kernels.
func (w *work) do(f func() error) {
	if w.err == nil {
		w.calls = append(w.calls, f)
	}
}

// run enqueues the calls.
func (w *work) run() error { return runAll(w.calls) }

// runAll runs calls until one fails.
func runAll(calls []func() error) error {
	for _, c := range calls {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}

// kernel returns a backend kernel that enqueues the calls.
func (w *work) kernel(name string) (backend.Kernel, error) {
	return backend.Kernel{Name: name, Run: w.run}, w.err
}

// withScratch returns a kernel that needs n elements of scratch. Its calls are made
// when the address of the scratch is known (backend.Kernel.SetScratch).
func (b *Backend) withScratch(name string, n int, calls func(w *work, scratch []float32)) (backend.Kernel, error) {
	w := &work{b: b}
	return w.withScratch(name, n, calls), nil
}

// withScratch is Backend.withScratch for w. Run enqueues the calls after the first
// w.early ones; these are left to the caller (backend.Kernel.RunEarly).
func (w *work) withScratch(name string, n int, calls func(w *work, scratch []float32)) backend.Kernel {
	b := w.b
	return backend.Kernel{Name: name, Scratch: elem * int64(n), Run: func() error { return runAll(w.calls[w.early:]) },
		SetScratch: func(scratch []float32) error {
			*w = work{b: b}
			calls(w, scratch[:n])
			return w.err
		}}
}

// table copies constants of a kernel to the device and waits for the copy. release
// frees them.
func (b *Backend) table(numbers []int32) (p device.Pointer, release func(), err error) {
	if b.dryRun {
		return nil, func() {}, nil
	}
	host, err := b.AllocHost(len(numbers))
	if err != nil {
		return nil, nil, err
	}
	dev, err := b.Alloc(len(numbers))
	if err != nil {
		return nil, nil, errors.Join(err, b.Free(host))
	}
	for i, n := range numbers {
		host[i] = math.Float32frombits(uint32(n))
	}
	if err := errors.Join(b.Copy(dev, host), b.Wait(), b.Free(host)); err != nil {
		return nil, nil, errors.Join(err, b.Free(dev))
	}
	return start(dev), func() { _ = b.Free(dev) }, nil // its own
}

// threads is the default number of threads of a block.
const threads = 256

// gridFor returns the grid of a kernel over n elements, one thread each. If a grid
// cannot have that many blocks, threads loop over several elements.
func gridFor(n int64) device.Size { return gridForBlock(n, threads) }

// gridForBlock is gridFor with blocks of the given number of threads.
func gridForBlock(n int64, block int) device.Size {
	const mostBlocks = 1<<31 - 1
	if n <= 0 {
		return device.Size{Grid: [3]int{-1}}
	}
	return device.Size{Grid: [3]int{int(min((n+int64(block)-1)/int64(block), mostBlocks))}, Block: [3]int{block}}
}

// at returns the address of a value.
func at(t backend.Tensor) device.Pointer {
	switch {
	case t.U16 != nil:
		return device.Pointer(unsafe.SliceData(t.U16))
	case t.U8 != nil:
		return device.Pointer(unsafe.SliceData(t.U8))
	}
	return device.Pointer(unsafe.SliceData(t.F32))
}

// addresses returns the addresses of the operands of a request and of its result.
func addresses(q backend.Request) (args []any) {
	for _, t := range q.In {
		args = append(args, at(t))
	}
	return append(args, at(q.Out))
}

// offset returns the address of element i of a value.
func offset(t backend.Tensor, i int) device.Pointer { return unsafe.Add(at(t), i*bytesOf(t)) }

// elements returns n float32 at an address, as a slice.
func elements(p device.Pointer, n int) []float32 { return unsafe.Slice((*float32)(p), n) }

// start returns the address of scratch.
func start(x []float32) device.Pointer { return device.Pointer(unsafe.SliceData(x)) }

// stored returns the type of the elements of a value in CUDA programs.
func stored(t backend.Tensor) string {
	switch t.Stored() {
	case graph.BFloat16:
		return "bf16"
	case graph.Float16:
		return "f16"
	case graph.UInt8:
		return "u8"
	}
	return "float"
}

// scratchLayout divides scratch among several values, each aligned to 256 bytes.
type scratchLayout struct{ n int } // elements in use

// reserve returns the offset of n further elements.
func (c *scratchLayout) reserve(n int64) int {
	at := c.n
	c.n += roundUp(int(n), 64)
	return at
}

// ceil returns ⌈a/b⌉.
func ceil(a, b int) int { return (a + b - 1) / b }

// roundUp returns the least multiple of b that is at least a.
func roundUp(a, b int) int { return ceil(a, b) * b }

// define returns a macro definition of a program.
func define(name string, value any) string { return fmt.Sprintf("%s=%v", name, value) }

// elems returns the number of elements of a value in memory, padding included.
func elems(t backend.Tensor) int64 { return int64(t.Layout.Elems(t.Shape)) }

// field is the shape of a field with channels last: N samples, C channels padded to
// Lanes, P grid points of sizes S.
type field struct {
	N, C, Lanes int
	P           int64
	S           [3]int
}

// fieldOf returns the field of a shape [N C D H W].
func fieldOf(s graph.Shape) field {
	return field{N: s[0], C: s[1], Lanes: graph.ChannelsLast.PaddedChannels(s[1]), P: int64(s[2]) * int64(s[3]) * int64(s[4]), S: [3]int{s[2], s[3], s[4]}}
}

// isLast reports whether an operand or the result has its channels last.
func isLast(q backend.Request) bool {
	for _, t := range q.In {
		if t.Layout == graph.ChannelsLast {
			return true
		}
	}
	return q.Out.Layout == graph.ChannelsLast
}
