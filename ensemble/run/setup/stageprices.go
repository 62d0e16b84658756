package setup

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// StagePrices are the predicted times of the stages of a pipeline on a machine.
type StagePrices struct {
	Division  *pipeline.Division
	Recompute bool           // backward passes compute the forward pass again, as with train.pipeline.recompute; set by the caller
	costs     pipeline.Costs // of a micro-batch
	copies    []cluster.Time // message with the parameters of a stage, between two ranks that hold it
	dataSums  []cluster.Time // sum of the gradients of a stage over data ranks
	optimiser cluster.Time   // of the rank that updates most
	sizes     stageSizes
}

// stageSizes has what determines the memory of the stages.
type stageSizes struct {
	state      search.Optimiser
	parameters []int64 // by stage
	values     int64   // bytes of the values of a step of one micro-batch, on a rank that computes all stages alone or with its mesh
	ranks      int     // of a stage
	gradients  []int64 // by stage: bytes that a rank sends to sum the gradients of a micro-batch over the ranks with the same samples
	dataSums   []int64 // by stage: bytes that a rank sends to sum the gradients of a step over data ranks
}

// PriceStages divides the layers of a training graph, which has the samples of one micro-batch of a data rank, into stages and
// predicts their times.
//
// The computation of a stage is its share, by the layers' operations, of that of a step on one rank, which is priced after the
// compiler's passes, or on the mesh of the ranks that compute a stage together; nil is one rank. Ranks along its axis data have
// pipelines of their own, and sum gradients once a step. The slowest link of the ranks determines the cuts.
//
// Errors: exit 64 for more stages than layers; that of the context.
func PriceStages(ctx context.Context, g *graph.Graph, m search.Machine, o search.Optimiser, stages int, mesh spatial.Mesh) (*StagePrices, error) {
	alone, err := search.CostOf(ctx, g, m.Unlimited(), o, mesh.Fields())
	if err != nil {
		return nil, err
	}
	layers := pipeline.Layers(g, func(n *graph.Node) cluster.Time { return m.OperationTime(g, n) })
	var all cluster.Time
	for _, l := range layers {
		all += l.Cost
	}
	forward, backward := alone.Forward, alone.Backward+alone.Gradients // ranks with the same samples sum gradients in each backward pass
	for i := range layers {
		layers[i].Cost = scaled(forward+backward, float64(layers[i].Cost)/float64(all))
	}
	each := mesh.Size() // ranks of a stage; each sends its shard to one rank of the next
	d, err := pipeline.Divide(layers, stages, func(bytes int64) cluster.Time { return m.MessageTime(0, stages*each-1, bytes/int64(each)) })
	if err != nil {
		return nil, err
	}
	p := &StagePrices{Division: d, costs: pipeline.EqualCosts(stages, 0, 0, 0), copies: make([]cluster.Time, stages), sizes: stageSizes{state: o, ranks: each}}
	var total, most int64
	for k := range stages {
		p.costs.Forward[k], p.costs.Backward[k] = scaled(forward, d.Share(k)), scaled(backward, d.Share(k))
		if k < stages-1 {
			p.costs.Send[k] = m.MessageTime(k*each, (k+1)*each, d.Crossing(k)/int64(each))
		}
		n := d.Parameters(g, k)
		total, most = total+n, max(most, n)
		p.copies[k] = m.MessageTime(k*each, (stages-1-k)*each, 4*n)
		p.sizes.parameters = append(p.sizes.parameters, n)
		sum, bytes := m.DataSum(mesh, n)
		p.dataSums, p.sizes.dataSums = append(p.dataSums, sum), append(p.sizes.dataSums, bytes)
	}
	p.sizes.values = alone.Memory - o.Bytes(total)
	for _, n := range p.sizes.parameters {
		p.sizes.gradients = append(p.sizes.gradients, alone.GradientBytes*n/max(1, total))
	}
	if total > 0 {
		p.optimiser = scaled(alone.Optimiser, float64(most)/float64(total)/float64(each))
	}
	return p, nil
}

// scaled is a share of a time.
func scaled(t cluster.Time, share float64) cluster.Time { return cluster.Time(share * float64(t)) }

// passes are the times of the passes of a micro-batch. If backward passes compute the forward pass again, the last stage computes it
// only then.
func (p *StagePrices) passes() pipeline.Costs {
	if !p.Recompute {
		return p.costs
	}
	c := pipeline.Costs{Forward: slices.Clone(p.costs.Forward), Backward: slices.Clone(p.costs.Backward), Send: p.costs.Send}
	for k, f := range c.Forward {
		c.Backward[k] += f
	}
	c.Forward[len(c.Forward)-1] = 0
	return c
}

// Step predicts the time of a step of a schedule, and the mean share of its passes in which a rank waits. The rank that sums the
// gradients of a stage exchanges them with those of each other copy, from the last backward pass of the stage on, then sums them over
// data ranks, and after the update sends the copies the parameters.
//
// Errors: those of Schedule.Time.
func (p *StagePrices) Step(s *pipeline.Schedule) (step cluster.Time, idle float64, err error) {
	t, err := s.Time(p.passes())
	if err != nil {
		return 0, 0, err
	}
	step = t.End + slices.Max(p.dataSums) + p.optimiser
	if others := cluster.Time(s.Pipes() - 1); others > 0 {
		sums := make([]cluster.Time, s.Stages)
		for k, c := range p.copies {
			sums[k] = 2 * others * c
		}
		step += s.ExposedSums(t, sums) + others*slices.Max(p.copies)
	}
	return step, t.MeanBubbles(), nil
}

// Bytes predicts the memory of the rank of a schedule that needs most, and what the rank that sends most sends in a step. A rank has
// its stages with their optimiser, and a stage's share of the values of one micro-batch for each one between its forward and its
// backward pass, or with Recompute what it has received of each, and the values of one. It sends results to the next stage, gradients
// to the one before, sums of gradients to the ranks of its stage, those over data ranks once, and the gradients of copies of a stage
// twice.
func (p *StagePrices) Bytes(s *pipeline.Schedule) (memory, sent int64) {
	crossing := func(cut int) int64 {
		if cut < 0 || cut >= s.Stages-1 {
			return 0
		}
		return p.Division.Crossing(cut) / int64(p.sizes.ranks)
	}
	values, kept := make([]int64, s.Stages), make([]int64, s.Stages)
	for k := range kept {
		values[k] = int64(p.Division.Share(k) * float64(p.sizes.values))
		if kept[k] = values[k]; p.Recompute {
			kept[k] = crossing(k - 1)
		}
	}
	for w, activations := range s.PeakBytes(kept) {
		var held int64
		messages := p.sizes.dataSums[w] // worker w sums those of stage w, of all pipes
		for pipe := range s.Pipes() {
			k := s.Stage(pipe, w)
			if p.Recompute {
				activations += values[k]
			}
			held += p.sizes.parameters[k]
			messages += int64(s.Micro/s.Pipes()) * (crossing(k) + crossing(k-1) + p.sizes.gradients[k])
			if s.Pipes() > 1 {
				messages += 2 * 4 * p.sizes.parameters[k]
			}
		}
		memory, sent = max(memory, p.sizes.state.Bytes(held)+activations), max(sent, messages)
	}
	return memory, sent
}
