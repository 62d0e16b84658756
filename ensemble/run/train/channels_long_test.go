//go:build long

package train

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// TestLongChannelSpeed reports the processor time, on one thread, that removing channels saves if a quarter
// of the operations of the published network at base 32 on 2×352×704 points remains.
func TestLongChannelSpeed(t *testing.T) {
	dense := bench.Case{Model: bench.BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 352, Width: 704}, Batch: 1, Depth: 2, Threads: 1}
	cases := []bench.Case{dense}
	for _, multiple := range []int{8, 16} {
		c := dense
		c.Operations, c.Multiple = 0.25, multiple
		cases = append(cases, c)
	}
	var flops, seconds []float64
	for _, c := range cases {
		n, err := c.FLOPs()
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile(false, false)
		if err != nil {
			t.Fatal(err)
		}
		var took time.Duration
		for range 2 { // the first fills memory
			began := quality.ProcessorTime()
			if err := s.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			took = quality.ProcessorTime() - began
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		flops, seconds = append(flops, float64(n)), append(seconds, took.Seconds())
		fewer, faster := flops[0]/float64(n), seconds[0]/took.Seconds()
		t.Logf("multiple %d: %.2f times fewer operations, %.2f times less processor time, %.2f s", c.Multiple, fewer, faster, took.Seconds())
		if c.Operations > 0 && fewer < 4 {
			t.Errorf("multiple %d: %.2f times fewer operations, want 4", c.Multiple, fewer)
		}
	}
}

// gcmPattern are the shares of the channels of each layer that experiments/gcm/pruned.yaml leaves, on the
// average of three networks.
var gcmPattern = map[string]float64{
	"enc_conv0": 1. / 6, "enc_conv1": 1. / 6, "enc_conv2": 1. / 9, "enc_conv3": 1. / 12, "dec_conv3a": 1. / 18, "dec_conv3b": 1. / 18,
	"dec_conv2a": 1. / 12, "dec_conv2b": 1. / 12, "dec_conv1a": 0.7, "dec_conv1b": 0.75,
}

// TestLongPatternSpeed checks that a network of base 32 on 2×352×704 points, with the channel pattern found
// on the GCM data and a quarter of the operations, forecasts at least three times as fast, by processor time
// of one thread. Both run alternately, and the least times count.
func TestLongPatternSpeed(t *testing.T) {
	var plans [2]*engine.Plan
	var flops [2]float64
	for i := range plans {
		b := graph.New(1)
		b.Output("y", unet3d.UNet{Base: 32, Stages: 3, Periodic: true}.Build(b, b.Input("x", graph.Shape{1, bench.Channels, 2, 352, 704})))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if c := channels.Find(g); i == 1 {
			var kept []channels.Kept
			for _, f := range c.Groups() {
				share, ok := gcmPattern[f.Name()]
				if !ok {
					continue
				}
				k := channels.Kept{Filter: f.Filters[0], Width: f.Width}
				for ch := range max(int(math.Round(share*float64(f.Width)/8)), 1) * 8 {
					k.Channels = append(k.Channels, ch)
				}
				kept = append(kept, k)
			}
			if g, _, err = c.Shrink(kept); err != nil || len(kept) != len(gcmPattern) {
				t.Fatal(err, kept)
			}
		}
		flops[i] = float64(g.FLOPs())
		o := network.Options(1, "")
		o.Mode, o.Store = engine.Infer, engine.NewStore()
		if plans[i], err = engine.Compile(g, o); err != nil {
			t.Fatal(err)
		}
		defer plans[i].Close()
	}
	took := [2]time.Duration{time.Hour, time.Hour}
	for range 4 {
		for i, p := range plans {
			began := quality.ProcessorTime()
			if err := p.Run(context.Background(), 1); err != nil {
				t.Fatal(err)
			}
			took[i] = min(took[i], quality.ProcessorTime()-began)
		}
	}
	fewer, faster := flops[0]/flops[1], took[0].Seconds()/took[1].Seconds()
	t.Logf("%.2f times fewer operations, %v instead of %v of processor time: %.2f times less", fewer, took[1], took[0], faster)
	if fewer < 4 || faster < 3 {
		t.Errorf("%.2f times fewer operations and %.2f times less processor time, want 4 and 3", fewer, faster)
	}
}
