package unet3d

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// TestHalfOfTheGlobe: the network for the global grid of 361×720 points (padded for pooling) on
// eleven levels trains in half of the memory that it needs with all results kept, in at most 1.15
// times the time. Times are predicted for a GPU with 16 lanes of PCI Express 5; the test computes
// nothing.
func TestHalfOfTheGlobe(t *testing.T) {
	for _, d := range []graph.DType{graph.Float32, graph.BFloat16} {
		g, err := lossOf(3, graph.Shape{1, 42, 11, 384, 736}, func(b *graph.Builder, x graph.Value) graph.Value {
			return UNet{Base: 32, Periodic: true}.Build(b, x)
		})
		if err != nil {
			t.Fatal(err)
		}
		compile := func(limit int64) *pass.Unit {
			t.Helper()
			own, err := g.Rewrite(nil, func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
			if err != nil {
				t.Fatal(err)
			}
			dev := &cuda.Backend{} // used for its estimates only
			u := &pass.Unit{Graph: own, Device: pass.Device{ElemBytes: 4, Layouts: dev, Seconds: dev.EstimateSeconds}, Options: pass.Options{MemoryLimit: limit, Precision: d}}
			u.Links = func() (pass.Links, error) { return pass.Links{ToHost: 50e9, FromHost: 50e9}, nil }
			if err := pass.Run(pass.List, u); err != nil {
				t.Fatal(err)
			}
			return u
		}
		all := int64(compile(0).Memory.ArenaSize) * 4
		half := compile(all / 2)
		t.Logf("%v: %.2f GiB with all kept; %v", d, float64(all)/(1<<30), half.Graph.Notes[len(half.Graph.Notes)-1])
		if arena := int64(half.Memory.ArenaSize) * 4; arena > all/2 || half.Recomputed.Slowdown < 1 || half.Recomputed.Slowdown > 1.15 || half.Recomputed.Offloaded == 0 {
			t.Errorf("%v: arena %d of %d bytes, %+v", d, arena, all, half.Recomputed)
		}
	}
}
