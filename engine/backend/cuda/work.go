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

// work collects the calls of the kernel of one operation, in order. The first error stays.
type work struct {
	b     *Backend
	calls []func() error
	early int // how many of them read nothing that is under way (backend.Request.There)
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

// emptyGrid tells whether there is nothing to do: threads of a grid of no elements have a
// negative size (see over).
func emptyGrid(s device.Size) bool { return s.Grid[0] < 0 || s.Grid[1] < 0 || s.Grid[2] < 0 }

// do adds work that is no kernel of ours.
func (w *work) do(f func() error) {
	if w.err == nil {
		w.calls = append(w.calls, f)
	}
}

// run runs the calls.
func (w *work) run() error { return runAll(w.calls) }

// runAll runs calls.
func runAll(calls []func() error) error {
	for _, c := range calls {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}

// kernel is the kernel of these calls.
func (w *work) kernel(name string) (backend.Kernel, error) {
	return backend.Kernel{Name: name, Run: w.run}, w.err
}

// withScratch is a kernel that wants scratch of n elements: its calls are made when it is
// known where that lies.
func (b *Backend) withScratch(name string, n int, calls func(w *work, scratch []float32)) (backend.Kernel, error) {
	w := &work{b: b}
	return w.withScratch(name, n, calls), nil
}

// withScratch is the kernel of Backend.withScratch. What comes early it leaves to who calls it: Run does the rest.
func (w *work) withScratch(name string, n int, calls func(w *work, scratch []float32)) backend.Kernel {
	b := w.b
	return backend.Kernel{Name: name, Scratch: elem * int64(n), Run: func() error { return runAll(w.calls[w.early:]) },
		SetScratch: func(scratch []float32) error {
			*w = work{b: b}
			calls(w, scratch[:n])
			return w.err
		}}
}

// table brings numbers to the device that a kernel reads; release gives their memory back. It
// waits until they are there.
func (b *Backend) table(numbers []int32) (p device.Pointer, release func(), err error) {
	if b.dryRun {
		return nil, func() {}, nil
	}
	here, err := b.AllocHost(len(numbers))
	if err != nil {
		return nil, nil, err
	}
	there, err := b.Alloc(len(numbers))
	if err != nil {
		return nil, nil, errors.Join(err, b.Free(here))
	}
	for i, n := range numbers {
		here[i] = math.Float32frombits(uint32(n))
	}
	if err := errors.Join(b.Copy(there, here), b.Wait(), b.Free(here)); err != nil {
		return nil, nil, errors.Join(err, b.Free(there))
	}
	return start(there), func() { _ = b.Free(there) }, nil // its own
}

// threads is the number of threads of a block where nothing asks for another.
const threads = 256

// gridFor is the size of a kernel whose threads take one of n elements each, or several in
// turns where a grid can have no more blocks.
func gridFor(n int64) device.Size { return gridForBlock(n, threads) }

// gridForBlock is over with blocks of so many threads.
func gridForBlock(n int64, block int) device.Size {
	const mostBlocks = 1<<31 - 1
	if n <= 0 {
		return device.Size{Grid: [3]int{-1}}
	}
	return device.Size{Grid: [3]int{int(min((n+int64(block)-1)/int64(block), mostBlocks))}, Block: [3]int{block}}
}

// at is where a value lies.
func at(t backend.Tensor) device.Pointer {
	switch {
	case t.U16 != nil:
		return device.Pointer(unsafe.SliceData(t.U16))
	case t.U8 != nil:
		return device.Pointer(unsafe.SliceData(t.U8))
	}
	return device.Pointer(unsafe.SliceData(t.F32))
}

// addresses are where the operands of a request lie, and its result.
func addresses(q backend.Request) (args []any) {
	for _, t := range q.In {
		args = append(args, at(t))
	}
	return append(args, at(q.Out))
}

// offset is where element i of a value lies.
func offset(t backend.Tensor, i int) device.Pointer { return unsafe.Add(at(t), i*bytesOf(t)) }

// elements is memory of n elements of float32.
func elements(p device.Pointer, n int) []float32 { return unsafe.Slice((*float32)(p), n) }

// start is where scratch lies.
func start(x []float32) device.Pointer { return device.Pointer(unsafe.SliceData(x)) }

// stored is the type of a value in programs.
func stored(t backend.Tensor) string {
	switch t.Stored() {
	case graph.BFloat16:
		return "bf16"
	case graph.Float16:
		return "f16"
	}
	return "float"
}

// scratchLayout is scratch that several values share, each at a multiple of 256 bytes.
type scratchLayout struct{ n int }

// reserve gives the place of n elements of float32.
func (c *scratchLayout) reserve(n int64) int {
	at := c.n
	c.n += roundUp(int(n), 64)
	return at
}

// ceil and roundUp count whole parts of size b, and what they hold.
func ceil(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceil(a, b) * b }

// define is a macro of a program.
func define(name string, value any) string { return fmt.Sprintf("%s=%v", name, value) }

// elems is the number of elements a value takes in memory.
func elems(t backend.Tensor) int64 { return int64(t.Layout.Elems(t.Shape)) }

// field is the shape of a field with channels last: N, C channels in Lanes lanes, and the
// points P of a sample.
type field struct {
	N, C, Lanes int
	P           int64
	S           [3]int
}

// fieldOf is the field of a shape.
func fieldOf(s graph.Shape) field {
	return field{N: s[0], C: s[1], Lanes: graph.ChannelsLast.PaddedChannels(s[1]), P: int64(s[2]) * int64(s[3]) * int64(s[4]), S: [3]int{s[2], s[3], s[4]}}
}

// isLast tells whether anything of the request has its channels last.
func isLast(q backend.Request) bool {
	for _, t := range q.In {
		if t.Layout == graph.ChannelsLast {
			return true
		}
	}
	return q.Out.Layout == graph.ChannelsLast
}
