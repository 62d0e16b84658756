package obs_test

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/engine/prune/obs"
)

// TestImportance is worked by hand: a has two outputs, read by b and, beside b's output, by c with two outputs. Results count 1.
// The input of c's first channel is b's output: 1² + 4² = 17; a's are read by c, 2² + 5² = 29 and 3² + 6² = 45, and by b,
// 17·7² = 833 and 17·8² = 1088.
func TestImportance(t *testing.T) {
	g := graph.New(1)
	x := g.Input("x", graph.Shape{1, 1, 1, 4, 4})
	param := func(name string, out, in int) graph.Value {
		return g.Param(name, graph.Shape{out, in, 1, 1, 1}, graph.Ones())
	}
	a := op.ReLU(g, op.Conv3D(g, x, param("a.weight", 2, 1), op.Conv{}))
	b := op.Conv3D(g, a, param("b.weight", 1, 2), op.Conv{})
	g.Output("y", op.Conv3D(g, op.Concat(g, 1, b, a), param("c.weight", 2, 3), op.Conv{}))
	net, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := engine.NewStore()
	if err := s.LayOut(net); err != nil {
		t.Fatal(err)
	}
	weights := map[string][]float32{"a.weight": {1, 1}, "b.weight": {7, 8}, "c.weight": {1, 2, 3, 4, 5, 6}}
	want := map[string][]float64{"c.weight": {1, 1}, "b.weight": {17}, "a.weight": {29 + 833, 45 + 1088}}
	m := obs.NewImportance(channels.Find(net))
	layers := prune.Layers(net, s.Entries())
	if len(layers) != 3 {
		t.Fatalf("layers %v", layers)
	}
	for _, l := range slices.Backward(layers) {
		if got := m.Rows(l); !slices.Equal(got, want[l.Param]) {
			t.Errorf("%s: %v, want %v", l.Param, got, want[l.Param])
		}
		m.Add(l, weights[l.Param])
	}
}
