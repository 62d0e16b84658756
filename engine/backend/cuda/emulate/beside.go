//go:build cgo && linux

package emulate

import (
	"bytes"
	"errors"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// Memory is what a library reads or writes beside the work.
type Memory struct {
	At     device.Pointer
	Bytes  int64
	Writes bool // whether it writes what it has read, if it has
}

// beside is work of a library in a stream of its own. It has its result when it is joined, or
// when work that was asked for behind it is.
type beside struct {
	d      *Device
	memory []Memory
	data   [][]byte // of the memory, as it was in the beginning
	f      func(memory [][]byte) error
}

func newBeside(d *Device, memory []Memory, f func(memory [][]byte) error) *beside {
	b := &beside{d: d, memory: memory, f: f}
	for _, m := range memory {
		b.data = append(b.data, make([]byte, m.Bytes))
	}
	return b
}

// Beside does what a library would be asked for in device.Loaded.Beside: f is given what the memory holds when
// the work begins, and changes what is written, which is there at the Join. All such work is
// done in order. In between what is written is no number, and to change any of the memory is an
// error.
func (d *Device) Beside(m []Memory, f func(memory [][]byte) error) (device.Ticket, error) {
	b := newBeside(d, m, f)
	return b, d.do(b.begin)
}

// Recording tells whether work is written down.
func (d *Device) Recording() bool { return d.recording != nil }

func (b *beside) begin() error {
	for i, m := range b.memory {
		here := unsafe.Slice((*byte)(m.At), m.Bytes)
		copy(b.data[i], here)
		if m.Writes {
			for k := range here {
				here[k] = underWay
			}
		}
	}
	b.d.beside = append(b.d.beside, b)
	return nil
}

// end does the work, and what is before it.
func (b *beside) end() error {
	for n, first := range b.d.beside {
		if first == b {
			return b.d.endSome(n + 1)
		}
	}
	return nil // it has ended
}

// endBeside does all such work.
func (d *Device) endBeside() error { return d.endSome(len(d.beside)) }

// endSome does the first n.
func (d *Device) endSome(n int) error {
	for range n {
		b := d.beside[0]
		d.beside = d.beside[1:]
		for i, m := range b.memory {
			here := unsafe.Slice((*byte)(m.At), m.Bytes)
			if !m.Writes && !bytes.Equal(here, b.data[i]) {
				return errors.New("emulate: what a library reads changed before its work was joined")
			}
			for _, v := range here {
				if m.Writes && v != underWay {
					return errors.New("emulate: what a library writes was written before its work was joined")
				}
			}
		}
		if err := b.f(b.data); err != nil {
			return err
		}
		for i, m := range b.memory {
			if m.Writes {
				copy(unsafe.Slice((*byte)(m.At), m.Bytes), b.data[i])
			}
		}
	}
	return nil
}
