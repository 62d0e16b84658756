package unet3d

import (
	"context"
	"os"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// BenchmarkAxialStep measures a training step of AxialTransformer on one thread, without the
// optimiser. With ENSEMBLE_EXPLAIN set it prints the plan with the time of every kernel.
func BenchmarkAxialStep(b *testing.B) {
	for _, c := range []struct {
		name string
		x    graph.Shape
		a    AxialTransformer
	}{
		{"gcm", graph.Shape{8, 14, 1, 32, 64}, AxialTransformer{Leads: 2, Out: 4, Periodic: true}},                    // batches of four with two leads
		{"six leads", graph.Shape{6, 14, 1, 64, 128}, AxialTransformer{Leads: 6, Out: 4, Stages: -1, Periodic: true}}, // attention at every point
	} {
		b.Run(c.name, func(b *testing.B) {
			g := graph.New(1)
			y := c.a.Build(g, g.Input("x", c.x))
			g.Loss(op.L1(g, y, g.Input("y", y.Shape())))
			built, err := g.Build()
			if err != nil {
				b.Fatal(err)
			}
			explain := os.Getenv("ENSEMBLE_EXPLAIN") != ""
			p, err := engine.Compile(built, engine.Options{Device: engine.Device{Threads: 1}, Debug: engine.Debug{Profile: explain}, Numerics: engine.Numerics{UseHeuristics: true}})
			if err != nil {
				b.Skip("skipped: no device: ", err)
			}
			defer p.Close()
			for i, x := range p.Input("x") {
				p.Input("x")[i] = x + float32(i*7%23)/11 - 1
			}
			for b.Loop() {
				if err := p.Run(context.Background(), 0); err != nil {
					b.Fatal(err)
				}
			}
			if explain {
				if err := p.Explain(os.Stderr); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
