package pass

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestFoldNorms verifies which normalisations are folded, depending on the
// readers of the convolution and the size of the filters.
func TestFoldNorms(t *testing.T) {
	conv := func(b *graph.Builder, name string, x graph.Value, out, k int) graph.Value {
		w := b.Param(name, graph.Shape{out, x.Dim(1), 1, k, k}, graph.Ones())
		return op.Conv3D(b, x, w, op.Conv{Pad: op.Same(1, k, k)})
	}
	bias := func(b *graph.Builder, name string, x graph.Value) graph.Value {
		return op.Bias(b, x, b.Param(name, graph.Shape{x.Dim(1)}, graph.Ones()))
	}
	norm := func(b *graph.Builder, x graph.Value) graph.Value {
		c := graph.Shape{x.Dim(1)}
		return op.BatchNorm(b, x, b.Param("gamma", c, graph.Ones()), b.Param("beta", c, graph.Zeros()),
			b.State("mean", c, graph.Zeros()), b.State("var", c, graph.Ones()), op.BatchNormOptions{})
	}
	for _, c := range []struct {
		name         string
		infer        bool
		make         func(b *graph.Builder, x graph.Value) graph.Value
		fused, norms int // number of convolutions with bias, and of normalisations
	}{
		{"bias, norm, ReLU", true, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.ReLU(b, norm(b, bias(b, "b", conv(b, "w", x, 6, 3))))
		}, 1, 0},
		{"without bias and ReLU", true, func(b *graph.Builder, x graph.Value) graph.Value {
			return norm(b, conv(b, "w", x, 6, 3))
		}, 1, 0},
		{"joined", true, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.ReLU(b, norm(b, op.Concat(b, 1, bias(b, "b", conv(b, "w", x, 3, 3)), conv(b, "v", x, 4, 5))))
		}, 2, 0},
		{"joined with something else", true, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.ReLU(b, norm(b, op.Concat(b, 1, conv(b, "w", x, 3, 3), x)))
		}, 0, 1},
		{"before the convolution", true, func(b *graph.Builder, x graph.Value) graph.Value {
			return bias(b, "b", conv(b, "w", op.ReLU(b, norm(b, x)), 6, 3))
		}, 1, 1},
		{"the convolution is read twice", true, func(b *graph.Builder, x graph.Value) graph.Value {
			y := conv(b, "w", x, 6, 3)
			return op.Add(b, y, norm(b, y))
		}, 0, 1},
		{"filters larger than the field", true, func(b *graph.Builder, x graph.Value) graph.Value {
			return norm(b, conv(b, "w", op.MaxPool(b, x, [3]int{1, 4, 4}), 6, 5))
		}, 0, 1},
		{"training", false, func(b *graph.Builder, x graph.Value) graph.Value {
			return norm(b, conv(b, "w", x, 6, 3))
		}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.New(1)
			y := c.make(b, b.Input("x", graph.Shape{2, 4, 1, 8, 12}))
			b.Output("y", y)
			b.Loss(op.Mean(b, y))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			u := &Unit{Graph: g, Device: Device{ElemBytes: 4}, Options: Options{Infer: c.infer}}
			if err := Run(List, u); err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			for _, n := range u.Graph.Nodes {
				if n.Kind == graph.KindOp {
					count[n.Op.Name]++
				}
			}
			if norms := count["channel_norm"] + count["channel_norm_fused"]; count["conv3d_fused"] != c.fused || norms != c.norms {
				t.Errorf("%d convolutions with bias, %d normalisations; want %d, %d: %v", count["conv3d_fused"], norms, c.fused, c.norms, count)
			}
			if c.fused > 0 && count["relu"] > 0 {
				t.Errorf("a ReLU stands alone: %v", count)
			}
		})
	}
}
