//go:build cgo && linux

package emulate

import (
	"bytes"
	"errors"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// Buffer is what a library reads or writes beside the work.
type Buffer struct {
	Start  device.Pointer
	Bytes  int64
	Writes bool // whether it writes what it has read, if it has
}

// asyncWork is work of a library in a stream of its own. It has its result when it is joined, or
// when work that was asked for behind it is.
type asyncWork struct {
	d      *Device
	memory []Buffer
	data   [][]byte // of the memory, as it was in the beginning
	f      func(memory [][]byte) error
}

func newAsyncWork(d *Device, memory []Buffer, f func(memory [][]byte) error) *asyncWork {
	b := &asyncWork{d: d, memory: memory, f: f}
	for _, m := range memory {
		b.data = append(b.data, make([]byte, m.Bytes))
	}
	return b
}

// RunAsync does what a library would be asked for in device.Loaded.Beside: f is given what the memory holds when
// the work begins, and changes what is written, which is there at the Join. All such work is
// done in order. In between what is written is no number, and to change any of the memory is an
// error.
func (d *Device) RunAsync(m []Buffer, f func(memory [][]byte) error) (device.Event, error) {
	b := newAsyncWork(d, m, f)
	return b, d.do(b.begin)
}

// IsRecording tells whether work is written down.
func (d *Device) IsRecording() bool { return d.recording != nil }

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

// end does the work, and what is before it.
func (b *asyncWork) end() error {
	for n, first := range b.d.pending {
		if first == b {
			return b.d.finishFirst(n + 1)
		}
	}
	return nil // it has ended
}

// finishAsync does all such work.
func (d *Device) finishAsync() error { return d.finishFirst(len(d.pending)) }

// finishFirst does the first n.
func (d *Device) finishFirst(n int) error {
	for range n {
		b := d.pending[0]
		d.pending = d.pending[1:]
		for i, m := range b.memory {
			here := unsafe.Slice((*byte)(m.Start), m.Bytes)
			if !m.Writes && !bytes.Equal(here, b.data[i]) {
				return errors.New("emulate: what a library reads changed before its work was joined")
			}
			for _, v := range here {
				if m.Writes && v != inFlight {
					return errors.New("emulate: what a library writes was written before its work was joined")
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
