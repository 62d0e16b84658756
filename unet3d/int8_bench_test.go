package unet3d_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/quantise"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// BenchmarkInt8Predict measures a prediction of the U-Net with base 32 on 2×352×704 points,
// alternately in float32, with bfloat16 products, in int8, and in int8 with three quarters of the
// blocks of all filters zero. It reports medians of CPU times in ms, and of the ratios of successive runs. -cpu sets the threads; -v prints the layers of the last
// runs. With INT8_INPUT set, convolutions of the input are in int8 too.
func BenchmarkInt8Predict(b *testing.B) {
	network := func(lats, lons int) *graph.Graph {
		bld := graph.New(1)
		bld.Output("y", unet3d.UNet{Out: 4}.Build(bld, bld.Input("x", graph.Shape{1, 42, 2, lats, lons})))
		g, err := bld.Build()
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	fill := func(x []float32) {
		for j := range x {
			x[j] = float32(j%13)/13 - 0.5
		}
	}
	c := quantise.New(quantise.Options{MaxTiles: 64, IncludeInput: os.Getenv("INT8_INPUT") != ""})
	small, err := engine.Compile(network(64, 64), engine.Options{Mode: engine.Infer, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Debug: engine.Debug{Passes: c.Passes()}})
	if exit.CodeOf(err) == exit.NoDevice {
		b.Skip("skipped: ", err)
	} else if err != nil {
		b.Fatal(err)
	}
	defer small.Close()
	for _, look := range []func(*engine.Plan){c.ObserveRanges, c.ObservePoints} {
		fill(small.Input("x"))
		if err := small.Run(context.Background(), 0); err != nil {
			b.Fatal(err)
		}
		look(small)
	}
	scales, err := c.Scales()
	if err != nil {
		b.Fatal(err)
	}
	threads := runtime.GOMAXPROCS(0)
	g := network(352, 704)
	var plans []*engine.Plan
	kept := maskedBlocks(g, 0.75, 7)
	forms := []string{"f32", "bf16_products", "int8", "int8 and bf16_products", "sparse int8", "sparse int8 and bf16_products"}
	for i, precision := range []string{"f32", "bf16_products", "f32", "bf16_products", "f32", "bf16_products"} {
		o := engine.Options{Device: engine.Device{Threads: threads}, Mode: engine.Infer, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true, Precision: precision}, Debug: engine.Debug{Profile: true}, Reuse: engine.Reuse{Timings: tune.Open(b.TempDir(), cpu.Machine(threads), nil)}}
		if i > 1 {
			o.Int8 = scales
		}
		if i > 3 {
			o.BlockMasks = kept
		}
		p, err := engine.Compile(g, o)
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		fill(p.Input("x"))
		for name, k := range o.BlockMasks {
			v, shape, _ := p.Store().Get(name)
			k.Clear(v, shape)
		}
		plans = append(plans, p)
	}
	used := make([][]float64, len(plans))
	for b.Loop() {
		for i, p := range plans {
			start := tune.ProcessTime()
			if err := p.Run(context.Background(), 0); err != nil {
				b.Fatal(err)
			}
			used[i] = append(used[i], float64(tune.ProcessTime()-start)/float64(time.Millisecond))
		}
	}
	median := func(x []float64) float64 { x = slices.Sorted(slices.Values(x)); return x[len(x)/2] }
	b.ReportMetric(0, "ns/op")
	for i := range plans {
		b.ReportMetric(median(used[i]), fmt.Sprintf("%d-ms", i))
		if i < 2 {
			continue
		}
		for j := range 2 {
			var r []float64
			for k := range used[i] {
				r = append(r, used[j][k]/used[i][k])
			}
			b.ReportMetric(median(r), fmt.Sprintf("%d/%d-ratio", j, i))
		}
	}
	for i, p := range plans {
		b.Log(forms[i], p.MemoryBytes()>>20, "MiB")
		var text strings.Builder
		if err := p.Explain(&text); err != nil {
			b.Fatal(err)
		}
		b.Log(text.String())
	}
}
