package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
)

// predicted is a prediction from features in host memory to fields in host memory.
type predicted struct {
	Case    string `json:"case"`
	Backend string `json:"backend"`
	Network
	MS          benchstats.Times `json:"predict_ms"`
	GFLOP       float64          `json:"gflop"`
	GFLOPs      float64          `json:"gflops"`
	DeviceBytes int64            `json:"device_bytes"`
	UsedBytes   uint64           `json:"device_used_bytes"`
	BeforeBytes uint64           `json:"device_used_before"`
	Classes     []classTime      `json:"classes"` // kernels measured one by one
	Mean        float64          `json:"mean_abs_output"`
}

// predict measures predictions whose parameters stay on the device.
func predict(ctx context.Context, c *Options) (answer.Sectioned, error) {
	flops, err := c.flops()
	if err != nil {
		return nil, err
	}
	a := &predicted{Case: c.Case, Backend: c.Backend, Network: c.Network, GFLOP: float64(flops) / 1e9, BeforeBytes: usedBytes()}
	o := c.options(c.Backend)
	o.Mode = engine.Infer
	err = c.plan(o, func(p *engine.Plan) error {
		n := uint64(0)
		step := func() error { n++; return p.Run(ctx, n) }
		var err error
		if a.MS, err = c.repeat(step); err != nil {
			return err
		}
		a.GFLOPs = 1e3 * a.GFLOP / a.MS.Median
		a.DeviceBytes, a.UsedBytes = deviceBytes(p, false), usedBytes()
		y := p.Output("y")
		for _, v := range y {
			a.Mean += max(float64(v), -float64(v)) / float64(len(y))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.Profile = true
	return a, c.plan(o, func(p *engine.Plan) error {
		for i := range uint64(warmup) {
			if err := p.Run(ctx, i); err != nil {
				return err
			}
		}
		a.Classes, _ = classes(p.Timeline(engine.Peaks{}))
		return nil
	})
}

// Sections returns the report as text.
func (a *predicted) Sections() answer.Sections {
	return append(a.facts(a.Backend, [2]string{"prediction", times(a.MS)}, [2]string{"useful work", fmt.Sprintf("%.4g GFLOP, %.4g GFLOP/s", a.GFLOP, a.GFLOPs)},
		[2]string{"memory", fmt.Sprintf("%.4g GB of the device", float64(a.DeviceBytes)/1e9)}), classTable(a.Classes))
}

// plan compiles a prediction, fills its input, calls f, and closes it.
func (c *Options) plan(o engine.Options, f func(*engine.Plan) error) error {
	g, err := c.graph(false, 1)
	if err != nil {
		return err
	}
	p, err := engine.Compile(g, o)
	if err != nil {
		return err
	}
	noise(p.Input("x"), 2)
	return errors.Join(f(p), p.Close())
}
