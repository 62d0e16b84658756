package search

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Networks whose rows are sets have plans that package spatial can execute.
func TestSetsHavePlans(t *testing.T) {
	const members = 3
	b := graph.New(1)
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name+".weight", graph.Shape{out, x.Dim(1), 1, 3, 3}, graph.HeNormal(27))
		return op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(1, 3, 3)})
	}
	x, y := b.Input("x", graph.Shape{2 * members, 2, 1, 16, 24}), b.Input("y", graph.Shape{2, 1, 1, 16, 24})
	h := conv("first", x, 4)
	a := op.Attention{Set: members, Heads: 4}
	h = op.Attend(b, h, a, op.SetAttention(b, conv("key", h, 4), conv("query", h, 4), a))
	pooled := op.Concat(b, 1, op.SetMean(b, h, members), op.SetStd(b, h, members))
	h = conv("last", op.Add(b, h, op.SetRepeat(b, conv("sample", pooled, 4), members)), 1)
	b.Loss(op.Mean(b, op.KernelCRPS(b, h, y, members, func(int) float64 { return 0 })))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, ranks := range []int{1, 2, 4, 6, 8} {
		r, err := Search(t.Context(), g, ranks, fastLinks, Optimiser{State: 2}, Options{})
		if err != nil || len(r.Meshes) != len(Meshes(g, ranks)) {
			t.Fatalf("%d ranks: %d of %d meshes have a plan: %v", ranks, len(r.Meshes), len(Meshes(g, ranks)), err)
		}
		for _, p := range r.Meshes {
			if !(p.Step > 0) {
				t.Errorf("%v takes %v", p.Mesh, p.Step)
			}
		}
	}
	mesh := spatial.Mesh{{Name: "data", Size: 2}, {Name: "lat", Size: 2}, {Name: "lon", Size: 2}}
	if _, err := CostOf(t.Context(), g, fastLinks, Optimiser{State: 2}, mesh); err != nil {
		t.Error(err)
	}
}
