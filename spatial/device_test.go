//go:build cgo && linux

package spatial

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	gpu "github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	cuda "github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/emulated"
)

// onEmulated runs backend emulated with one device per rank. Devices run late or at
// once, and exchange values directly if they are linked.
func onEmulated(t *testing.T, late, linked bool) {
	t.Helper()
	backends, links := engine.Backends, DeviceTransports
	t.Cleanup(func() { engine.Backends, DeviceTransports = backends, links })
	DeviceTransports = slices.DeleteFunc(slices.Clone(links), func(l DeviceTransport) bool { return l.Name == "emulated" })
	engine.Backends = append([]engine.Backend{}, engine.Backend{Name: "emulated", Open: func(engine.Options) (backend.Backend, error) {
		if late {
			return cuda.OpenLazy(1 << 28)
		}
		return cuda.Open(1 << 28)
	}})
	if linked {
		DeviceTransports = append(DeviceTransports, DeviceTransport{"emulated", func(_ *comm.Comm, dev backend.Backend) (Devices, string, error) {
			d, why := emulated.NewDevices(dev)
			if d == nil {
				return nil, why, nil
			}
			return d, "", nil
		}})
	}
}

// Devices that run late and exchange halos directly compute layers cut anywhere. On all ranks the same operations
// communicate, also where filters by point are read across the date line by some ranks only.
func TestLayersOnDevices(t *testing.T) {
	own := slices.IndexFunc(layers(), func(n network) bool { return n.name == "own filters 3×3, periodic" })
	dilated := slices.IndexFunc(layers(), func(n network) bool { return n.name == "3×3, stride 2, dilation 2" })
	layersOnDevices(t, func(network, mesh int) bool { return mesh == 1 && (network == own || network == dilated) })
}

func layersOnDevices(t *testing.T, take func(network, mesh int) bool) {
	onEmulated(t, true, true)
	layersOnShards(t, engine.Options{Device: engine.Device{Backend: "emulated"}}, 1e-6, 1e-5, take)
}

// With one device per rank a mesh gives the result of one rank, whether halos and
// sums go through host memory or directly between devices. If both store values
// alike, the bits are equal. (16 bits on every mesh: TestLongShardOnDevices.)
func TestShardOnDevices(t *testing.T) {
	shardOnDevices(t, func(precision string, m Mesh) bool {
		return precision == "f32" || (precision == "bf16") == (m[0].Name == "lon")
	})
}

func shardOnDevices(t *testing.T, take func(precision string, m Mesh) bool) {
	for k, n := range []network{unet("U-Net, periodic", graph.Shape{2, 2, 2, 12, 16}, 1, true), named(t, "MS-SSIM"), named(t, "members")} {
		for _, c := range []struct {
			precision         string
			forward, gradient float64
		}{{"f32", 1e-6, 1e-5}, {"bf16", 1e-2, 5e-2}, {"f16", 2e-3, 1e-2}} {
			if c.precision == "bf16" && n.name == "MS-SSIM" || c.precision == "f16" && n.name != "U-Net, periodic" {
				continue // has no such values, or no others than the U-Net
			}
			o := engine.Options{Device: engine.Device{Backend: "emulated"}, Numerics: engine.Numerics{Precision: c.precision}}
			onEmulated(t, true, false)
			one, err := n.run(t, Mesh{{Name: "lon", Size: 1}}, comm.Parallel, o)
			if err != nil {
				t.Fatal(n.name, err)
			}
			for _, m := range []Mesh{{{Name: "data", Size: 2}}, {{Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}}} {
				if !n.fits(m) || k > 0 && m[0].Name == "data" || c.precision != "f32" && m.Size() > 2 || !take(c.precision, m) {
					continue
				}
				t.Run(fmt.Sprintf("%s in %s on %v", n.name, c.precision, m), func(t *testing.T) {
					run := func(late, linked bool) result {
						onEmulated(t, late, linked)
						r, err := n.run(t, m, comm.Parallel, o)
						if err != nil {
							t.Fatal(err)
						}
						if got := strings.HasPrefix(r.links, "emulated"); got != linked {
							t.Fatalf("linked %v: devices exchange values by %q", linked, r.links)
						}
						if err := r.compare(one, c.forward, c.gradient); err != nil {
							t.Errorf("late %v, linked %v: %v", late, linked, err)
						}
						return r
					}
					linked := run(true, true)
					if k > 0 || m.Size() > 2 {
						return
					}
					other := run(m[0].Name == "data", m[0].Name != "data") // only gradients are exchanged, in host memory too
					if m[0].Name == "data" {
						other.links = linked.links
					}
					if !reflect.DeepEqual(linked, other) {
						t.Error("bits differ")
					}
				})
			}
		}
	}
}

