package setup

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// StagePrices are the predicted times of the stages of a pipeline on a machine.
type StagePrices struct {
	Division  *pipeline.Division
	costs     pipeline.Costs // of a micro-batch
	copies    []cluster.Time // message with the parameters of a stage, between two ranks that hold it
	optimiser cluster.Time   // of the rank that updates most
}

// PriceStages divides the layers of a training graph, which has the samples of one micro-batch, into stages and predicts their
// times.
//
// The computation of a stage is its share, by the layers' operations, of that of a step on one rank, which is priced after the
// compiler's passes. Backward passes compute the forward pass again, and the last stage only then. The slowest link of the ranks
// determines the cuts.
//
// Errors: exit 64 for more stages than layers; that of the context.
func PriceStages(ctx context.Context, g *graph.Graph, m search.Machine, o search.Optimiser, stages int) (*StagePrices, error) {
	alone, err := search.CostOf(ctx, g, m.Unlimited(), o, nil)
	if err != nil {
		return nil, err
	}
	layers := pipeline.Layers(g, func(n *graph.Node) cluster.Time { return m.OperationTime(g, n) })
	var all cluster.Time
	for _, l := range layers {
		all += l.Cost
	}
	forward, backward := alone.Forward, alone.Forward+alone.Backward
	for i := range layers {
		layers[i].Cost = scaled(forward+backward, float64(layers[i].Cost)/float64(all))
	}
	d, err := pipeline.Divide(layers, stages, func(bytes int64) cluster.Time { return m.MessageTime(0, stages-1, bytes) })
	if err != nil {
		return nil, err
	}
	p := &StagePrices{Division: d, costs: pipeline.EqualCosts(stages, 0, 0, 0), copies: make([]cluster.Time, stages)}
	var total, most int64
	for k := range stages {
		p.costs.Forward[k], p.costs.Backward[k] = scaled(forward, d.Share(k)), scaled(backward, d.Share(k))
		if k < stages-1 {
			p.costs.Send[k] = m.MessageTime(k, k+1, d.Crossing(k))
		}
		n := d.Parameters(g, k)
		total, most = total+n, max(most, n)
		p.copies[k] = m.MessageTime(k, stages-1-k, 4*n)
	}
	p.costs.Forward[stages-1] = 0
	if total > 0 {
		p.optimiser = scaled(alone.Optimiser, float64(most)/float64(total))
	}
	return p, nil
}

// scaled is a share of a time.
func scaled(t cluster.Time, share float64) cluster.Time { return cluster.Time(share * float64(t)) }

// Step predicts the time of a step of a schedule, and the mean share of its passes in which a rank waits. The rank that sums the
// gradients of a stage exchanges them with those of each other copy, from the last backward pass of the stage on, and after the
// update sends them the parameters.
//
// Errors: those of Schedule.Time.
func (p *StagePrices) Step(s *pipeline.Schedule) (step cluster.Time, idle float64, err error) {
	t, err := s.Time(p.costs)
	if err != nil {
		return 0, 0, err
	}
	step = t.End + p.optimiser
	if others := cluster.Time(s.Pipes() - 1); others > 0 {
		sums := make([]cluster.Time, s.Stages)
		for k, c := range p.copies {
			sums[k] = 2 * others * c
		}
		step += s.ExposedSums(t, sums) + others*slices.Max(p.copies)
	}
	return step, t.MeanBubbles(), nil
}
