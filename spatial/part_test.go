package spatial

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Parts of a graph cut fields as the whole graph does, at multiples of its coarsest cell, and have values that are no fields whole.
func TestBoundary(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, 2, 1, 12, 8})
	filter := op.Tanh(b, b.Param("filter", graph.Shape{2, 2, 1, 3, 3}, graph.HeNormal(18)))
	fine := op.Conv3D(b, x, filter, op.Conv{Pad: op.Same(1, 3, 3)})
	coarse := op.MaxPool(b, fine, [3]int{1, 4, 1})
	mean := op.Mean(b, op.Square(b, coarse))
	b.Loss(mean)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseMesh("lat:2")
	if err != nil {
		t.Fatal(err)
	}
	boundary, err := NewBoundary(g, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		id      int
		isField bool
		rows    [2]Interval
	}{
		{"input", x.ID(), true, [2]Interval{{0, 8}, {8, 12}}}, {"fine field", fine.ID(), true, [2]Interval{{0, 8}, {8, 12}}},
		{"coarse field", coarse.ID(), true, [2]Interval{{0, 2}, {2, 3}}}, {"filter", filter.ID(), false, [2]Interval{{0, 3}, {0, 3}}},
	} {
		for rank, want := range c.rows {
			if got := boundary.Owned(c.id, rank); boundary.IsField(c.id) != c.isField || got[3] != want || !slices.Equal(got[4:], Box{{0, g.Nodes[c.id].Shape[4]}}) {
				t.Errorf("%s: rank %d has %v, want rows %v; a field: %v", c.what, rank, got, want, boundary.IsField(c.id))
			}
		}
	}
	if len(boundary.Owned(mean.ID(), 1)) != 0 {
		t.Errorf("the loss has the box %v", boundary.Owned(mean.ID(), 1))
	}
}
