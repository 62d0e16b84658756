//go:build cgo && linux

package emulate

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// LazyDevice is an emulated device that executes work as late as a GPU may: when the
// program waits for it. A program that changes memory which enqueued work reads, or
// reads memory which it writes, without waiting, gets another result than with Device.
// CopyNow is executed as early as possible. Together with Device it covers both extremes
// of the order in which a GPU may execute.
type LazyDevice struct {
	*Device
	queue    []func() error // work not executed yet, in order
	copies   []*asyncCopy   // copies that may be in progress
	unjoined []any          // copies and asynchronous work of the current recording
}

// OpenLazy is Open for a LazyDevice.
//
// Errors: those of Open.
func OpenLazy(memory int64) (*LazyDevice, error) {
	d, err := Open(memory)
	if err != nil {
		return nil, err
	}
	return &LazyDevice{Device: d}, nil
}

// enqueue appends work to the queue; while recording, it goes to the recording.
func (l *LazyDevice) enqueue(f func() error) error {
	if l.recording != nil || l.closed {
		return f()
	}
	l.queue = append(l.queue, f)
	return nil
}

// flush executes all work. After an error the rest is dropped. The queue is taken first,
// since work may enqueue more.
func (l *LazyDevice) flush() error {
	all := l.queue
	l.queue = nil
	for _, f := range all {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// isPinned reports whether memory is from AllocHost or of the device. Other memory is
// the program's, whose accesses are not in the order of the stream.
func (l *LazyDevice) isPinned(p device.Pointer) bool {
	for base, n := range l.host {
		if uintptr(p) >= uintptr(base) && uintptr(p) < uintptr(base)+uintptr(max(n, 1)) {
			return true
		}
	}
	return l.owns(p)
}

// Copy reads memory of the program at once, and writes it before it returns. This is
// what cudaMemcpyAsync guarantees for pageable memory.
//
// Source: NVIDIA, CUDA Runtime API, section "API synchronization behavior".
func (l *LazyDevice) Copy(dst, src device.Pointer, n int64) error {
	if l.recording == nil && n > 0 && !l.isPinned(src) {
		data := bytes.Clone(unsafe.Slice((*byte)(src), n))
		src = unsafe.Pointer(unsafe.SliceData(data))
	}
	err := l.enqueue(func() error { return l.Device.Copy(dst, src, n) })
	if err == nil && l.recording == nil && !l.isPinned(dst) {
		err = l.flush()
	}
	return err
}

// CopyAsync starts after the work enqueued so far.
func (l *LazyDevice) CopyAsync(dst, src device.Pointer, n int64) (device.Event, error) {
	t := newAsyncCopy(dst, src, n)
	if l.recording == nil {
		l.copies = append(l.copies, t)
	} else {
		l.unjoined = append(l.unjoined, t)
	}
	return t, l.enqueue(func() error {
		return l.do(func() error {
			l.countTransfer(dst, src, n)
			return t.begin()
		})
	})
}

// RunAsync starts after the work enqueued so far.
func (l *LazyDevice) RunAsync(m []Buffer, f func(memory [][]byte) error) (device.Event, error) {
	b := newAsyncWork(l.Device, m, f)
	if l.recording != nil {
		l.unjoined = append(l.unjoined, b)
	}
	return b, l.enqueue(func() error { return l.do(b.begin) })
}

// CopyNow starts at once.
func (l *LazyDevice) CopyNow(dst, src device.Pointer, n int64) (device.Event, error) {
	if l.recording != nil {
		return nil, errors.New("emulate: CopyNow while recording")
	}
	t := newAsyncCopy(dst, src, n)
	l.copies = append(l.copies, t)
	l.countTransfer(dst, src, n)
	return t, l.do(t.begin)
}

// Join ends a copy or asynchronous work. In a recording it must have been started in
// the same recording.
func (l *LazyDevice) Join(t device.Event) error {
	if l.recording != nil {
		i := slices.Index(l.unjoined, any(t))
		if i < 0 {
			return errors.New("emulate: Join in another recording than the start of the copy")
		}
		l.unjoined = slices.Delete(l.unjoined, i, i+1)
	}
	return l.enqueue(func() error { return l.Device.Join(t) })
}

// Zero sets memory to zero.
func (l *LazyDevice) Zero(p device.Pointer, n int64) error {
	return l.enqueue(func() error { return l.Device.Zero(p, n) })
}

// Wait executes all work and ends all copies.
func (l *LazyDevice) Wait() error {
	if l.recording != nil {
		return errors.New("emulate: Wait while recording")
	}
	if err := l.flush(); err != nil {
		return err
	}
	begun := l.copies
	l.copies = nil
	for _, t := range begun {
		if err := l.do(t.end); err != nil {
			return err
		}
	}
	return l.Device.Wait()
}

// Free executes all work and frees memory.
func (l *LazyDevice) Free(p device.Pointer) error {
	if p != nil {
		if err := l.Wait(); err != nil {
			return err
		}
	}
	return l.Device.Free(p)
}

// FreeHost executes all work and frees memory.
func (l *LazyDevice) FreeHost(p device.Pointer) error {
	if p != nil {
		if err := l.Wait(); err != nil {
			return err
		}
	}
	return l.Device.FreeHost(p)
}

// Close drops work that is not executed.
func (l *LazyDevice) Close() error {
	l.queue = nil
	return l.Device.Close()
}

// Load compiles a program.
func (l *LazyDevice) Load(p device.Program) (device.Module, error) {
	m, err := l.Device.Load(p)
	if err != nil {
		return nil, err
	}
	return lazyModule{l, m}, nil
}

type lazyModule struct {
	l *LazyDevice
	device.Module
}

// Call prepares a call that Run enqueues.
func (m lazyModule) Call(kernel string, size device.Size, args ...any) (device.Call, error) {
	c, err := m.Module.Call(kernel, size, args...)
	return lazyWork{m.l, c}, err
}

// lazyWork is a call or a recording.
type lazyWork struct {
	l    *LazyDevice
	work interface{ Run() error }
}

// Run enqueues the work.
func (w lazyWork) Run() error { return w.l.enqueue(w.work.Run) }

// Close closes a recording.
func (w lazyWork) Close() error { return w.work.(device.Recording).Close() }

// Record records the work that f enqueues.
func (l *LazyDevice) Record(f func() error) (device.Recording, error) {
	r, err := l.Device.Record(f)
	if n := len(l.unjoined); n > 0 && err == nil {
		err = fmt.Errorf("emulate: recording with %d copies that are not joined", n)
	}
	l.unjoined = nil
	return lazyWork{l, r}, err
}
