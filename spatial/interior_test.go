//go:build cgo && linux

package spatial

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	gpu "github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// asked records the operations that one rank enqueues, in order.
type asked struct{ all []string }

// add returns f with a record of its call.
func (a *asked) add(what string, f func() error) func() error {
	return func() error {
		a.all = append(a.all, what)
		return f()
	}
}

// askedBackend records convolutions in two steps.
type askedBackend struct {
	*gpu.Backend
	asked *asked
}

func (b askedBackend) Prepare(q backend.Request) (backend.Kernel, error) {
	k, err := b.Backend.Prepare(q)
	if k.RunEarly != nil {
		k.RunEarly, k.Run = b.asked.add("interior of "+q.Op.Name, k.RunEarly), b.asked.add("rim of "+q.Op.Name, k.Run)
	}
	return k, err
}

// LayoutOptions returns those with channels last if there are any: small fields
// would be plain.
func (b askedBackend) LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	ways := b.Backend.LayoutOptions(o, attrs, in, out)
	return ways[len(ways)-1:]
}

// askedDevices and askedPeers record exchanges.
type askedDevices struct {
	Devices
	asked *asked
}

func (d askedDevices) Join(c *comm.Comm) (backend.Peers, error) {
	p, err := d.Devices.Join(c)
	return askedPeers{p, d.asked}, err
}

type askedPeers struct {
	backend.Peers
	asked *asked
}

func (p askedPeers) Exchange(parts []backend.Transfer) (arrived func() error, err error) {
	p.asked.all = append(p.asked.all, "halo begins")
	arrived, err = p.Peers.Exchange(parts)
	return p.asked.add("halo arrived", arrived), err
}

// Between start and end of an exchange, devices compute the interior of the
// convolution that reads the halo, and its rim afterwards: forward and in
// gradients, in every run, directly or in a captured graph. The bits are those of
// convolutions that wait for halos in host memory.
func TestInteriorRunsBesideTheHalo(t *testing.T) {
	n, m := unet("U-Net, periodic", graph.Shape{1, 8, 2, 16, 16}, 2, true), Mesh{{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}
	var all []*asked
	run := func(linked bool) result {
		onEmulated(t, true, linked)
		var mu sync.Mutex
		open := engine.Backends[0].Open
		engine.Backends[0].Open = func(o engine.Options) (backend.Backend, error) {
			b, err := open(o)
			if err != nil {
				return nil, err
			}
			a := &asked{}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
			return askedBackend{b.(*gpu.Backend), a}, nil
		}
		if linked {
			link := &DeviceTransports[len(DeviceTransports)-1]
			serve := link.Open
			link.Open = func(c *comm.Comm, dev backend.Backend) (Devices, string, error) {
				d, why, err := serve(c, dev)
				return askedDevices{d, dev.(askedBackend).asked}, why, err
			}
		}
		r, err := n.run(t, m, comm.Parallel, engine.Options{Device: engine.Device{Backend: "emulated"}, Numerics: engine.Numerics{Precision: "bf16"}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := run(false)
	for _, a := range all {
		if len(a.all) > 0 {
			t.Errorf("with halos in host memory devices get %q", a.all[:1])
		}
	}
	all = nil
	got := run(true)
	for _, a := range all {
		times := map[string]int{}
		begun, arrived := 0, 0
		for i, what := range a.all {
			switch conv, interior := strings.CutPrefix(what, "interior of "); {
			case what == "halo begins":
				begun++
			case what == "halo arrived":
				arrived++
			case interior:
				times[conv]++
				behind := a.all[i+1:]
				behind = behind[:slices.Index(behind, "rim of "+conv)+1]
				if len(behind) == 0 || slices.ContainsFunc(behind[:len(behind)-1], func(s string) bool { return s != "halo arrived" }) || begun-arrived < len(behind)-1 || len(behind) == 1 {
					t.Errorf("behind %s, with %d halos under way, come %q", what, begun-arrived, behind)
				}
			}
		}
		const steps = 2 // of five convolutions, all but the first of which have gradients of their input
		if times["conv3d_fused"] < 4*steps || times["conv3d_fused_grad_data"]+times["conv3d_grad_data"] < 4*steps || begun != arrived {
			t.Errorf("convolutions in two steps: %v; %d halos begin, %d arrive", times, begun, arrived)
		}
	}
	if got.links = want.links; !reflect.DeepEqual(got, want) {
		t.Errorf("bits differ from convolutions that wait")
	}
}
