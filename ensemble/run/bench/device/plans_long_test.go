//go:build long && cgo && linux

package device

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn/cudnntest"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// timed is an idle device with a clock by which cuDNN's plans are faster than our kernels.
type timed struct {
	*idle
	plans *described
}

func (d timed) Time(f func() error) (seconds float64, err error) {
	before := d.plans.runs
	if err := f(); err != nil || d.plans.runs > before {
		return 1, err
	}
	return 2, nil
}

func (d timed) FreeBytes() (int64, error) { return d.free, nil }

// described is cuDNN for a device that is only described: plans are made and do nothing.
type described struct {
	cuda.ConvLibrary
	took               time.Duration
	lists, named, runs int
}

func (d *described) Plans(c cudnn.Convolution, l cudnn.Limits) (all []cuda.ConvPlan) {
	began := time.Now()
	for _, p := range d.ConvLibrary.Plans(c, l) {
		all = append(all, describedPlan{p, d})
	}
	d.took += time.Since(began)
	d.lists++
	return all
}

func (d *described) Plan(c cudnn.Convolution, name string) cuda.ConvPlan {
	began := time.Now()
	p := d.ConvLibrary.Plan(c, name)
	d.took += time.Since(began)
	d.named++
	if p == nil {
		return nil
	}
	return describedPlan{p, d}
}

func (d *described) CachePlan(c cudnn.Convolution, p cuda.ConvPlan) {
	d.ConvLibrary.CachePlan(c, p.(describedPlan).ConvPlan)
}

type describedPlan struct {
	cuda.ConvPlan
	d *described
}

func (p describedPlan) Run(cudnn.Operands) error {
	p.d.runs++
	return nil
}

// TestLongPlansAgain measures how long NVIDIA's cuDNN, found by $ENSEMBLE_CUDA_PATH, takes to make the plans
// of a network for a described H100: without cache, and with stored choices and compiled plans.
func TestLongPlansAgain(t *testing.T) {
	librariestest.Includes(t, "cudnn.h")
	librariestest.Driver(t)
	lib, err := cudnn.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		n     Network
		infer bool
	}{
		{name: "predict", n: Network{Base: 32, Batch: 1, Field: Field{2, 361, 720}, Precision: "bf16"}, infer: true},
		{name: "train bf16", n: Network{Base: 32, Batch: 2, Field: Field{2, 352, 704}, Precision: "bf16"}},
		{name: "train f32", n: Network{Base: 32, Batch: 2, Field: Field{2, 352, 704}, Precision: "f32"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for again := range 2 {
				d := &described{}
				name := "described " + t.Name()
				before := engine.Backends
				engine.Backends = append(engine.Backends[:len(before):len(before)], engine.Backend{Name: name, Open: func(engine.Options) (backend.Backend, error) {
					b, err := cuda.New(func() (device.Device, error) {
						e, err := emulate.Open(idleBytes)
						return timed{&idle{e, map[device.Pointer][]byte{}, idleBytes}, d}, err
					})
					if err != nil {
						return nil, err
					}
					h, err := lib.NewFromDescription(cudnntest.DeviceDescriptions["H100"])
					if err != nil {
						return nil, err
					}
					d.ConvLibrary = cuda.CuDNN(h, lib.Version(), b.Device().Properties(), nvrtc.Cache{Dir: dir})
					b.UseLibrary(d)
					b.SetTimings(tune.Open(dir, b.Machine(), nil))
					return b, nil
				}})
				c.n.Channels, c.n.Stages, c.n.Threads = 42, 5, 2
				o := c.n.options(name)
				if c.infer {
					o.Mode = engine.Infer
				}
				g, err := c.n.graph(!c.infer, 1)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				p, err := engine.Compile(g, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%.2f s to compile, %.2f s of it in %d lists of plans and %d plans by name", time.Since(began).Seconds(), d.took.Seconds(), d.lists, d.named)
				if again == 1 && (d.lists > 0 || d.named == 0) {
					t.Errorf("%d lists and %d plans by name, when all is known", d.lists, d.named)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				engine.Backends = before
			}
		})
	}
}
