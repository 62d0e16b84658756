package prune

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestLayers: filters of convolutions are found once each, behind reshapes and in transposed
// convolutions; norms and biases are not. ReadsInput is true for layers that read the input only.
func TestLayers(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, 4, 2, 8, 8})
	w := b.Param("a.weight", graph.Shape{6, 4, 1, 3, 3}, graph.Ones())
	y := op.Bias(b, op.Conv3D(b, op.Concat(b, 1, op.Slice(b, x, 1, 2, 4), op.Slice(b, x, 1, 0, 2)), w, op.Conv{Pad: op.Same(1, 3, 3)}), b.Param("a.bias", graph.Shape{6}, graph.Zeros()))
	flat := b.Param("b.weight", graph.Shape{5, 6}, graph.Ones())
	z := op.Conv3D(b, y, op.Reshape(b, flat, graph.Shape{5, 6, 1, 1, 1}), op.Conv{})
	z = op.Add(b, z, op.Conv3D(b, y, op.Reshape(b, flat, graph.Shape{5, 6, 1, 1, 1}), op.Conv{}))
	up := b.Param("up.weight", graph.Shape{5, 3, 1, 2, 2}, graph.Ones())
	z = op.ConvTranspose3D(b, z, up, op.Conv{Stride: [3]int{1, 2, 2}}, graph.Shape{1, 3, 2, 16, 16})
	side := op.Conv3D(b, x, b.Param("side.weight", graph.Shape{3, 4, 1, 1, 1}, graph.Ones()), op.Conv{})
	z = op.Add(b, op.Upsample(b, side, [3]int{1, 2, 2}, false), z)
	b.Loss(op.Mean(b, op.Mul(b, z, b.Param("scale.weight", graph.Shape{1, 3, 1, 1, 1}, graph.Ones()))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	store := engine.NewStore()
	plan, err := engine.Compile(g, engine.Options{Reuse: engine.Reuse{Store: store}, Device: engine.Device{Backend: "ref"}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	want := map[string]Layer{
		"a":    {Name: "a", Param: "a.weight", Out: 6, In: 4, Kernel: [3]int{1, 3, 3}, ReadsInput: true},
		"b":    {Name: "b", Param: "b.weight", Out: 5, In: 6, Kernel: [3]int{1, 1, 1}},
		"up":   {Name: "up", Param: "up.weight", Out: 3, In: 5, Kernel: [3]int{1, 2, 2}, Transposed: true},
		"side": {Name: "side", Param: "side.weight", Out: 3, In: 4, Kernel: [3]int{1, 1, 1}, ReadsInput: true},
	}
	layers := Layers(g, store.Entries())
	if len(layers) != len(want) {
		t.Errorf("%d layers, want %d", len(layers), len(want))
	}
	for _, l := range layers {
		for _, e := range store.Entries() {
			if e.Name == l.Param && (e.Offset != l.Offset || e.Size() != l.Size()) {
				t.Errorf("%s lies at %d of %d, the store has it at %d of %d", l.Name, l.Offset, l.Size(), e.Offset, e.Size())
			}
		}
		l.Offset = 0
		if l != want[l.Name] {
			t.Errorf("%+v, want %+v", l, want[l.Name])
		}
	}
}
