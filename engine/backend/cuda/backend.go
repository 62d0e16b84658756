package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Backend is an open GPU, and the goroutine, locked to its thread, that enqueues its
// work.
type Backend struct {
	dev     device.Device // the device, in package gpu or emulate
	work    chan func() error
	reply   chan error
	done    chan struct{}
	modules map[string]device.Module // compiled programs, by source and macros
	tf32    bool                     // see AllowTF32
	library ConvLibrary              // plans of convolutions; nil if all kernels are ours
	vendor  *cudnn.Handle            // handle of cuDNN, if library is cuDNN
	choices map[string]string        // variants chosen by time, by operation
	timings *tune.Table              // timing table of this GPU; nil stores nothing
	// estimates are timings that are not in the table: estimated, or of a backend without
	// table.
	estimates map[string]tune.Entry
	dryRun    bool // prepare kernels only to learn their scratch: load and copy nothing
	// step is the number of the training step that random operations read, on the device;
	// stepHost is its source on the host.
	step, stepHost device.Pointer
	// sizes holds memory from Alloc and AllocHost: whether it is on the host.
	sizes map[unsafe.Pointer]bool
	// copyRates are the bandwidths to the host and from it, in bytes per second; 0 before
	// they are measured.
	copyRates [2]float64
	// callStart is the start of the current Do in ns since 1970; 0 if there is none. Other
	// goroutines read it.
	callStart atomic.Int64
	closed    bool
}

// New returns a backend for a device that open opens. Close closes the device.
func New(open func() (device.Device, error)) (*Backend, error) {
	b := &Backend{work: make(chan func() error), reply: make(chan error), done: make(chan struct{}),
		modules: map[string]device.Module{}, choices: map[string]string{}, estimates: map[string]tune.Entry{}, sizes: map[unsafe.Pointer]bool{}}
	go b.serve()
	err := b.Do(func() error {
		dev, err := open()
		if err != nil {
			return err // dev is not valid and must not be closed
		}
		b.dev = dev
		if b.step, err = b.dev.Alloc(stepBytes); err != nil {
			return err
		}
		if b.stepHost, err = b.dev.AllocHost(stepBytes); err != nil {
			return err
		}
		b.openLibrary()
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// openLibrary opens cuDNN if it is installed and the device is a real GPU. Otherwise
// our own kernels run all convolutions; `ensemble doctor` reports why.
func (b *Backend) openLibrary() {
	loaded, ok := b.dev.(device.NativeHandles)
	if !ok {
		return
	}
	lib, err := cudnn.Open(nil)
	if err != nil {
		return // our own kernels support all convolutions
	}
	if b.vendor, err = lib.New(loaded); err != nil {
		b.vendor = nil
		return
	}
	b.library = CuDNN(b.vendor, lib.Version(), b.dev.Properties(), nvrtc.UserCache())
}

// stepBytes is the size of the number of a step.
const stepBytes = 8

// serve runs the functions that Do sends, on one thread, until Close.
func (b *Backend) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(b.done)
	for f := range b.work {
		b.reply <- f()
	}
}

// Name is "cuda".
func (*Backend) Name() string { return "cuda" }

// Elem is Float32.
func (*Backend) Elem() graph.DType { return graph.Float32 }

// errClosed is the error of Do after Close.
var errClosed = errors.New("backend cuda is closed")

// Do runs f on the thread of the device and waits for f. The device may still work on
// what f has enqueued.
//
// Errors: those of f; exit.NoDevice if the device is lost.
func (b *Backend) Do(f func() error) error {
	if b.closed {
		return errClosed
	}
	b.callStart.Store(time.Now().UnixNano())
	defer b.callStart.Store(0)
	b.work <- f
	return b.lost(<-b.reply)
}

// lost converts an error of a lost device to one with a fix. Other errors are returned
// unchanged.
func (b *Backend) lost(err error) error {
	if !errors.Is(err, device.ErrLost) {
		return err
	}
	at := ""
	if b.dev != nil {
		p := b.dev.Properties()
		at = strings.TrimSpace(p.Name + " " + p.UUID)
	}
	return &exit.Error{Code: exit.NoDevice, What: "the GPU is lost", At: at, Why: err.Error(), Err: err,
		Fix: "run the same command again on another GPU; a training continues from its last checkpoint with --resume auto"}
}

// CallDuration returns for how long the current Do has lasted; 0 if there is none. It
// may be called by any goroutine, such as a watchdog.
func (b *Backend) CallDuration() time.Duration {
	if began := b.callStart.Load(); began > 0 {
		return time.Duration(time.Now().UnixNano() - began)
	}
	return 0
}

// Close ends the goroutine and frees all memory. It may be called more than once.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	var err error
	if b.dev != nil {
		err = b.Do(func() error {
			var err error
			if b.vendor != nil {
				err = b.vendor.Close()
			}
			return errors.Join(err, b.dev.Close())
		})
	}
	b.closed = true
	close(b.work)
	<-b.done
	return err
}

// Device returns the device.
func (b *Backend) Device() device.Device { return b.dev }

// DeviceInfo returns the name of the device and the versions of the libraries in use.
// An emulated device uses none.
func (b *Backend) DeviceInfo() backend.DeviceInfo {
	p := b.dev.Properties()
	a := backend.DeviceInfo{Name: p.Name, ID: p.UUID, Versions: map[string]string{}}
	if p.Emulated {
		return a
	}
	if c, err := nvrtc.Open(); err == nil { // it is open already
		a.Versions[libraries.NVRTC.Name] = c.Version()
	}
	if b.library != nil {
		a.Versions[libraries.CuDNN.Name] = b.library.Version()
	}
	return a
}

// noMemory converts an error of insufficient memory to one with a
// fix. Other errors are returned unchanged.
func noMemory(err error) error {
	if !errors.Is(err, device.ErrOutOfMemory) {
		return err
	}
	return &exit.Error{Code: exit.NoDevice, What: "the memory of the GPU does not suffice", Why: err.Error(), Err: err,
		Fix: "set train.memory, or use precision bf16, a smaller batch, a smaller crop or more GPUs"}
}

// elem is the size of a float32 in bytes.
const elem = 4 // bytes of a float32

// Alloc allocates n float32 on the device, all zero.
func (b *Backend) Alloc(n int) ([]float32, error) {
	p, err := b.dev.Alloc(elem * int64(max(n, 1)))
	if err != nil {
		return nil, noMemory(err)
	}
	b.sizes[p] = false
	if err := b.dev.Zero(p, elem*int64(max(n, 1))); err != nil {
		return nil, err
	}
	return unsafe.Slice((*float32)(p), n), b.dev.Wait() // CopyNow does not wait for Zero
}

// AllocHost allocates n float32 of page-locked memory on the host, all zero.
func (b *Backend) AllocHost(n int) ([]float32, error) {
	p, err := b.dev.AllocHost(elem * int64(max(n, 1)))
	if err != nil {
		return nil, err
	}
	b.sizes[p] = true
	x := unsafe.Slice((*float32)(p), n)
	clear(x)
	return x, nil
}

// Free frees memory from Alloc or AllocHost; other memory is ignored.
func (b *Backend) Free(x []float32) error {
	p := unsafe.Pointer(unsafe.SliceData(x))
	host, ok := b.sizes[p]
	if !ok {
		return nil
	}
	delete(b.sizes, p)
	if host {
		return b.dev.FreeHost(p)
	}
	return b.dev.Free(p)
}

// Clear sets memory of the device to zero.
func (b *Backend) Clear(x []float32) error {
	if len(x) == 0 {
		return nil
	}
	return b.dev.Zero(unsafe.Pointer(unsafe.SliceData(x)), elem*int64(len(x)))
}

// Copy copies len(dst) elements, in the order of the stream.
func (b *Backend) Copy(dst, src []float32) error {
	if len(dst) == 0 {
		return nil
	}
	return b.dev.Copy(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), elem*int64(len(dst)))
}

