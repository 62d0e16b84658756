//go:build cgo && linux

package emulate

import (
	"bytes"
	"errors"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// Buffer is memory that asynchronous work of a library reads or writes.
type Buffer struct {
	Start  device.Pointer
	Bytes  int64
	Writes bool // the work writes it; it may read it, too
}

// asyncWork is work of a library in a second stream. Its result is available when it or
// later such work is joined.
type asyncWork struct {
	d      *Device
	memory []Buffer
	data   [][]byte // copies of the buffers when the work started
	f      func(memory [][]byte) error
}

// newAsyncWork allocates the copies once, so that a recording can run it again.
func newAsyncWork(d *Device, memory []Buffer, f func(memory [][]byte) error) *asyncWork {
	b := &asyncWork{d: d, memory: memory, f: f}
	for _, m := range memory {
		b.data = append(b.data, make([]byte, m.Bytes))
	}
	return b
}

// RunAsync simulates device.AsyncRunner. f receives the contents of the buffers at the
// start of the work, and changes those that are written; they are stored at Join. All
// such work runs in order. Until Join, written buffers contain NaN, and any change of a
// buffer by other work is an error.
func (d *Device) RunAsync(m []Buffer, f func(memory [][]byte) error) (device.Event, error) {
	b := newAsyncWork(d, m, f)
	return b, d.do(b.begin)
}

// IsRecording reports whether work is being recorded.
func (d *Device) IsRecording() bool { return d.recording != nil }

// begin copies the buffers and marks those that will be written. A kernel that reads a
// result too early computes with NaN, which tests detect.
func (b *asyncWork) begin() error {
	for i, m := range b.memory {
		here := unsafe.Slice((*byte)(m.Start), m.Bytes)
		copy(b.data[i], here)
		if m.Writes {
			for k := range here {
				here[k] = inFlight
			}
		}
	}
	b.d.pending = append(b.d.pending, b)
	return nil
}

// end executes the work, and all such work before it.
func (b *asyncWork) end() error {
	for n, first := range b.d.pending {
		if first == b {
			return b.d.finishFirst(n + 1)
		}
	}
	return nil // it has ended
}

// finishAsync executes all asynchronous work.
func (d *Device) finishAsync() error { return d.finishFirst(len(d.pending)) }

// finishFirst executes the first n items of asynchronous work. The caller has opened the
// memory (Device.open).
//
// Errors: a buffer that other work has changed in the meantime; those of the work. The
// rest of the work is then still pending.
func (d *Device) finishFirst(n int) error {
	for range n {
		b := d.pending[0]
		d.pending = d.pending[1:]
		for i, m := range b.memory {
			here := unsafe.Slice((*byte)(m.Start), m.Bytes)
			if !m.Writes && !bytes.Equal(here, b.data[i]) {
				return errors.New("emulate: a buffer that a library reads was changed before Join")
			}
			for _, v := range here {
				if m.Writes && v != inFlight {
					return errors.New("emulate: a buffer that a library writes was changed before Join")
				}
			}
		}
		if err := b.f(b.data); err != nil {
			return err
		}
		for i, m := range b.memory {
			if m.Writes {
				copy(unsafe.Slice((*byte)(m.Start), m.Bytes), b.data[i])
			}
		}
	}
	return nil
}
