package search

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// Sparse sums are priced as the virtual cluster plays them. On a slow network they cost a small part of dense ones, and on
// meshes without a data axis the same.
func TestSparseSumsArePlayed(t *testing.T) {
	m := fastLinks
	m.InterNode.Rate, m.OverlapGradients = 125_000_000, true
	for _, text := range []string{"data:4", "data:2 lon:4", "lat:2 lon:2"} {
		mesh, g := parseMesh(t, text), smallUNet(t, 1024)
		dense, err := CostOf(t.Context(), g, m, Optimiser{State: 2}, mesh)
		if err != nil {
			t.Fatal(err)
		}
		for _, density := range []float64{0.01, 0.05} {
			o := Optimiser{State: 2, Compression: &spatial.Compression{Options: topk.Options{Density: density}}}
			played, err := Simulate(t.Context(), g, o, mesh, m, cluster.LogGP{Latency: m.InterNode.Alpha, Rate: m.InterNode.Rate})
			if err != nil {
				t.Fatal(err)
			}
			m := m
			m.IntraNode = m.InterNode
			priced, err := CostOf(t.Context(), g, m, o, mesh)
			if err != nil {
				t.Fatal(err)
			}
			if d := played.Step.Seconds()/priced.Step.Seconds() - 1; math.Abs(d) > 0.1 {
				t.Errorf("mesh %v, density %g: played %v, priced %v", mesh, density, played.Step, priced.Step)
			}
			residuals := int64(0)
			if mesh.HasDataRanks() {
				residuals = 4 * parametersOf(g)
			}
			if priced.Memory != dense.Memory+residuals {
				t.Errorf("mesh %v: %d bytes of memory, %d if dense, and %d of residuals", mesh, priced.Memory, dense.Memory, residuals)
			}
			if less := priced.GradientBytes < dense.GradientBytes; less != mesh.HasDataRanks() {
				t.Errorf("mesh %v, density %g: %d bytes of gradients, %d if dense", mesh, density, priced.GradientBytes, dense.GradientBytes)
			}
		}
	}
}

// Momentum, and the moments of updates with the common weights, need further values on each data rank.
func TestResiduals(t *testing.T) {
	for values, k := range map[int64]*spatial.Compression{0: nil, 1: {}, 2: {Options: topk.Options{Momentum: 0.9}}, 4: {Options: topk.Options{Updates: true}}} {
		if got := (Optimiser{Compression: k}).residuals(); got != values {
			t.Errorf("%+v: %d values a parameter, want %d", k, got, values)
		}
	}
}

// parametersOf is the number of values of all parameters.
func parametersOf(g *graph.Graph) (n int64) {
	for _, x := range g.Nodes {
		if x.Kind == graph.KindParam {
			n += int64(x.Shape.Size())
		}
	}
	return n
}