// CopyNow starts a copy that does not wait for enqueued work. arrived makes later work
// wait for it.
func (b *Backend) CopyNow(dst, src []float32) (arrived func() error, err error) {
	t, err := b.dev.CopyNow(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), elem*int64(len(dst)))
	if err != nil {
		return nil, err
	}
	return func() error { return b.dev.Join(t) }, nil
}

// SetStep sets the training step. It waits for the device, which may still read the old
// number.
func (b *Backend) SetStep(step uint64) error {
	*(*uint64)(b.stepHost) = step
	return b.dev.Copy(b.step, b.stepHost, stepBytes)
}

// Record returns a function that repeats the work that f enqueues, and one that frees
// the recording.
func (b *Backend) Record(f func() error) (run, end func() error, err error) {
	r, err := b.dev.Record(f)
	if err != nil {
		return nil, nil, err
	}
	return r.Run, r.Close, nil
}

// Wait blocks until all enqueued work is done.
func (b *Backend) Wait() error { return b.dev.Wait() }

// load compiles and loads a program, or returns the loaded one.
//
// Errors: *exit.Error (exit.Bug) with the log of the compiler.
func (b *Backend) load(p device.Program) (device.Module, error) {
	key := p.Name + "\x00" + fmt.Sprint(p.Defines) + "\x00" + p.Source
	if m, ok := b.modules[key]; ok {
		return m, nil
	}
	m, err := b.dev.Load(p)
	if err != nil {
		return nil, &exit.Error{Code: exit.Bug, What: fmt.Sprintf("cannot compile GPU kernel: %s", p.Name), Why: err.Error(),
			Fix: "report this, with the versions of the driver and NVRTC that `ensemble doctor` prints", Err: err}
	}
	b.modules[key] = m
	return m, nil
}

// Prepare returns a kernel for the request: the first one in the table that supports
// it, else one generated from the scalar formula, else the reference kernel on the
// host.
//
// Errors: no kernel supports the layouts; a program does not compile; insufficient
// memory.
func (b *Backend) Prepare(q backend.Request) (backend.Kernel, error) {
	for _, t := range table[q.Op.Name] {
		k, err := t(b, q)
		if err != nil || k.Run != nil || k.SetScratch != nil {
			return k, err
		}
	}
	if c, ok := chainOf(q.Op, q.Attrs, len(q.In)); ok {
		return b.chain(q, c)
	}
	if k, ok, err := b.reference(q); ok || err != nil {
		return k, err
	}
	return backend.Kernel{}, fmt.Errorf("backend cuda: %s: no kernel for these layouts", q.Op.Name)
}
