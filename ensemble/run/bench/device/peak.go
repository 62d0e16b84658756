package device

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/answer"
)

// peaks are the peak rates of the engine on the device.
type peaks struct {
	Case     string  `json:"case"`
	Backend  string  `json:"backend"`
	Side     int     `json:"side"`        // input and output channels
	BF16     float64 `json:"bf16_gflops"` // rate of a 1×1×1 convolution
	TF32     float64 `json:"tf32_gflops"`
	F32      float64 `json:"f32_gflops"`
	Copy     float64 `json:"copy_gb_s"` // bytes read and written
	FromHost float64 `json:"from_host_gb_s"`
	ToHost   float64 `json:"to_host_gb_s"`
}

// productSide is the side of the matrices.
const productSide = 4096

// peak measures matrix products and copies; the best repetition counts.
func peak(ctx context.Context, c *Options) (answer.Sectioned, error) {
	a := &peaks{Case: c.Case, Backend: c.Backend, Side: productSide}
	floats := 1 << 28
	if c.Backend == Emulated {
		a.Side, floats = 32, 1<<16
	}
	for precision, to := range map[string]*float64{"bf16": &a.BF16, "tf32": &a.TF32, "f32": &a.F32} {
		var err error
		if *to, err = c.products(ctx, a.Side, precision); err != nil {
			return nil, err
		}
	}
	dev, err := c.open()
	if err != nil {
		return nil, err
	}
	r, ok := dev.(backend.Remote)
	if !ok {
		return nil, errors.Join(fmt.Errorf("backend %s has no memory of its own", c.Backend), dev.Close())
	}
	err = dev.Do(func() error { return a.copies(r, floats) })
	return a, errors.Join(err, dev.Close())
}

// Sections returns the report as text.
func (a *peaks) Sections() answer.Sections {
	return answer.Sections{answer.FactsSection([2]string{"matrix product", fmt.Sprintf("%.4g GFLOP/s in bf16, %.4g in tf32, %.4g in f32, %d channels, on %s", a.BF16, a.TF32, a.F32, a.Side, a.Backend)},
		[2]string{"copy", fmt.Sprintf("%.4g GB/s, from the host %.4g, to it %.4g", a.Copy, a.FromHost, a.ToHost)})}
}

// products is the rate of three products of side×side matrices with four times as many columns.
//
// Unit: GFLOP/s.
func (c *Options) products(ctx context.Context, side int, precision string) (float64, error) {
	const layers, repetitions = 3, 10
	b := graph.New(1)
	h, w := side/32, 32*4
	v := b.Input("x", graph.Shape{1, side, 1, h, w})
	for i := range layers {
		v = op.Conv3D(b, v, b.Param(fmt.Sprintf("w%d", i), graph.Shape{side, side, 1, 1, 1}, graph.HeNormal(side)), op.Conv{})
	}
	// One channel is copied to the host.
	b.Output("y", op.Conv3D(b, v, b.Param("last", graph.Shape{1, side, 1, 1, 1}, graph.HeNormal(side)), op.Conv{}))
	g, err := b.Build()
	if err != nil {
		return 0, err
	}
	n := c.Network
	n.Precision = precision
	o := n.options(c.Backend)
	o.Mode, o.Profile = engine.Infer, true
	p, err := engine.Compile(g, o)
	if err != nil {
		return 0, err
	}
	noise(p.Input("x"), 2)
	work := 2 * float64(side) * float64(side) * float64(h*w)
	best := math.Inf(1)
	for i := range uint64(repetitions) {
		if err = p.Run(ctx, i); err != nil {
			break
		}
		for _, k := range p.Timeline(engine.Peaks{}) {
			if k.Class == engine.Contraction && float64(k.FLOPs) >= work {
				best = min(best, k.Duration.Seconds())
			}
		}
	}
	return work / best / 1e9, errors.Join(err, p.Close())
}

// copies measures copies of n floats within the device, from the host and to it.
func (a *peaks) copies(r backend.Remote, floats int) error {
	x, err := r.Alloc(floats)
	if err != nil {
		return err
	}
	y, err := r.Alloc(floats)
	if err != nil {
		return err
	}
	here, err := r.AllocHost(floats / 4)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		to       *float64
		dst, src []float32
		bytes    float64 // bytes per float
	}{{&a.Copy, y, x, 8}, {&a.FromHost, x[:len(here)], here, 4}, {&a.ToHost, here, x[:len(here)], 4}} {
		best := math.Inf(1)
		for range 5 {
			if err := r.Wait(); err != nil {
				return err
			}
			start := time.Now()
			if err := r.Copy(m.dst, m.src); err != nil {
				return err
			}
			if err := r.Wait(); err != nil {
				return err
			}
			best = min(best, time.Since(start).Seconds())
		}
		*m.to = m.bytes * float64(len(m.dst)) / best / 1e9
	}
	return nil
}
