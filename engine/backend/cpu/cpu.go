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

// Backend is an open CPU device: a pool of threads, and the goroutine, locked to its
// thread, on which all kernels are prepared and run.
type Backend struct {
	options         Options           // as passed to Open
	pool            *kern.Pool        // threads of the kernels in C
	work            chan func() error // functions for serve
	reply           chan error        // their errors
	done            chan struct{}     // closed when serve has ended
	scratch         []float32         // shared by all kernels, one after the other
	externalScratch bool              // scratch was set by SetScratch and is not ours
	scratchNeeded   int               // values of scratch that the kernel being prepared needs
	dryRun          bool              // prepare kernels only to learn their scratch size (Scratch)
	dummy           []float32         // memory for dry runs; kernels never read or write it
	choices         map[string]string // forms of the convolutions in use, by their description
	closed          bool              // set by Close
}

// Open starts the threads and the goroutine of the device.
//
// Memory: the threads' stacks; scratch is allocated when kernels are prepared.
// Errors: *exit.Error (exit.NoDevice) if the threads cannot be started, or if
// o.BF16Products is set and the processor lacks AVX512_BF16.
func Open(o Options) (backend.Backend, error) {
	b := &Backend{options: o, work: make(chan func() error), reply: make(chan error), done: make(chan struct{}),
		choices: map[string]string{}}
	if o.BF16Products && !kern.HasBF16() {
		return nil, &exit.Error{Code: exit.NoDevice, What: "this processor cannot multiply bfloat16",
			Why: "the kernels in use are " + kern.ISA() + ", want AVX512_BF16", Fix: "choose precision bf16: it stores fields as bfloat16 and computes in float32"}
	}
	pool, err := kern.NewPool(max(o.Threads, 1))
	if err != nil {
		return nil, &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("backend cpu: cannot start %d threads", o.Threads),
			Why: err.Error(), Fix: "request fewer threads", Err: err}
	}
	b.pool = pool
	go b.serve()
	return b, nil
}

// serve runs the functions that Do sends, on one thread, until Close.
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

// errClosed is the error of Do after Close.
var errClosed = errors.New("backend cpu is closed")

// Do runs f on the thread of the device and waits for it.
//
// Errors: that of f; errClosed after Close.
func (b *Backend) Do(f func() error) error {
	if b.closed {
		return errClosed
	}
	b.work <- f
	return <-b.reply
}

// Close ends the goroutine and its threads. It may be called more than once.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	close(b.work)
	<-b.done
	return b.pool.Close()
}

// Choices returns the forms in which convolutions run, by their description. A later
// plan repeats them through Options.Choices.
func (b *Backend) Choices() map[string]string { return b.choices }

// Prepare returns a kernel for the request: the first one in the table that supports
// it, else a loop over the scalar formula, else the reference kernel.
//
// Memory: kernels keep references to the tensors of the request.
// Errors: no form supports the layouts of the request, or a library refuses the
// convolution.
func (b *Backend) Prepare(q backend.Request) (backend.Kernel, error) {
	b.scratchNeeded = 0
	k, err := b.prepare(q)
	k = maskFilterGrad(q, k)
	k.Scratch = 4 * int64(b.scratchNeeded)
	return k, err
}

// prepare selects the kernel. Kernel.Scratch is set by Prepare.
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

// SetScratch sets the scratch buffer that kernels use from the next run on. Kernels
// prepared later allocate none of their own.
func (b *Backend) SetScratch(scratch []float32) { b.scratch, b.externalScratch = scratch, true }

// needScratch records that the kernel being prepared uses n values of scratch. It grows
// the buffer, except in a dry run or if the buffer is the caller's.
func (b *Backend) needScratch(n int) {
	b.scratchNeeded = max(b.scratchNeeded, n)
	if len(b.scratch) < n && !b.dryRun && !b.externalScratch {
		b.scratch = bigmem.Make[float32](n)
	}
}
