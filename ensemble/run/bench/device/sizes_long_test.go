//go:build long && cgo && linux

package device

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
)

// idle is a device as large as a real one that does nothing: its memory is addresses only.
type idle struct {
	*emulate.Device
	maps map[device.Pointer][]byte
	free int64
}

func (d *idle) Properties() device.Properties {
	p := d.Device.Properties()
	p.MemoryBytes = idleBytes
	return p
}

const idleBytes = 79 << 30

func (d *idle) Alloc(bytes int64) (device.Pointer, error) {
	if bytes > d.free {
		return nil, device.ErrOutOfMemory
	}
	m, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	d.free -= bytes
	p := device.Pointer(&m[0])
	d.maps[p] = m
	return p, nil
}

func (d *idle) Free(p device.Pointer) error {
	d.free += int64(len(d.maps[p]))
	err := unix.Munmap(d.maps[p])
	delete(d.maps, p)
	return err
}

func (d *idle) AllocHost(bytes int64) (device.Pointer, error)                { return d.Alloc(bytes) }
func (d *idle) FreeHost(p device.Pointer) error                              { return d.Free(p) }
func (d *idle) Copy(device.Pointer, device.Pointer, int64) error             { return nil }
func (d *idle) CopyAsync(_, _ device.Pointer, _ int64) (device.Event, error) { return 0, nil }
func (d *idle) CopyNow(_, _ device.Pointer, _ int64) (device.Event, error)   { return 0, nil }
func (d *idle) Join(device.Event) error                                      { return nil }
func (d *idle) Zero(device.Pointer, int64) error                             { return nil }
func (d *idle) Record(f func() error) (device.Recording, error)              { return nothing{}, f() }
func (d *idle) Load(p device.Program) (device.Module, error) {
	m, err := d.Device.Load(p)
	return module{m}, err
}

func (d *idle) Close() error {
	for p := range d.maps {
		if err := d.Free(p); err != nil {
			return err
		}
	}
	return d.Device.Close()
}

// module checks calls as the emulated device does, and has them do nothing.
type module struct{ device.Module }

func (m module) Call(kernel string, size device.Size, args ...any) (device.Call, error) {
	_, err := m.Module.Call(kernel, size, args...)
	return nothing{}, err
}

type nothing struct{}

func (nothing) Run() error   { return nil }
func (nothing) Close() error { return nil }

// TestLongFullSizes compiles the cases of gpu.sh in full size for an idle device of 79 GiB: a plan exists,
// and the device accepts every kernel call.
func TestLongFullSizes(t *testing.T) {
	const name = "idle"
	engine.Backends = append(engine.Backends, engine.Backend{Name: name, Open: func(engine.Options) (backend.Backend, error) {
		return cuda.New(func() (device.Device, error) {
			d, err := emulate.Open(idleBytes)
			return &idle{d, map[device.Pointer][]byte{}, idleBytes}, err
		})
	}})
	for _, c := range []struct {
		name  string
		n     Network
		infer bool
		share float64
	}{
		{name: "train bf16", n: Network{Base: 32, Batch: 2, Field: Field{2, 352, 704}, Precision: "bf16"}},
		{name: "train f32", n: Network{Base: 32, Batch: 2, Field: Field{2, 352, 704}, Precision: "f32"}},
		{name: "narrow", n: Network{Base: 8, Batch: 2, Field: Field{2, 352, 704}, Precision: "bf16"}},
		{name: "levels, 1", n: Network{Base: 32, Batch: 1, Field: Field{11, 361, 720}, Precision: "bf16"}},
		{name: "levels, 4", n: Network{Base: 32, Batch: 4, Field: Field{11, 361, 720}, Precision: "bf16"}},
		{name: "levels, half", n: Network{Base: 32, Batch: 1, Field: Field{11, 361, 720}, Precision: "bf16"}, share: 0.5},
		{name: "predict", n: Network{Base: 32, Batch: 1, Field: Field{2, 361, 720}, Precision: "bf16"}, infer: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.n.Channels, c.n.Stages, c.n.Threads = 42, 5, 2
			o := c.n.options(name)
			if c.infer {
				o.Mode = engine.Infer
			}
			plan := func() *engine.Plan {
				t.Helper()
				g, err := c.n.graph(!c.infer, 1)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				p, err := engine.Compile(g, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%.1f s, %d kernels, arena %.2f GiB, plan %.2f GiB, device %.2f GiB", time.Since(start).Seconds(), len(p.Movement(engine.Peaks{})),
					float64(p.ArenaBytes())/(1<<30), float64(p.MemoryBytes())/(1<<30), float64(deviceBytes(p, !c.infer))/(1<<30))
				return p
			}
			p := plan()
			if c.share > 0 {
				o.Memory.Limit = int64(c.share * float64(p.MemoryBytes()))
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				p = plan()
			}
			for i := range uint64(warmup) {
				if err := p.Run(t.Context(), i); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	// The peak measurements too; an idle device is infinitely fast.
	yard := Options{Network: Network{Threads: 2}, Backend: name}
	for _, precision := range []string{"bf16", "f32"} {
		if rate, err := yard.products(t.Context(), productSide, precision); err != nil || rate <= 0 {
			t.Errorf("products in %s: %g, %v", precision, rate, err)
		}
	}
	// Arrays have at most 2³¹ elements, and the widest here is that of 170 channels.
	c := Options{Network: Network{Base: 32, Stages: 5, Batch: 6, Channels: 42, Field: Field{11, 361, 720}, Precision: "bf16", Threads: 2}, Backend: name, SmallerBatch: true}
	if asked, why, err := c.reduceBatch(); asked != 6 || c.Batch != 4 || why == "" || err != nil {
		t.Errorf("of 6 samples %d (asked %d, %q, %v), want 4", c.Batch, asked, why, err)
	}
}
