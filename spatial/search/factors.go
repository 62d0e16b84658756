package search

import (
	"context"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Factors lists the filters of a graph with a loss, with the Kronecker factors that K-FAC computes for sides of at most maxSide.
func Factors(g *graph.Graph, maxSide int) ([]pass.LayerFactors, error) {
	whole, err := wholeStep(g, 0)
	if err != nil {
		return nil, err
	}
	return pass.ChooseFactors(whole, maxSide), nil
}

// FactorTimes returns Factors, and the time of those of each filter on one rank: of the operations, before the compiler fuses them.
func (m *Machine) FactorTimes(g *graph.Graph, maxSide int) ([]pass.LayerFactors, []cluster.Time, error) {
	whole, err := wholeStep(g, maxSide)
	if err != nil {
		return nil, nil, err
	}
	outputs := map[string]*graph.Node{}
	for _, o := range whole.Outputs {
		outputs[o.Name] = whole.Nodes[o.ID]
	}
	layers := pass.ChooseFactors(whole, maxSide)
	times := make([]cluster.Time, len(layers))
	for i, l := range layers {
		for _, name := range []string{l.ColsName(), l.RowsName()} {
			n := outputs[name]
			for ; n != nil && n.Op.Scalar != nil; n = whole.Nodes[n.In[0]] { // scaled sums of products
				times[i] += m.OperationTime(whole, n)
			}
			if n != nil {
				times[i] += m.OperationTime(whole, n)
			}
		}
	}
	return layers, times, nil
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
