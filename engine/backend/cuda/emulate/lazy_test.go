//go:build cgo && linux

package emulate

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// TestLazyDevice: work reads memory of AllocHost when somebody waits, other memory when it is asked
// for; an asynchronous copy whose source changes before it is joined is an error, and after Wait none.
func TestLazyDevice(t *testing.T) {
	l, err := OpenLazy(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	get := func(p device.Pointer, err error) device.Pointer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, q := get(l.Alloc(4)), get(l.AllocHost(4))
	locked, other := (*uint32)(q), uint32(3)
	read := func() uint32 {
		t.Helper()
		var v uint32
		if err := l.Copy(unsafe.Pointer(&v), p, 4); err != nil { // writes before it returns
			t.Fatal(err)
		}
		return v
	}
	*locked = 1
	err = l.Copy(p, q, 4)
	*locked = 2
	if v := read(); err != nil || v != 2 {
		t.Errorf("locked memory: read %d, %v, want what is there when the work is done", v, err)
	}
	err = l.Copy(p, unsafe.Pointer(&other), 4)
	other = 4
	if v := read(); err != nil || v != 3 {
		t.Errorf("other memory: read %d, %v, want what was there when the work was asked for", v, err)
	}
	ticket, err := l.CopyNow(p, q, 4)
	if err != nil {
		t.Fatal(err)
	}
	*locked = 5
	if err := errors.Join(l.Join(ticket), l.Wait()); err == nil || !strings.Contains(err.Error(), "source of CopyAsync was changed") {
		t.Errorf("a source that changes: %v", err)
	}
	if ticket, err = l.CopyNow(p, q, 4); err != nil {
		t.Fatal(err)
	}
	err = l.Wait()
	*locked = 6
	if err := errors.Join(err, l.Join(ticket), l.Wait()); err != nil || read() != 5 {
		t.Errorf("a source that changes after Wait: %v, read %d", err, read())
	}
	r, err := l.Record(func() error { return l.Copy(p, q, 4) })
	if err != nil {
		t.Fatal(err)
	}
	err = r.Run()
	*locked = 7
	if v := read(); err != nil || v != 7 {
		t.Errorf("recorded: read %d, %v", v, err)
	}
	begin := func() (err error) { ticket, err = l.CopyAsync(p, q, 4); return err }
	join := func() error { return l.Join(ticket) }
	if _, err := l.Record(begin); err == nil || !strings.Contains(err.Error(), "recording with 1 copies that are not joined") {
		t.Errorf("a copy that is not joined: %v", err)
	}
	if _, err := l.Record(join); err == nil || !strings.Contains(err.Error(), "in another recording") {
		t.Errorf("a copy that was not begun here: %v", err)
	}
	if _, err := l.Record(func() error { return errors.Join(begin(), join()) }); err != nil {
		t.Error(err)
	}
	if _, err := l.Record(l.Wait); err == nil {
		t.Error("Wait while recording: no error")
	}
}