// If devices are linked, no halo, sum or gradient goes through host memory. A step
// copies its inputs to the device, and its results and the step number back.
func TestNothingCrossesTheHost(t *testing.T) {
	n, m := unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false), Mesh{{Name: "lat", Size: 2}}
	g := n.graph(t)
	// crossed returns the bytes that all ranks copy for a number of steps, and
	// those of the inputs and results of one step.
	crossed := func(linked bool, steps uint64) (bytes, own int64) {
		onEmulated(t, false, linked)
		var mu sync.Mutex
		var devices []interface{ BytesTransferred() int64 }
		open := engine.Backends[0].Open
		engine.Backends[0].Open = func(o engine.Options) (backend.Backend, error) {
			b, err := open(o)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				devices = append(devices, b.(interface{ Device() device.Device }).Device().(interface{ BytesTransferred() int64 }))
			}
			return b, err
		}
		if err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
			p, err := Compile(g, c, m, engine.Options{Device: engine.Device{Backend: "emulated"}, Numerics: engine.Numerics{Precision: "bf16"}, Reuse: engine.Reuse{Store: engine.NewStore()}})
			if err != nil {
				return err
			}
			defer p.Close()
			for step := range steps {
				if err := p.Run(context.Background(), step); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			const number, loss = 8, 4 // bytes
			own += number + loss
			for _, x := range [][]float32{p.Input("x"), p.Input("y"), p.Output("mean"), p.Output("spread")} {
				own += 4 * int64(len(x))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			bytes += d.BytesTransferred()
		}
		return bytes, own
	}
	step := func(linked bool) (bytes, own int64) {
		few, _ := crossed(linked, 3)
		more, own := crossed(linked, 4)
		return more - few, own
	}
	if bytes, own := step(true); bytes != own {
		t.Errorf("%d bytes cross the host in a step, %d are its inputs and results", bytes, own)
	}
	if bytes, own := step(false); bytes <= own {
		t.Errorf("the program exchanges nothing: %d bytes cross the host, %d are inputs and results", bytes, own)
	}
}

// laid returns a box of a value in its memory layout. Every element has its own
// number, from 1; unused lanes and elements outside need are zero.
func laid(box, need Box, s graph.Shape, l graph.Layout, unit int) []byte {
	part := box.Shape()
	x := make([]byte, (l.Elems(part)*unit+3)/4*4)
	for i := range part.Size() {
		at, number, inside := 0, 0, true
		var c [5]int
		for axis, rest := 4, i; axis >= 0; axis-- {
			c[axis] = rest % part[axis]
			rest /= part[axis]
		}
		for axis, v := range c {
			global := v + box[axis].Lo
			inside = inside && global >= need[axis].Lo && global < need[axis].Hi
			number = number*s[axis] + (global+s[axis])%s[axis]
		}
		if !inside {
			continue
		}
		if at = i; l == graph.ChannelsLast {
			at = (((c[0]*part[2]+c[2])*part[3]+c[3])*part[4]+c[4])*l.PaddedChannels(part[1]) + c[1]
		}
		for b := range unit {
			x[at*unit+b] = byte((number + 1) >> (8 * b))
		}
	}
	return x
}

// words returns the number of float32 words of x.
func words(x []byte) []float32 {
	w := make([]float32, len(x)/4)
	for i := range w {
		w[i] = math.Float32frombits(binary.NativeEndian.Uint32(x[4*i:]))
	}
	return w
}

