package engine_test

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// benchNet is the published 3-D U-Net at base 16 with three stages, 12
// channels, a global grid of 2×32×64 points, batch 8 and L1 loss.
func benchNet(tb testing.TB, batch int) *graph.Graph {
	tb.Helper()
	b := graph.New(1)
	x := b.Input("x", graph.Shape{batch, 12, 2, 32, 64})
	y := b.Input("y", graph.Shape{batch, 1, 2, 32, 64})
	conv := func(name string, v graph.Value, out int, relu bool) graph.Value {
		in := v.Dim(1)
		w := b.Param(name+".weight", graph.Shape{out, in, 3, 3, 3}, graph.HeNormal(in*27))
		c := b.Param(name+".bias", graph.Shape{out}, graph.Zeros())
		v = op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), c)
		if relu {
			v = op.ReLU(b, v)
		}
		return v
	}
	pool := func(v graph.Value) graph.Value { return op.MaxPool(b, v, [3]int{1, 2, 2}) }
	up := func(v, skip graph.Value) graph.Value {
		return op.Concat(b, 1, op.Upsample(b, v, [3]int{1, 2, 2}, true), skip)
	}
	v := conv("enc_conv0", x, 32, true)
	p1 := pool(conv("enc_conv1", v, 32, true))
	p2 := pool(conv("enc_conv2", p1, 48, true))
	p3 := pool(conv("enc_conv3", p2, 64, true))
	v = conv("dec_conv3b", conv("dec_conv3a", up(p3, p2), 96, true), 96, true)
	v = conv("dec_conv2b", conv("dec_conv2a", up(v, p1), 64, true), 64, true)
	v = conv("dec_conv1b", conv("dec_conv1a", up(v, x), 64, true), 32, true)
	v = conv("dec_conv0", v, 1, false)
	b.Output("y", v)
	b.Loss(op.L1(b, v, y))
	g, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// BenchmarkTrainStep measures one training step without the optimiser. With
// ENSEMBLE_EXPLAIN set it prints the plan with the time of every kernel.
// ENSEMBLE_WINOGRAD and ENSEMBLE_BY_RULE set these options; -cpu sets the
// number of threads.
func BenchmarkTrainStep(b *testing.B) {
	explain := os.Getenv("ENSEMBLE_EXPLAIN") != ""
	p, err := engine.Compile(benchNet(b, 8), engine.Options{Device: engine.Device{Threads: min(2, runtime.GOMAXPROCS(0))}, Debug: engine.Debug{Profile: explain}, Numerics: engine.Numerics{Winograd: os.Getenv("ENSEMBLE_WINOGRAD") != "", UseHeuristics: os.Getenv("ENSEMBLE_BY_RULE") != ""}})
	if err != nil {
		b.Skip("skipped: no device: ", err)
	}
	defer p.Close()
	fill(p.Input("x"), 1)
	fill(p.Input("y"), 2)
	b.ReportAllocs()
	step := uint64(0)
	for b.Loop() {
		if err := p.Run(context.Background(), step); err != nil {
			b.Fatal(err)
		}
		step++
	}
	b.ReportMetric(float64(p.FLOPs())*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
	if explain {
		if err := p.Explain(os.Stderr); err != nil {
			b.Fatal(err)
		}
	}
}
