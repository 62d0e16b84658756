package pass

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// without is the list of passes without the named one.
func without(name string) []Pass {
	return slices.DeleteFunc(slices.Clone(List), func(p Pass) bool { return p.Name == name })
}

// TestFuseNorms verifies the fusion of batch normalisation, ReLU and their
// gradients, depending on the readers of the intermediate results.
func TestFuseNorms(t *testing.T) {
	point := func(b *graph.Builder, name string, x graph.Value, out int) graph.Value {
		return op.Conv3D(b, x, b.Param(name, graph.Shape{out, x.Dim(1), 1, 1, 1}, graph.Ones()), op.Conv{})
	}
	norm := func(b *graph.Builder, x graph.Value) graph.Value {
		c := graph.Shape{x.Dim(1)}
		return op.BatchNorm(b, x, b.Param("gamma", c, graph.Ones()), b.Param("beta", c, graph.Zeros()),
			b.State("mean", c, graph.Zeros()), b.State("var", c, graph.Ones()), op.BatchNormOptions{})
	}
	for _, c := range []struct {
		name  string
		batch int
		make  func(b *graph.Builder, x graph.Value) graph.Value
		want  map[string]int
		a     op.NormGrad // number of channel_norm_fused_grad
	}{
		{"norm and ReLU", 2, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.Square(b, op.ReLU(b, norm(b, point(b, "w", x, 18))))
		}, map[string]int{"channel_norm_fused": 1, "channel_norm_fused_sums": 1, "channel_norm_fused_grad": 1}, op.NormGrad{Eps: 1e-5, ReLU: true}},
		{"the sweeps take the gradient of ReLU before the convolution does", 2, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.Square(b, point(b, "v", op.ReLU(b, norm(b, point(b, "w", x, 18))), 3))
		}, map[string]int{"channel_norm_fused": 1, "channel_norm_fused_sums": 1, "channel_norm_fused_grad": 1}, op.NormGrad{Eps: 1e-5, ReLU: true}},
		{"without ReLU", 2, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.Square(b, norm(b, point(b, "w", x, 18)))
		}, map[string]int{"channel_norm": 1, "channel_norm_sums": 1, "channel_norm_fused_grad": 1}, op.NormGrad{Eps: 1e-5}},
		{"the norm is read twice", 2, func(b *graph.Builder, x graph.Value) graph.Value {
			n := norm(b, point(b, "w", x, 18))
			return op.Mul(b, op.ReLU(b, n), op.Exp(b, n))
		}, map[string]int{"channel_norm": 1, "relu": 1, "relu_grad": 1, "channel_norm_sums": 1, "channel_norm_fused_grad": 1}, op.NormGrad{Eps: 1e-5}},
		{"its operand is read behind it", 2, func(b *graph.Builder, x graph.Value) graph.Value {
			w := point(b, "w", x, 18)
			return op.Mul(b, op.ReLU(b, norm(b, w)), op.Exp(b, w))
		}, map[string]int{"channel_norm_fused": 1, "channel_norm_sums": 1, "relu_grad": 1, "channel_norm_grad": 1}, op.NormGrad{}},
		{"joined with another branch", 1, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.Square(b, op.Concat(b, 1, point(b, "v", x, 32), op.ReLU(b, norm(b, point(b, "w", x, 18)))))
		}, map[string]int{"channel_norm_fused": 1, "channel_norm_fused_sums": 1, "channel_norm_fused_grad": 1, "slice": 1}, op.NormGrad{Eps: 1e-5, Lo: 32, ReLU: true}},
		{"joined in the middle of a block", 1, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.Square(b, op.Concat(b, 1, point(b, "v", x, 31), op.ReLU(b, norm(b, point(b, "w", x, 18)))))
		}, map[string]int{"channel_norm_fused": 1, "channel_norm_fused_sums": 1, "channel_norm_fused_grad": 1, "slice": 2}, op.NormGrad{Eps: 1e-5, ReLU: true}},
		{"joined in a batch of two", 2, func(b *graph.Builder, x graph.Value) graph.Value {
			return op.Square(b, op.Concat(b, 1, point(b, "v", x, 32), op.ReLU(b, norm(b, point(b, "w", x, 18)))))
		}, map[string]int{"channel_norm_fused": 1, "channel_norm_fused_sums": 1, "channel_norm_fused_grad": 1, "slice": 2}, op.NormGrad{Eps: 1e-5, ReLU: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.New(1)
			x := b.Input("x", graph.Shape{c.batch, 4, 2, 5, 6})
			y := c.make(b, x)
			b.Output("y", y)
			b.Loss(op.Mean(b, y))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			u := &Unit{Graph: g, Device: Device{ElemBytes: 4}}
			if err := Run(without("fuse-chains"), u); err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, n := range u.Graph.Nodes {
				if n.Kind != graph.KindOp || len(n.Shape) != 5 && n.Op.Name != "channel_norm_sums" && n.Op.Name != "channel_norm_fused_sums" {
					continue
				}
				got[n.Op.Name]++
				if n.Op.Name == "channel_norm_fused_grad" && n.Attrs != c.a {
					t.Errorf("attributes %+v, want %+v", n.Attrs, c.a)
				}
			}
			for _, name := range []string{"relu", "relu_grad", "channel_norm", "channel_norm_sums", "channel_norm_grad", "channel_norm_fused",
				"channel_norm_fused_sums", "channel_norm_fused_grad", "conv3d_fused_grad_data", "slice"} {
				if got[name] != c.want[name] {
					t.Errorf("%d operations %s, want %d", got[name], name, c.want[name])
				}
			}
		})
	}
}