// Every rank receives its required box to the last bit: periodic, with zeros beyond
// ends, and from one distribution to another, in each layout and type, on late
// devices, and in a captured graph.
func TestGatherOnDevices(t *testing.T) {
	globe := Mesh{{Name: "lat", Size: 2}, {Name: "lon", Size: 3}}
	s := graph.Shape{2, 11, 2, 6, 8}
	halo := Redistribution{Mesh: globe, Shape: s, From: dist(s, map[int]MeshAxis{3: globe[0], 4: globe[1]})}
	lat := graph.WindowAxis{Size: 5, Stride: 1, Dilation: 1, Pad: 2}
	lon := lat
	lon.Periodic = true
	halo.Need, halo.Room = windowBoxes(globe, halo.From, s, lat, lon)
	turned := shuffle(globe, s, halo.From, dist(s, map[int]MeshAxis{4: globe[0], 0: globe[0], 3: globe[1]}))
	channels := shuffle(globe, s, dist(s, map[int]MeshAxis{1: globe[1]}), halo.From)
	for _, c := range []struct {
		name   string
		parts  Redistribution
		layout graph.Layout
		unit   int
		late   bool
	}{
		{"halo", halo, graph.Plain, 4, false}, {"halo", halo, graph.ChannelsLast, 4, true}, {"halo", halo, graph.ChannelsLast, 2, true},
		{"another cut", turned, graph.Plain, 4, true}, {"another cut", turned, graph.ChannelsLast, 2, false}, {"channels", channels, graph.Plain, 4, true},
	} {
		t.Run(fmt.Sprint(c.name, c.layout, c.unit, c.late), func(t *testing.T) {
			err := comm.Run(globe.Size(), comm.Parallel, func(world *comm.Comm) error {
				open := cuda.Open
				if c.late {
					open = cuda.OpenLazy
				}
				b, err := open(1 << 24)
				if err != nil {
					return err
				}
				defer b.Close()
				devices, _ := emulated.NewDevices(b)
				o := &devicePlan{c: world, dev: b.(deviceMemory), devices: devices}
				me := world.Rank()
				own := globe.Owned(c.parts.From, s, me)
				x, want := laid(own, own, s, c.layout, c.unit), laid(c.parts.room(me), c.parts.Need.Of(me), s, c.layout, c.unit)
				return b.Do(func() error {
					there := func(n int, box Box) ([]float32, backend.Tensor) {
						memory, e := o.dev.Alloc(n)
						err = errors.Join(err, e)
						like := backend.Tensor{Layout: c.layout}
						if c.unit == 2 {
							like.U16 = []uint16{}
						}
						return memory, o.dev.TensorAt(memory, like, box.Shape())
					}
					from, source := there(len(x)/4, own)
					to, result := there(len(want)/4, c.parts.room(me))
					k, e := o.gather(backend.Request{Attrs: gatherAttrs{Redistribution: c.parts, Rank: me}, In: []backend.Tensor{source}, Out: result})
					if err := errors.Join(err, e, o.allocate(), o.dev.Copy(from, words(x))); err != nil {
						return err
					}
					run, end, err := o.dev.Record(func() error { return errors.Join(k.Run(), k.Finish()) })
					if err != nil {
						return err
					}
					for i := range 2 {
						filled := words(bytes.Repeat([]byte{7}, len(want)))
						got := make([]float32, len(want)/4)
						if err := errors.Join(o.dev.Copy(to, filled), run(), o.dev.Copy(got, to), o.dev.Wait()); err != nil {
							return err
						}
						for j, w := range words(want) {
							if math.Float32bits(got[j]) != math.Float32bits(w) {
								return fmt.Errorf("run %d: word %d is %x, want %x", i, j, math.Float32bits(got[j]), math.Float32bits(w))
							}
						}
					}
					return end()
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A rank whose plan fails within a step, or whose devices lose their link, ends the
// step of all ranks with an error. No rank hangs.
func TestRankFailsOnDevice(t *testing.T) {
	n, m := unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false), Mesh{{Name: "lat", Size: 2}}
	g := n.graph(t)
	onEmulated(t, true, true)
	errs := make([]error, m.Size())
	lost := errors.New("the link is lost")
	_ = comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
		p, err := Compile(g, c, m, engine.Options{Device: engine.Device{Backend: "emulated"}, Reuse: engine.Reuse{Store: engine.NewStore()}})
		if err != nil {
			return err
		}
		defer p.Close()
		for step := range uint64(4) {
			if step == 3 && c.Rank() == 1 {
				_ = p.devices.devices.Abort(lost)
			}
			if err := p.Run(context.Background(), step); err != nil {
				errs[c.Rank()] = err
				return err // as if the process ended
			}
		}
		return nil
	})
	if !errors.Is(errs[1], lost) || errs[0] == nil {
		t.Errorf("the ranks end with %v", errs)
	}
}

// waiting is a backend with an operation that waits for the device.
type waiting struct{ *gpu.Backend }

func (w waiting) Prepare(q backend.Request) (backend.Kernel, error) {
	k, err := w.Backend.Prepare(q)
	k.Blocking = k.Blocking || q.Op.Name == "max_pool_grad"
	return k, err
}

// If one rank has an operation between sums that cannot be captured in a graph, no
// rank captures these sums: devices refuse an exchange that only some ranks
// capture.
func TestAllRanksRecordAlike(t *testing.T) {
	n, m := unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false), Mesh{{Name: "data", Size: 2}}
	onEmulated(t, true, true)
	want, err := n.run(t, m, comm.Parallel, engine.Options{Device: engine.Device{Backend: "emulated"}})
	if err != nil {
		t.Fatal(err)
	}
	open := engine.Backends[0].Open
	var opened atomic.Int32
	engine.Backends[0].Open = func(o engine.Options) (backend.Backend, error) {
		b, err := open(o)
		if err == nil && opened.Add(1) == 2 {
			b = waiting{b.(*gpu.Backend)}
		}
		return b, err
	}
	got, err := n.run(t, m, comm.Parallel, engine.Options{Device: engine.Device{Backend: "emulated"}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("bits differ")
	}
}

// Trainings with linked devices have several buckets in progress and update
// parameters in device memory. They end with the same result as with sums in host
// memory, also with a sharded optimiser.
func TestTrainingsOnDevices(t *testing.T) {
	n := unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false)
	train := func(linked, sharded bool) []float32 {
		onEmulated(t, true, linked)
		r := training{mesh: Mesh{{Name: "lat", Size: 2}}, steps: 3, size: 500, device: "emulated", sharded: sharded, optimizer: &optim.Options{Kind: optim.Adam, Clip: 0.5}}
		return r.inProcess(t, n, comm.Parallel).params
	}
	want := train(false, false)
	for _, sharded := range []bool{false, true} {
		if d := distance(train(true, sharded), want); !(d < 1e-4) {
			t.Errorf("shared optimiser %v: parameters differ by %.2g", sharded, d)
		}
	}
}
