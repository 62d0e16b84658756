package unet3d_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// BenchmarkPrunedPredict measures a prediction of the U-Net with base 32, alternately dense and
// with zero blocks in all filters except the last. It reports minima of CPU times in ms, their
// ratio, and the median ratio of wall times of successive runs. -cpu sets the threads.
func BenchmarkPrunedPredict(b *testing.B) {
	for _, s := range []float64{0.5, 0.75, 0.9} {
		b.Run(fmt.Sprintf("S=%v", s), func(b *testing.B) {
			bld := graph.New(1)
			bld.Output("y", unet3d.UNet{}.Build(bld, bld.Input("x", graph.Shape{1, 42, 2, 192, 352})))
			g, err := bld.Build()
			if err != nil {
				b.Fatal(err)
			}
			kept := maskedBlocks(g, s, 7)
			threads := runtime.GOMAXPROCS(0)
			o := engine.Options{Device: engine.Device{Threads: threads}, Mode: engine.Infer, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Reuse: engine.Reuse{Store: engine.NewStore(), Timings: tune.Open(b.TempDir(), cpu.Machine(threads), nil)}}
			var plans [2]*engine.Plan
			for i, k := range []map[string]op.BlockMask{nil, kept} {
				o.BlockMasks = k
				if plans[i], err = engine.Compile(g, o); exit.CodeOf(err) == exit.NoDevice {
					b.Skip("skipped: no device: ", err)
				} else if err != nil {
					b.Fatal(err)
				}
				defer plans[i].Close()
				for j := range plans[i].Input("x") {
					plans[i].Input("x")[j] = float32(j%13)/13 - 0.5
				}
			}
			for name, k := range kept { // of the store that both plans read
				v, shape, _ := o.Store.Get(name)
				k.Clear(v, shape)
			}
			var least [2]time.Duration
			var ratios []float64
			run := func() {
				var wall [2]time.Duration
				for i, p := range plans {
					used, start := tune.ProcessTime(), time.Now()
					if err := p.Run(context.Background(), 0); err != nil {
						b.Fatal(err)
					}
					used, wall[i] = tune.ProcessTime()-used, time.Since(start)
					if least[i] == 0 || used < least[i] {
						least[i] = used
					}
				}
				ratios = append(ratios, float64(wall[0])/float64(wall[1]))
			}
			run()
			if !slices.Equal(plans[0].Output("y"), plans[1].Output("y")) {
				b.Fatal("the predictions differ")
			}
			for b.Loop() {
				run()
			}
			slices.Sort(ratios)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(least[0])/1e6, "dense-ms")
			b.ReportMetric(float64(least[1])/1e6, "sparse-ms")
			b.ReportMetric(float64(least[0])/float64(least[1]), "ratio")
			b.ReportMetric(ratios[len(ratios)/2], "wall-ratio")
			b.ReportMetric(float64(plans[0].FLOPs())/float64(plans[1].FLOPs()), "work-ratio")
		})
	}
}
