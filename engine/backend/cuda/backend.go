package cuda

import (
	"errors"
	"fmt"
	"runtime"
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

// Backend is one opened GPU and the goroutine, locked to its thread, that asks it for
// work. Fields inside a network have their channels last, in float32, bfloat16 or float16, and
// everything else is plain float32.
type Backend struct {
	dev     device.Device
	work    chan func() error
	reply   chan error
	done    chan struct{}
	modules map[string]device.Module // by program and defines
	tf32    bool                     // AllowTF32
	library ConvLibrary              // nil if all convolutions are ours
	vendor  *cudnn.Handle            // behind it, if it is cuDNN
	choices map[string]string        // ways that were chosen by time, by the operation
	timings *tune.Table              // what was measured on this machine; nil remembers nothing
	// estimates are of ways that were not measured there, or by a backend without a table.
	estimates map[string]tune.Entry
	dryRun    bool // kernels are prepared to know their scratch: nothing is loaded or copied
	// step is the number that random operations read, on the device, and where it is put
	// for that, on the host.
	step, stepHost device.Pointer
	sizes          map[unsafe.Pointer]bool // of what Make and AllocHost gave: whether it is the host's
	copyRates      [2]float64              // rates to the host and from it, in bytes a second; 0 before they are measured
	callStart      atomic.Int64            // when the present Do began, in nanoseconds; 0 without one
	closed         bool
}

// New is the backend of a device that is opened already; it closes it.
func New(open func() (device.Device, error)) (*Backend, error) {
	b := &Backend{work: make(chan func() error), reply: make(chan error), done: make(chan struct{}),
		modules: map[string]device.Module{}, choices: map[string]string{}, estimates: map[string]tune.Entry{}, sizes: map[unsafe.Pointer]bool{}}
	go b.serve()
	err := b.Do(func() error {
		dev, err := open()
		if err != nil {
			return err // what came with it is no device: nothing may close it
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

// openLibrary opens cuDNN where the device is one of the vendor's and the library is there.
func (b *Backend) openLibrary() {
	loaded, ok := b.dev.(device.NativeHandles)
	if !ok {
		return
	}
	lib, err := cudnn.Open(nil)
	if err != nil {
		return // doctor says why; our own kernels serve all
	}
	if b.vendor, err = lib.New(loaded); err != nil {
		b.vendor = nil
		return
	}
	b.library = CuDNN(b.vendor, lib.Version(), b.dev.Properties(), nvrtc.UserCache())
}

// stepBytes is the size of the number of a step.
const stepBytes = 8

// serve runs what Do is given, on one thread, until Close.
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

var errClosed = errors.New("backend cuda is closed")

// Do runs f on the thread of the device and waits for it; the device may still be at work.
func (b *Backend) Do(f func() error) error {
	if b.closed {
		return errClosed
	}
	b.callStart.Store(time.Now().UnixNano())
	defer b.callStart.Store(0)
	b.work <- f
	return <-b.reply
}

// CallDuration is for how long the present Do has lasted; 0 if there is none. It may be called by any goroutine.
func (b *Backend) CallDuration() time.Duration {
	if began := b.callStart.Load(); began > 0 {
		return time.Duration(time.Now().UnixNano() - began)
	}
	return 0
}

// Close ends the goroutine and gives back all memory; more than once does no harm.
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

// Device is the device.
func (b *Backend) Device() device.Device { return b.dev }

// DeviceInfo names the device and the libraries that are in use.
func (b *Backend) DeviceInfo() backend.DeviceInfo {
	p := b.dev.Properties()
	a := backend.DeviceInfo{Name: p.Name, ID: p.UUID, Versions: map[string]string{}}
	if p.Emulated {
		return a
	}
	if c, err := nvrtc.Open(); err == nil { // it is open, or the device would not be
		a.Versions[libraries.NVRTC.Name] = c.Version()
	}
	if b.library != nil {
		a.Versions[libraries.CuDNN.Name] = b.library.Version()
	}
	return a
}

// noMemory is the error of memory that is not there.
func noMemory(err error) error {
	if !errors.Is(err, device.ErrOutOfMemory) {
		return err
	}
	return &exit.Error{Code: exit.NoDevice, What: "the GPU has too little memory", Why: err.Error(), Err: err,
		Fix: "set train.memory, choose precision bf16, a smaller batch or crop, or more GPUs"}
}

const elem = 4 // bytes of a float32

// Alloc gives memory of the device.
func (b *Backend) Alloc(n int) ([]float32, error) {
	p, err := b.dev.Alloc(elem * int64(max(n, 1)))
	if err != nil {
		return nil, noMemory(err)
	}
	b.sizes[p] = false
	if err := b.dev.Zero(p, elem*int64(max(n, 1))); err != nil {
		return nil, err
	}
	return unsafe.Slice((*float32)(p), n), b.dev.Wait() // Send does not wait for it
}

// AllocHost gives memory of the host that is copied at full speed.
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

// Free gives back what Make or AllocHost gave.
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

// Clear makes memory of the device zero.
func (b *Backend) Clear(x []float32) error {
	if len(x) == 0 {
		return nil
	}
	return b.dev.Zero(unsafe.Pointer(unsafe.SliceData(x)), elem*int64(len(x)))
}

// Copy copies as much as dst holds.
func (b *Backend) Copy(dst, src []float32) error {
	if len(dst) == 0 {
		return nil
	}
	return b.dev.Copy(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), elem*int64(len(dst)))
}

// CopyNow copies from the host beside all work.
func (b *Backend) CopyNow(dst, src []float32) (arrived func() error, err error) {
	t, err := b.dev.CopyNow(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), elem*int64(len(dst)))
	if err != nil {
		return nil, err
	}
	return func() error { return b.dev.Join(t) }, nil
}

// SetStep tells the step. It waits: the number is still being read otherwise.
func (b *Backend) SetStep(step uint64) error {
	*(*uint64)(b.stepHost) = step
	return b.dev.Copy(b.step, b.stepHost, stepBytes)
}

// Record gives what repeats the work that f asks for.
func (b *Backend) Record(f func() error) (run, end func() error, err error) {
	r, err := b.dev.Record(f)
	if err != nil {
		return nil, nil, err
	}
	return r.Run, r.Close, nil
}

// Wait returns when all is done.
func (b *Backend) Wait() error { return b.dev.Wait() }

// load gives the module of a program, loaded once.
func (b *Backend) load(p device.Program) (device.Module, error) {
	key := p.Name + "\x00" + fmt.Sprint(p.Defines) + "\x00" + p.Source
	if m, ok := b.modules[key]; ok {
		return m, nil
	}
	m, err := b.dev.Load(p)
	if err != nil {
		return nil, &exit.Error{Code: exit.Bug, What: fmt.Sprintf("a kernel of the GPU does not compile: %s", p.Name), Why: err.Error(),
			Fix: "report this with the version of the driver and of NVRTC (ensemble doctor)", Err: err}
	}
	b.modules[key] = m
	return m, nil
}

// Prepare gives the kernels in the table that serve the operation, else one of its
// scalar formula, else its reference kernel, which runs on the processor.
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
	return backend.Kernel{}, fmt.Errorf("backend cuda has no kernel of %s in these layouts", q.Op.Name)
}
