package cost

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestWorkOfWideFilters: products and transformed values of filters on one level, in the tiles of the kernels: of eight points for 5×5 and
// more in float32, else of six. All tiles are whole.
func TestWorkOfWideFilters(t *testing.T) {
	const channels, side = 16, 40
	for _, c := range []struct {
		taps           int
		bf16           bool
		products, tile float64 // products of a result, values of a transformed tile for each of its results
	}{
		{3, false, 36. / 16, 36. / 16}, {3, true, 36. / 16, 36. / 16},
		{5, false, 64. / 16, 64. / 16}, {5, true, 4 * 36. / 16, 36. / 16}, // F(4, 5); F(4, 3) in 2·2 parts
		{7, false, 4 * 64. / 25, 64. / 25}, {7, true, 9 * 36. / 16, 36. / 16}, // F(5, 4) in 2·2 parts; 3·3 parts
		{9, false, 4 * 64. / 16, 64. / 16}, {9, true, 9 * 36. / 16, 36. / 16}, // F(4, 5) in 2·2 parts; 3·3 parts
	} {
		t.Run(fmt.Sprintf("%d taps, bfloat16 %v", c.taps, c.bf16), func(t *testing.T) {
			b := graph.New(1)
			x := b.Input("x", graph.Shape{1, channels, 1, side, side})
			w := b.Param("w", graph.Shape{channels, channels, 1, c.taps, c.taps}, graph.HeNormal(channels))
			b.Output("y", op.Conv3D(b, x, w, op.Conv{Pad: op.Same(1, c.taps, c.taps)}))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range g.Nodes {
				if n.Kind != graph.KindOp || n.Op.Conv == nil {
					continue
				}
				got := WorkOf(g, engine.Movement{Node: n.ID, Kernel: "wino 14", Class: engine.Contraction, Op: n.Op.Name, Shape: n.Shape, BF16Products: c.bf16})
				const results = channels * side * side
				if want := 2 * channels * results * c.products; math.Abs(got.Amounts[products]/want-1) > 1e-9 || got.Kind != "contraction/forward/wino" {
					t.Errorf("%s: %g operations of products, want %g", got.Kind, got.Amounts[products], want)
				}
				if want := results * (c.tile + 1); math.Abs(got.Amounts[transform]/want-1) > 1e-9 {
					t.Errorf("%g transformed values, want %g", got.Amounts[transform], want)
				}
			}
		})
	}
}
