//go:build cgo && linux

package nccl

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/devicetest"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// single is the transport of a job of one rank, which sends nothing. Ranks of comm.Run have
// goroutines of their own, but a device is used on one thread.
type single struct{ comm.Transport }

func (single) Rank() int { return 0 }
func (single) Size() int { return 1 }

// On one device, as a group of one rank: sums and gathered values are the own ones,
// and messages to oneself arrive, also in a captured graph. Skipped without a
// device.
func TestDevice(t *testing.T) {
	d := devicetest.GPU(t)
	l, err := Open(nil)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	c, err := l.Join(comm.New(single{}), d.(device.NativeHandles))
	if err != nil {
		t.Fatal(err)
	}
	m := devicetest.New(t, d)
	const n = 1000
	x := devicetest.Numbers(rand.New(rand.NewPCG(7, 8)), n)
	for kind := devicetest.Float32; kind <= devicetest.Float16; kind++ {
		from := m.Put(x, kind)
		bytes := int64(n) * map[devicetest.Kind]int64{devicetest.Float32: 4, devicetest.BFloat16: 2, devicetest.Float16: 2}[kind]
		for name, ask := range map[string]func(to device.Pointer) error{
			"AllReduce":     func(to device.Pointer) error { return c.AllReduce(from, to, n, Type(kind)) },
			"ReduceScatter": func(to device.Pointer) error { return c.ReduceScatter(from, to, n, Type(kind)) },
			"AllGather":     func(to device.Pointer) error { return c.AllGather(from, to, n, Type(kind)) },
			"Exchange": func(to device.Pointer) error {
				return c.Exchange([]Part{{Rank: 0, Send: from, SendBytes: bytes, Recv: to, RecvBytes: bytes}})
			},
		} {
			to, again := m.Alloc(bytes), m.Alloc(bytes)
			if err := ask(to); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			recording, err := d.Record(func() error { return ask(again) })
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := recording.Run(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !slices.Equal(m.Get(to, n, kind), x) || !slices.Equal(m.Get(again, n, kind), x) {
				t.Errorf("%s of kind %d: other values than were given", name, kind)
			}
			if err := errors.Join(recording.Close(), c.Err(), m.CheckGuards()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
