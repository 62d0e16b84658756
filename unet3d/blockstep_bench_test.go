package unet3d_test

import (
	"math/rand/v2"
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

// BenchmarkBlockStep measures a training step of the U-Net with base 32, loss and gradients, alternately dense and with
// three quarters of the blocks of all filters masked except the last, and the replacement of the masks. It reports
// minima of CPU times in ms, their ratio, and the median ratio of wall times of successive steps. -cpu sets the
// threads.
func BenchmarkBlockStep(b *testing.B) {
	bld := graph.New(1)
	y := unet3d.UNet{}.Build(bld, bld.Input("x", graph.Shape{1, 42, 2, 96, 192}))
	bld.Loss(op.L1(bld, y, bld.Input("y", y.Shape())))
	g, err := bld.Build()
	if err != nil {
		b.Fatal(err)
	}
	masks := [2]map[string]op.BlockMask{maskedBlocks(g, 0.75, 7), maskedBlocks(g, 0.75, 8)}
	threads := runtime.GOMAXPROCS(0)
	o := engine.Options{Device: engine.Device{Threads: threads}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Reuse: engine.Reuse{Timings: tune.Open(b.TempDir(), cpu.Machine(threads), nil)}}
	var plans [2]*engine.Plan
	for i, k := range []map[string]op.BlockMask{nil, masks[0]} {
		o.Store, o.BlockMasks, o.MasksChange = engine.NewStore(), k, k != nil
		if plans[i], err = engine.Compile(g, o); exit.CodeOf(err) == exit.NoDevice {
			b.Skip("skipped: no device: ", err)
		} else if err != nil {
			b.Fatal(err)
		}
		defer plans[i].Close()
		for _, name := range []string{"x", "y"} {
			for j := range plans[i].Input(name) {
				plans[i].Input(name)[j] = float32(j%13)/13 - 0.5
			}
		}
		for name, k := range masks[0] {
			v, shape, _ := o.Store.Get(name)
			k.Clear(v, shape)
		}
	}
	var times planTimes
	var replaced time.Duration
	run := func() {
		times.run(b, plans)
		start := time.Now()
		for _, k := range []map[string]op.BlockMask{masks[1], masks[0]} {
			if err := plans[1].SetBlockMasks(k, k); err != nil {
				b.Fatal(err)
			}
		}
		replaced += time.Since(start) / 2
	}
	run()
	if plans[0].Loss() != plans[1].Loss() {
		b.Fatal("the losses differ")
	}
	for name, k := range masks[0] {
		_, shape, _ := plans[0].Store().Get(name)
		all, _ := plans[0].Store().Grad(name)
		kept, _ := plans[1].Store().Grad(name)
		want := slices.Clone(all)
		if k.Clear(want, shape); !slices.Equal(kept, want) {
			b.Fatal("the gradients differ: ", name)
		}
	}
	for b.Loop() {
		run()
	}
	times.report(b, plans)
	b.ReportMetric(float64(replaced)/float64(len(times.ratios))/1e6, "replace-ms")
}

// maskedBlocks masks a share of the blocks of all filters with more output channels than a block, at random.
func maskedBlocks(g *graph.Graph, share float64, seed uint64) map[string]op.BlockMask {
	kept := map[string]op.BlockMask{}
	for _, n := range g.Nodes {
		if n.Kind != graph.KindParam || len(n.Shape) != 5 || n.Shape[0] <= op.FilterBlock {
			continue
		}
		blocks := (n.Shape[0] + op.FilterBlock - 1) / op.FilterBlock * ((n.Shape[1] + op.FilterBlock - 1) / op.FilterBlock)
		k := slices.Repeat([]byte{'1'}, blocks)
		for _, i := range rand.New(rand.NewPCG(uint64(blocks), seed)).Perm(blocks)[:int(share*float64(blocks)+1e-9)] {
			k[i] = '0'
		}
		kept[n.Name] = op.BlockMask(k)
	}
	return kept
}
