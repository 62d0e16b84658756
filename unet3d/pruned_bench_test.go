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
			var times planTimes
			times.run(b, plans)
			if !slices.Equal(plans[0].Output("y"), plans[1].Output("y")) {
				b.Fatal("the predictions differ")
			}
			for b.Loop() {
				times.run(b, plans)
			}
			times.report(b, plans)
		})
	}
}

// planTimes are the times of a dense and a sparse plan that run in turn.
type planTimes struct {
	least  [2]time.Duration // processor time
	ratios []float64        // of wall times
}

// run runs each plan once.
func (t *planTimes) run(b *testing.B, plans [2]*engine.Plan) {
	var wall [2]time.Duration
	for i, p := range plans {
		used, start := tune.ProcessTime(), time.Now()
		if err := p.Run(context.Background(), 0); err != nil {
			b.Fatal(err)
		}
		used, wall[i] = tune.ProcessTime()-used, time.Since(start)
		if t.least[i] == 0 || used < t.least[i] {
			t.least[i] = used
		}
	}
	t.ratios = append(t.ratios, float64(wall[0])/float64(wall[1]))
}

// report reports the times and the ratio of operations.
func (t *planTimes) report(b *testing.B, plans [2]*engine.Plan) {
	slices.Sort(t.ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(t.least[0])/1e6, "dense-ms")
	b.ReportMetric(float64(t.least[1])/1e6, "sparse-ms")
	b.ReportMetric(float64(t.least[0])/float64(t.least[1]), "ratio")
	b.ReportMetric(t.ratios[len(t.ratios)/2], "wall-ratio")
	b.ReportMetric(float64(plans[0].FLOPs())/float64(plans[1].FLOPs()), "work-ratio")
}
