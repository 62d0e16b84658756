package search

import (
	"context"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Factors lists the filters of a graph with a loss, with the Kronecker factors that K-FAC computes for sides of at most maxSide.
func Factors(g *graph.Graph, maxSide int) ([]pass.LayerFactors, error) {
	whole, err := wholeStep(g, 0)
	if err != nil {
		return nil, err
	}
	return pass.ChooseFactors(whole, maxSide), nil
}

// CostWithFactors returns the plan of a step on a mesh that also computes the Kronecker factors and sums them over the ranks, as K-FAC
// does every few steps.
//
// Errors: a mesh on which the graph cannot be computed.
func CostWithFactors(ctx context.Context, g *graph.Graph, m Machine, o Optimiser, mesh spatial.Mesh, maxSide int) (Plan, error) {
	whole, err := wholeStep(g, maxSide)
	if err != nil {
		return Plan{}, err
	}
	s := &searching{g: whole, m: &m, o: o}
	p, err := s.plan(mesh, typicalRank(mesh))
	if err != nil {
		return p, err
	}
	return p, s.slowest(ctx, &p)
}
