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

// Late is an emulated device that does its work as late as a GPU may: when somebody waits
// for it. Programs that change what work will read, or read what it will write, without
// waiting, compute something else with it than with Device, which does all at once. Of what
// goes on beside the work, CopyNow is as early as it may be.
type Late struct {
	*Device
	asked []func() error // not done yet, in order
	begun []*aside       // copies that may be under way
	fork  []any          // those of the recording that is made, and work of libraries, which are not joined
}

// OpenLate is Open for a device that works late.
//
// Errors: as of Open.
func OpenLate(memory int64) (*Late, error) {
	d, err := Open(memory)
	if err != nil {
		return nil, err
	}
	return &Late{Device: d}, nil
}

// ask keeps work for later; what is recorded is kept with the recording.
func (l *Late) ask(f func() error) error {
	if l.recording != nil || l.closed {
		return f()
	}
	l.asked = append(l.asked, f)
	return nil
}

// flush does all work. After an error the rest is not done.
func (l *Late) flush() error {
	all := l.asked
	l.asked = nil
	for _, f := range all {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// locked tells whether memory is of AllocHost or of the device: the rest is of the program,
// which knows nothing of the order of work.
func (l *Late) locked(p device.Pointer) bool {
	for base, n := range l.host {
		if uintptr(p) >= uintptr(base) && uintptr(p) < uintptr(base)+uintptr(max(n, 1)) {
			return true
		}
	}
	return l.within(p)
}

// Copy reads memory of the program at once, and writes it before it returns.
func (l *Late) Copy(dst, src device.Pointer, n int64) error {
	if l.recording == nil && n > 0 && !l.locked(src) {
		data := bytes.Clone(unsafe.Slice((*byte)(src), n))
		src = unsafe.Pointer(unsafe.SliceData(data))
	}
	err := l.ask(func() error { return l.Device.Copy(dst, src, n) })
	if err == nil && l.recording == nil && !l.locked(dst) {
		err = l.flush()
	}
	return err
}

// CopyAside begins behind the work so far.
func (l *Late) CopyAside(dst, src device.Pointer, n int64) (device.Ticket, error) {
	t := newAside(dst, src, n)
	if l.recording == nil {
		l.begun = append(l.begun, t)
	} else {
		l.fork = append(l.fork, t)
	}
	return t, l.ask(func() error {
		return l.do(func() error {
			l.crosses(dst, src, n)
			return t.begin()
		})
	})
}

// Beside begins behind the work so far.
func (l *Late) Beside(m []Memory, f func(memory [][]byte) error) (device.Ticket, error) {
	b := newBeside(l.Device, m, f)
	if l.recording != nil {
		l.fork = append(l.fork, b)
	}
	return b, l.ask(func() error { return l.do(b.begin) })
}

// CopyNow begins at once.
func (l *Late) CopyNow(dst, src device.Pointer, n int64) (device.Ticket, error) {
	if l.recording != nil {
		return nil, errors.New("emulate: a copy of now is recorded")
	}
	t := newAside(dst, src, n)
	l.begun = append(l.begun, t)
	l.crosses(dst, src, n)
	return t, l.do(t.begin)
}

// Join ends a copy, or work of a library, which is of the recording that is made, or of none if there is none.
func (l *Late) Join(t device.Ticket) error {
	if l.recording != nil {
		i := slices.Index(l.fork, any(t))
		if i < 0 {
			return errors.New("emulate: a copy is joined in another recording than it was begun in")
		}
		l.fork = slices.Delete(l.fork, i, i+1)
	}
	return l.ask(func() error { return l.Device.Join(t) })
}

// Zero clears memory.
func (l *Late) Zero(p device.Pointer, n int64) error {
	return l.ask(func() error { return l.Device.Zero(p, n) })
}

// Wait does all work, and ends all copies.
func (l *Late) Wait() error {
	if l.recording != nil {
		return errors.New("emulate: something waits while work is recorded")
	}
	if err := l.flush(); err != nil {
		return err
	}
	begun := l.begun
	l.begun = nil
	for _, t := range begun {
		if err := l.do(t.end); err != nil {
			return err
		}
	}
	return l.Device.Wait()
}

// Free does all work, and gives memory back.
func (l *Late) Free(p device.Pointer) error {
	if p != nil {
		if err := l.Wait(); err != nil {
			return err
		}
	}
	return l.Device.Free(p)
}

// FreeHost does all work, and gives memory back.
func (l *Late) FreeHost(p device.Pointer) error {
	if p != nil {
		if err := l.Wait(); err != nil {
			return err
		}
	}
	return l.Device.FreeHost(p)
}

// Close forgets work that nobody waited for.
func (l *Late) Close() error {
	l.asked = nil
	return l.Device.Close()
}

// Load compiles a program.
func (l *Late) Load(p device.Program) (device.Module, error) {
	m, err := l.Device.Load(p)
	if err != nil {
		return nil, err
	}
	return lateModule{l, m}, nil
}

type lateModule struct {
	l *Late
	device.Module
}

func (m lateModule) Call(kernel string, size device.Size, args ...any) (device.Call, error) {
	c, err := m.Module.Call(kernel, size, args...)
	return lateWork{m.l, c}, err
}

// lateWork is a call or a recording.
type lateWork struct {
	l    *Late
	work interface{ Run() error }
}

func (w lateWork) Run() error { return w.l.ask(w.work.Run) }

// Close forgets a recording.
func (w lateWork) Close() error { return w.work.(device.Recording).Close() }

// Record writes down what f asks for.
func (l *Late) Record(f func() error) (device.Recording, error) {
	r, err := l.Device.Record(f)
	if n := len(l.fork); n > 0 && err == nil {
		err = fmt.Errorf("emulate: a recording begins %d copies that it does not join", n)
	}
	l.fork = nil
	return lateWork{l, r}, err
}
