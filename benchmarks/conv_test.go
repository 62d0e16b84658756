package benchmarks

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// layers are convolutions of the 3-D U-Net at base 32 on 128² points, one or two
// from every stage.
var layers = []struct {
	name          string
	in, out, side int
}{
	{"enc_conv0", 42, 64, 128},
	{"enc_conv1", 64, 64, 128},
	{"enc_conv2", 64, 96, 64},
	{"enc_conv3", 96, 128, 32},
	{"enc_conv4", 128, 160, 16},
	{"dec_conv5a", 384, 320, 8},
	{"dec_conv4a", 448, 224, 16},
	{"dec_conv3a", 320, 192, 32},
	{"dec_conv2a", 256, 128, 64},
	{"dec_conv1a", 170, 128, 128},
	{"dec_conv0", 64, 1, 128},
}

// passes build a graph in which one pass of a convolution is the only contraction
// that counts.
var passes = []struct {
	name string
	mode engine.Mode
	make func(b *graph.Builder, x, w graph.Shape)
}{
	{"forward", engine.Infer, func(b *graph.Builder, x, w graph.Shape) {
		c := op.Conv3D(b, b.Input("x", x), b.Param("w", w, graph.HeNormal(27*w[1])), same)
		b.Output("y", op.ReLU(b, op.Bias(b, c, b.Param("b", graph.Shape{w[0]}, graph.Zeros()))))
	}},
	{"data", engine.Train, func(b *graph.Builder, x, w graph.Shape) {
		product(b, b.Param("x", x, graph.HeNormal(1)), b.Input("w", w))
	}},
	{"filter", engine.Train, func(b *graph.Builder, x, w graph.Shape) {
		product(b, b.Input("x", x), b.Param("w", w, graph.HeNormal(27*w[1])))
	}},
}

var same = op.Conv{Pad: op.Same(3, 3, 3)}

// product makes Σ conv(x, w)·dy the loss, so that dy is the gradient of the result.
func product(b *graph.Builder, x, w graph.Value) {
	y := op.Conv3D(b, x, w, same)
	b.Loss(op.Sum(b, op.Mul(b, y, b.Input("dy", y.Shape()))))
}

// BenchmarkConv is one pass of one layer, alone: kernel-ms and GFLOP/s (useful
// ones) are those of the convolution without what brings its operands into place.
func BenchmarkConv(b *testing.B) {
	for _, l := range layers {
		for _, p := range passes {
			b.Run(l.name+"/"+p.name, func(b *testing.B) {
				bld := graph.New(1)
				p.make(bld, graph.Shape{1, l.in, 2, l.side, l.side}, graph.Shape{l.out, l.in, 3, 3, 3})
				g, err := bld.Build()
				if err != nil {
					b.Fatal(err)
				}
				o := bench.Case{Threads: runtime.GOMAXPROCS(0)}.Options(true)
				o.Mode = p.mode
				plan, err := engine.Compile(g, o)
				if exit.CodeOf(err) == exit.NoDevice {
					b.Skip("skipped: no device: ", err)
				}
				if err != nil {
					b.Fatal(err)
				}
				defer plan.Close()
				for _, name := range []string{"x", "w", "dy"} {
					for i := range plan.Input(name) {
						plan.Input(name)[i] = float32(i%13)/13 - 0.5
					}
				}
				var took time.Duration
				var flops int64
				for b.Loop() {
					if err := plan.Run(context.Background(), 0); err != nil {
						b.Fatal(err)
					}
					for _, k := range plan.Timeline(engine.Peaks{}) {
						if k.Class == engine.Contraction && k.Backward == (p.mode == engine.Train) {
							took += k.Duration
							flops += k.FLOPs
						}
					}
				}
				if flops == 0 {
					b.Fatal("the plan has no such convolution")
				}
				b.ReportMetric(float64(took)/1e6/float64(b.N), "kernel-ms")
				b.ReportMetric(float64(flops)/float64(took), "GFLOP/s")
			})
		}
	}
}
