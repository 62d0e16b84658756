package benchmarks

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// cases are the networks that are measured: sizes at which a change of a kernel
// shows within seconds.
var cases = []bench.Case{
	{Model: bench.BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 1, Depth: 2},
	{Model: bench.BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 128, Width: 128}, Batch: 1, Depth: 2},
	{Model: bench.BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 1, Depth: 2},
	{Model: bench.BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 128, Width: 128}, Batch: 1, Depth: 2},
	{Model: bench.BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 1, Depth: 11},
	{Model: bench.BenchResNet2D, Base: 32, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 1, Depth: 1},
}

// BenchmarkTrainStep is forward, loss, backward and Adam. -cpu sets the threads.
func BenchmarkTrainStep(b *testing.B) { networks(b, true) }

// BenchmarkPredict is forward only.
func BenchmarkPredict(b *testing.B) { networks(b, false) }

func networks(b *testing.B, train bool) {
	for _, c := range cases {
		b.Run(fmt.Sprintf("%s/base=%d/crop=%v/depth=%d", c.Model, c.Base, c.Crop, c.Depth), func(b *testing.B) {
			c.Threads = runtime.GOMAXPROCS(0)
			s, err := c.Compile(train, false)
			if exit.CodeOf(err) == exit.NoDevice {
				b.Skip("skipped: no device: ", err)
			}
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			flops, err := s.FLOPs()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(flops)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}
