package op_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestShapeErrors verifies that every shape error is found while building,
// names the operation and the source line, and wraps ErrShape.
func TestShapeErrors(t *testing.T) {
	x5 := graph.Shape{2, 3, 4, 6, 8}
	for _, c := range []struct {
		name  string
		op    string
		build func(b *graph.Builder, x graph.Value)
	}{
		{"filter with other channels", "conv3d", func(b *graph.Builder, x graph.Value) {
			op.Conv3D(b, x, b.Input("w", graph.Shape{4, 2, 3, 3, 3}), op.Conv{})
		}},
		{"filter larger than field", "conv3d", func(b *graph.Builder, x graph.Value) {
			op.Conv3D(b, x, b.Input("w", graph.Shape{4, 3, 5, 3, 3}), op.Conv{})
		}},
		{"periodic padding longer than axis", "conv3d", func(b *graph.Builder, x graph.Value) {
			op.Conv3D(b, x, b.Input("w", graph.Shape{4, 3, 1, 1, 19}), op.Conv{Pad: op.SameGlobal(1, 1, 19)})
		}},
		{"bias of other size", "bias", func(b *graph.Builder, x graph.Value) { op.Bias(b, x, b.Input("c", graph.Shape{2})) }},
		{"window beyond field", "max_pool", func(b *graph.Builder, x graph.Value) { op.MaxPool(b, x, [3]int{5, 1, 1}) }},
		{"window of 0", "avg_pool", func(b *graph.Builder, x graph.Value) { op.AvgPool(b, x, [3]int{0, 1, 1}) }},
		{"scale 0", "upsample", func(b *graph.Builder, x graph.Value) { op.Upsample(b, x, [3]int{1, 0, 1}, true) }},
		{"other grid", "concat", func(b *graph.Builder, x graph.Value) { op.Concat(b, 1, x, b.Input("y", graph.Shape{2, 3, 4, 6, 7})) }},
		{"empty slice", "slice", func(b *graph.Builder, x graph.Value) { op.Slice(b, x, 1, 2, 2) }},
		{"no broadcast", "add", func(b *graph.Builder, x graph.Value) { op.Add(b, x, b.Input("y", graph.Shape{2, 3, 4, 6, 7})) }},
		{"loss does not broadcast", "mse", func(b *graph.Builder, x graph.Value) { op.MSE(b, x, b.Input("y", graph.Shape{1, 3, 4, 6, 8})) }},
		{"reshape to other size", "reshape", func(b *graph.Builder, x graph.Value) { op.Reshape(b, x, graph.Shape{5}) }},
		{"axis beyond", "sum", func(b *graph.Builder, x graph.Value) { op.Sum(b, x, 5) }},
		{"weights too many", "mul", func(b *graph.Builder, x graph.Value) { op.WeightedMean(b, x, b.Input("w", graph.Shape{7})) }},
		{"range missing", "ssim", func(b *graph.Builder, x graph.Value) { op.SSIM(b, x, x, op.SimilarityOptions{}) }},
		{"field below window", "ms_ssim", func(b *graph.Builder, x graph.Value) { op.MSSSIM(b, x, x, op.SimilarityOptions{Range: 1}) }},
		{"unknown family", "distribution_score", func(b *graph.Builder, x graph.Value) {
			op.DistributionScore(b, x, b.Input("y", graph.Shape{2, 1, 4, 6, 8}), op.ScoreSpec{Family: "none", Parameters: 3})
		}},
		{"dropping all", "dropout", func(b *graph.Builder, x graph.Value) { op.Dropout(b, x, 1) }},
	} {
		b := graph.New(1)
		c.build(b, b.Input("x", x5))
		_, err := b.Build()
		if !errors.Is(err, op.ErrShape) || !strings.Contains(err.Error(), c.op) || !strings.Contains(err.Error(), "op_test.go:") || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: error %v, want ErrShape with %q and the line of the call", c.name, err, c.op)
		}
	}
}

// TestConvFLOPs verifies that padding in depth does not count: 36 products per
// result and channel at depth 2.
func TestConvFLOPs(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, 42, 2, 352, 704})
	w := b.Input("w", graph.Shape{64, 42, 3, 3, 3})
	b.Output("y", op.Conv3D(b, x, w, op.Conv{Pad: op.Same(3, 3, 3)}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.FLOPs(), int64(2*36*42*64*352*704); got != want {
		t.Errorf("%d operations, want %d", got, want)
	}
}

func ExampleConv3D() {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{8, 42, 2, 32, 64})
	w := b.Param("enc_conv0.weight", graph.Shape{64, 42, 3, 3, 3}, graph.HeNormal(42*27))
	y := op.ReLU(b, op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}))
	fmt.Println(y.Shape())
	// Output: [8 64 2 32 64]
}

func ExampleMSSSIM() {
	b := graph.New(1)
	x, y := b.Input("x", graph.Shape{4, 1, 2, 32, 64}), b.Input("y", graph.Shape{4, 1, 2, 32, 64})
	b.Loss(op.AddScalar(b, op.Scale(b, op.MSSSIM(b, x, y, op.SimilarityOptions{Range: 4.3}), -1), 1))
	g, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Notes[0])
	// Output: ms_ssim on 32×64 points uses 2 of 5 scales, with exponents [0.0448 0.2856] divided by their sum
}
