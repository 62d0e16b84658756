//go:build cgo && linux

package cpu

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Backend is one opened processor: a pool of threads and the goroutine, locked
// to its thread, on which everything runs.
type Backend struct {
	options         Options
	pool            *kern.Pool
	work            chan func() error
	reply           chan error
	done            chan struct{}
	scratch         []float32         // lent to every kernel in turn
	externalScratch bool              // scratch is not the backend's
	scratchNeeded   int               // of the scratch by the kernel that is being prepared
	dryRun          bool              // the kernel is prepared for its scratch alone, see Scratch
	dummy           []float32         // memory of no meaning for that
	choices         map[string]string // forms of convolutions in use
	closed          bool
}

// Open starts the device.
//
// Errors: *exit.Error (exit.NoDevice) if the threads cannot be had.
func Open(o Options) (backend.Backend, error) {
	b := &Backend{options: o, work: make(chan func() error), reply: make(chan error), done: make(chan struct{}),
		choices: map[string]string{}}
	if o.BF16Products && !kern.HasBF16() {
		return nil, &exit.Error{Code: exit.NoDevice, What: "this processor has no products of bfloat16",
			Why: "its kernels are " + kern.ISA() + ", and AVX512_BF16 is needed", Fix: "choose precision bf16, which stores fields in half of the memory on every processor"}
	}
	pool, err := kern.NewPool(max(o.Threads, 1))
	if err != nil {
		return nil, &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("backend cpu with %d threads cannot start", o.Threads),
			Why: err.Error(), Fix: "ask for fewer threads", Err: err}
	}
	b.pool = pool
	go b.serve()
	return b, nil
}

// serve runs what Do is given, on one thread, until Close.
func (b *Backend) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(b.done)
	for f := range b.work {
		b.reply <- f()
	}
}

// Name is "cpu".
func (*Backend) Name() string { return "cpu" }

// Elem is Float32.
func (*Backend) Elem() graph.DType { return graph.Float32 }

var errClosed = errors.New("backend cpu is closed")

// Do runs f on the thread of the device and waits for it.
func (b *Backend) Do(f func() error) error {
	if b.closed {
		return errClosed
	}
	b.work <- f
	return <-b.reply
}

// Close ends the goroutine and its threads; more than once does no harm.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	close(b.work)
	<-b.done
	return b.pool.Close()
}

// Choices are the forms in which convolutions run, by their description.
func (b *Backend) Choices() map[string]string { return b.choices }

// Prepare gives the first implementation in the table that serves the
// operation, else loops from its scalar formula, else its reference kernel.
func (b *Backend) Prepare(q backend.Request) (backend.Kernel, error) {
	b.scratchNeeded = 0
	k, err := b.prepare(q)
	k = maskFilterGrad(q, k)
	k.Scratch = 4 * int64(b.scratchNeeded)
	return k, err
}

func (b *Backend) prepare(q backend.Request) (backend.Kernel, error) {
	if isBlocked(q) {
		return b.prepareBlocked(q)
	}
	for _, t := range table {
		if t.op != q.Op.Name {
			continue
		}
		k, err := t.prepare(b, q)
		if err != nil || k.Run != nil {
			return k, err
		}
	}
	if prepare := elementwise[q.Op.Name].prepare; prepare != nil {
		k, err := prepare(b, q)
		if err != nil || k.Run != nil {
			return k, err
		}
	}
	if q.Op.Scalar != nil {
		return scalarLoop(q), nil
	}
	return reference(q), nil
}

// SetScratch gives the scratch that kernels use from now on.
func (b *Backend) SetScratch(scratch []float32) { b.scratch, b.externalScratch = scratch, true }

// needScratch makes the common scratch at least n values long, unless only the
// number matters or it is lent.
func (b *Backend) needScratch(n int) {
	b.scratchNeeded = max(b.scratchNeeded, n)
	if len(b.scratch) < n && !b.dryRun && !b.externalScratch {
		b.scratch = bigmem.Make[float32](n)
	}
}
