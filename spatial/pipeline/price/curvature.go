package price

import (
	"context"
	"slices"
	"sort"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/pipeline/filler"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// KFAC are the settings of K-FAC.
type KFAC struct {
	MaxSide int // largest side of a factor
	Refresh int // steps between two updates of the curvature
	Delay   int // steps from factors to the use of their inverses
	Options kfac.Options
}

// Curvature is the work of K-FAC in a pipeline.
//
// Source: Osawa, Li and Hoefler 2023, arXiv:2211.14133, section 3.
type Curvature struct {
	// Factors is the time by which a step with factors is longer: they are part of its backward passes, and are then summed over
	// copies and data ranks. Products is the time of the products with inverses in every step, of the rank with most.
	Factors, Products cluster.Time
	Sent              int64 // bytes that the busiest rank sends in a step with factors to sum them

	settings  KFAC
	plan      search.Plan     // a step with factors, without a pipeline
	triangles []int64         // values of the factors of each stage
	memory    []int64         // by rank: averages and inverses
	ranks     []filler.Worker // by rank: inversions
}

// steps is the number of steps whose idle times can hide inversions of a delay: those after the one with factors, until the
// inverses are used. A step with factors runs none.
func (c *Curvature) steps(delay int) int {
	if delay > 0 && delay == c.settings.Refresh {
		return delay - 1
	}
	return delay
}

// Inversions are the times of the inversions of an update: what all ranks would wait for without idle times, those of the busiest rank,
// divided into what idle times save and what is left. With delay 0 they save nothing.
func (c *Curvature) Inversions(delay int) (saved, exposed cluster.Time) {
	var all cluster.Time
	for i := range c.ranks {
		w := &c.ranks[i]
		all, exposed = max(all, w.Work()), max(exposed, w.Left(c.steps(delay)))
	}
	return all - exposed, exposed
}

// HidingDelay is the least delay with which idle times save most; 0 if they save nothing.
func (c *Curvature) HidingDelay() int {
	last := 0 // step with inversions
	for _, w := range c.ranks {
		for _, p := range w.Places {
			last = max(last, p.Step+1)
		}
	}
	last = min(last, c.settings.Refresh-1) // the next step with factors runs none
	_, least := c.Inversions(last)
	return sort.Search(last, func(delay int) bool {
		_, exposed := c.Inversions(delay)
		return exposed == least
	})
}

// Delayed returns the work with another delay.
func (c *Curvature) Delayed(delay int) *Curvature {
	out := *c
	out.settings.Delay = delay
	return &out
}

// Mean is the mean time by which a step is longer.
func (c *Curvature) Mean() cluster.Time {
	_, exposed := c.Inversions(c.settings.Delay)
	return c.Products + (c.Factors+exposed)/cluster.Time(max(1, c.settings.Refresh))
}

// Delay and Refresh are the settings of Mean.
func (c *Curvature) Delay() int   { return c.settings.Delay }
func (c *Curvature) Refresh() int { return c.settings.Refresh }

// HasFactors reports whether some layer has factors.
func (c *Curvature) HasFactors() bool { return slices.Max(c.triangles) > 0 }

// curvature prices the work of K-FAC beside the passes t of a step, and returns the owners of parameters with it: of whole layers.
// Inversions run in the idle times of the passes as trainings place them: in each the longest pieces that fit.
func (p *Pipeline) curvature(ctx context.Context, s *pipeline.Schedule, t *pipeline.Timeline, k *KFAC) (*Curvature, owners, error) {
	c := &Curvature{settings: *k}
	f, err := p.network.factors(k.MaxSide)
	if err != nil {
		return nil, owners{}, err
	}
	if c.plan, err = p.network.step(ctx, p.mesh.Fields(), k.MaxSide); err != nil {
		return nil, owners{}, err
	}
	stageOf := p.stagesOf(f.list, s)
	c.triangles = triangles(f.list, stageOf, s.Stages)
	longer, err := s.Time(p.factorPasses(c.plan, f.times, stageOf))
	if err != nil {
		return nil, owners{}, err
	}
	sums := p.sumTime(s, factorSums(s, c.triangles), make([]cluster.Time, s.Stages), false)
	c.Factors, c.Sent = longer.End-t.End+sums.end, sums.sent
	turns, byRank := p.shareLayers(s, f.list, stageOf)
	c.memory = make([]int64, len(byRank))
	for rank, own := range byRank {
		c.memory[rank] = kfac.Bytes(own, k.Options)
		c.Products = max(c.Products, p.network.m.FLOPsTime(kfac.ApplyFLOPs(own)))
		w, err := filler.Fill(t, rank/p.mesh.Size(), inversions(own))
		if err != nil {
			return nil, owners{}, err
		}
		c.ranks = append(c.ranks, w)
	}
	return c, p.own(s, turns), nil
}

// factorPasses are the times of passes that also compute factors: what a step without a pipeline takes longer, divided over the
// stages by the operations of the layers' factors.
func (p *Pipeline) factorPasses(plan search.Plan, times []cluster.Time, stageOf []int) pipeline.Costs {
	costs := p.passes()
	costs.Backward = slices.Clone(costs.Backward)
	more := plan.Forward + plan.Backward + plan.Gradients - p.whole.Forward - p.whole.Backward - p.whole.Gradients
	// Fused operations take less than their sum, so only the proportions of the layers' times are used.
	var all cluster.Time
	for _, t := range times {
		all += t
	}
	for i, stage := range stageOf {
		if stage >= 0 {
			costs.Backward[stage] += scaled(more, float64(times[i])/float64(all))
		}
	}
	return costs
}

// triangles are the values of the factors of each stage.
func triangles(layers []pass.LayerFactors, stageOf []int, stages int) []int64 {
	out := make([]int64, stages)
	for i, l := range layers {
		if stageOf[i] >= 0 {
			out[stageOf[i]] += int64(op.TriangleSize(l.Rows) + op.TriangleSize(l.Cols))
		}
	}
	return out
}

// stagesOf is the stage of each layer that has factors, −1 for others. A filter that several stages share has none.
func (p *Pipeline) stagesOf(layers []pass.LayerFactors, s *pipeline.Schedule) []int {
	stage := map[string]int{}
	for _, x := range p.Division.Sums(p.network.g, s) {
		for _, name := range x.Params {
			if !x.IsShared() {
				stage[name] = x.Holders[0].Stage
			}
		}
	}
	out := make([]int, len(layers))
	for i, l := range layers {
		k, ok := stage[l.Param]
		if out[i] = k; !ok || l.Form == pass.NoFactors {
			out[i] = -1
		}
	}
	return out
}

// factorSums are the sums of the factors of each stage over its copies.
func factorSums(s *pipeline.Schedule, triangles []int64) (sums []pipeline.Sum) {
	for k, n := range triangles {
		x := pipeline.Sum{Values: int(n)}
		for pipe := range s.Pipes() {
			x.Holders = append(x.Holders, pipeline.Holder{Stage: k, Pipe: pipe})
		}
		sums = append(sums, x)
	}
	return sums
}

// shareLayers divides the layers of each stage over the ranks of the worker that sums their gradients, by the cost of their
// inversions. turns has the rank of filters and biases within its worker.
func (p *Pipeline) shareLayers(s *pipeline.Schedule, layers []pass.LayerFactors, stageOf []int) (turns map[string]int, byRank [][]pass.LayerFactors) {
	each := p.mesh.Size()
	turns, byRank = map[string]int{}, make([][]pass.LayerFactors, s.Stages*each)
	for k := range s.Stages {
		var own []pass.LayerFactors
		for i, l := range layers {
			if stageOf[i] == k {
				own = append(own, l)
			}
		}
		for i, r := range kfac.ShareLayers(own, each) {
			l, rank := own[i], s.Worker(0, k)*each+r
			byRank[rank] = append(byRank[rank], l)
			if turns[l.Param] = r; l.Bias != "" {
				turns[l.Bias] = r
			}
		}
	}
	return turns, byRank
}

// inversions are the inversions of layers in pieces, the longest first.
func inversions(layers []pass.LayerFactors) (items []filler.Item) {
	for _, l := range layers {
		for _, side := range []int{l.Rows, l.Cols} {
			pieces, cost := kfac.Pieces(side)
			items = append(items, filler.Inversion(pieces, cost, kfac.InverseRate))
		}
	}
	slices.SortStableFunc(items, func(a, b filler.Item) int { return int(b.Time - a.Time) })
	return items
}
