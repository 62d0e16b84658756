//go:build cgo && linux

package nccl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// some implements the methods of a device that these tests do not use.
type some = device.Device

// one is a device with an identifier and a library stream, and the backend that
// owns it.
type one struct {
	some
	librariestest.FakeHandles
	id     string
	joined []device.Event
	busy   atomic.Int64
}

func (o *one) Properties() device.Properties { return device.Properties{UUID: o.id} }
func (o *one) Device() device.Device         { return o }
func (o *one) CallDuration() time.Duration   { return time.Duration(o.busy.Load()) }
func (o *one) RunAsync(f func(device.Pointer) error) (device.Event, error) {
	return "ticket", f(at(0x60000))
}
func (o *one) Join(t device.Event) error { o.joined = append(o.joined, t); return nil }

// All ranks agree on whether NCCL is available, and on the reason.
func TestServe(t *testing.T) {
	l, _ := fake(t)
	older := &Library{t: l.t, code: 22100, path: l.path}
	for _, c := range []struct {
		name, want string
		change     func(rank int, l **Library, missing *error, d **one)
	}{
		{"all have one", "", func(int, **Library, *error, **one) {}},
		{"the same", "ranks 0 and 2 share a GPU", func(r int, _ **Library, _ *error, d **one) { (*d).id = []string{"GPU-a", "GPU-b", "GPU-a"}[r] }},
		{"no device", "rank 1 has no GPU", func(r int, _ **Library, _ *error, d **one) {
			if r == 1 {
				*d = nil
			}
		}},
		{"no library", "rank 2 has no NCCL", func(r int, _ **Library, missing *error, _ **one) {
			if r == 2 {
				*missing = errors.New("it is not installed")
			}
		}},
		{"versions", "ranks 0 and 1 have different versions, 2.32.3 and 2.21.0", func(r int, l **Library, _ *error, _ **one) {
			if r == 1 {
				*l = older
			}
		}},
	} {
		if err := comm.Run(3, comm.Parallel, func(world *comm.Comm) error {
			own, lib, d, missing := &one{id: fmt.Sprint("GPU-", world.Rank())}, l, (*one)(nil), error(nil)
			d = own
			c.change(world.Rank(), &lib, &missing, &d)
			var of gpu
			if d != nil {
				of = d
			}
			devices, why, err := newDevices(world, lib, missing, of, own)
			if err != nil {
				return err
			}
			if (devices == nil) != (c.want != "") || !strings.HasPrefix(why, c.want) {
				t.Errorf("%s, rank %d: got %q, want %q", c.name, world.Rank(), why, c.want)
			}
			if devices != nil {
				return devices.Close()
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// Operations of a plan are enqueued on the library stream, one by one, and joined.
func TestPeers(t *testing.T) {
	l, log := fake(t)
	own := &one{id: "GPU-a"}
	d, why, err := newDevices(comm.New(single{}), l, nil, own, own)
	if d == nil || err != nil {
		t.Fatal(why, err)
	}
	p, err := d.Join(comm.New(single{}))
	if err != nil {
		t.Fatal(err)
	}
	log()
	words := func(n int) []float32 { return make([]float32, n) }
	x, y, all := words(3), words(5), words(4)
	for _, ask := range []func() (func() error, error){
		func() (func() error, error) { return p.AllReduce(x, nil, y) },
		func() (func() error, error) { return p.AllGather(all) },
		func() (func() error, error) {
			return p.Exchange([]backend.Transfer{{Rank: 0, Send: x}, {Rank: 0, Recv: y}, {Rank: 0}})
		},
	} {
		arrived, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		if err := arrived(); err != nil {
			t.Error(err)
		}
	}
	if len(own.joined) != 3 {
		t.Errorf("%d of 3 were joined", len(own.joined))
	}
	place := func(v []float32) string { return fmt.Sprint(unsafe.Pointer(unsafe.SliceData(v))) }
	want := []string{
		"begin 1",
		"ncclAllReduce 0: 3 of type 7 op 0 from " + place(x) + " to " + place(x) + " on 0x60000 in a group",
		"ncclAllReduce 0: 5 of type 7 op 0 from " + place(y) + " to " + place(y) + " on 0x60000 in a group",
		"end 1",
		"ncclAllGather 0: 4 of type 7 op -1 from " + place(all) + " to " + place(all) + " on 0x60000",
		"begin 1",
		"ncclSend 0: 12 of type 1 op 0 from " + place(x) + " to (nil) on 0x60000 in a group",
		"ncclRecv 0: 20 of type 1 op 0 from (nil) to " + place(y) + " on 0x60000 in a group",
		"end 1",
	}
	if got := log(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	t.Setenv("FAKE_FAIL", "ncclGroupEnd=6@1")
	if _, err := p.AllReduce(x); exit.CodeOf(err) != exit.RankLost {
		t.Errorf("a rank that does not answer: %v", err)
	}
	t.Setenv("FAKE_FAIL", "")
	if err := errors.Join(d.Err(), d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if got := log(); got[len(got)-1] != "destroy 0, live 0" {
		t.Errorf("the end: %q", got)
	}
}

// A lost rank, reported by NCCL or noticed by a timeout of the device, aborts all
// communicators. Later operations return the reason.
func TestDevicesAreWatched(t *testing.T) {
	l, _ := fake(t)
	for name, harm := range map[string]func(own *one){
		"NCCL says so":     func(*one) { t.Setenv("FAKE_VALUES", "async=6") },
		"the device waits": func(own *one) { own.busy.Store(int64(time.Hour)) },
	} {
		t.Setenv("FAKE_VALUES", "async=0")
		own := &one{id: "GPU-a"}
		d := &Devices{l: l, d: own, stop: func() {}, done: make(chan struct{})}
		p, err := d.Join(comm.New(single{}))
		if err != nil {
			t.Fatal(err)
		}
		go d.watch(t.Context(), time.Millisecond, own.CallDuration, time.Minute)
		time.Sleep(5 * time.Millisecond)
		if err := d.Err(); err != nil {
			t.Errorf("%s: before it: %v", name, err)
		}
		harm(own)
		<-d.done
		if err := d.Err(); exit.CodeOf(err) != exit.RankLost {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := p.AllReduce(make([]float32, 1)); !errors.Is(err, ErrAborted) {
			t.Errorf("%s: a later operation: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
