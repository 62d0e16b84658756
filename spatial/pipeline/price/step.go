package price

import (
	"cmp"
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// Step is the predicted cost of a step.
//
// Unit: times in picoseconds, the rest in bytes.
type Step struct {
	// Time is that of a step without K-FAC, Passes + Gradients + Optimiser + Parameters.
	Time       cluster.Time
	Passes     cluster.Time // until the last one ends, with their messages
	Gradients  cluster.Time // sums over the copies of stages, and over data ranks, behind the last pass
	Optimiser  cluster.Time // of the rank that updates most
	Parameters cluster.Time // exchange of updated parameters between the ranks that hold a copy
	Idle       float64      // share of Passes in which a rank runs none, mean over the ranks
	Sent       int64        // by the rank that sends most, with K-FAC in the mean
	Memory     int64        // of the rank that needs most
	Curvature  *Curvature   // nil without K-FAC
}

// Step predicts a step of a schedule, with the work of K-FAC if k is not nil.
//
// Every copy of a stage sends its gradients to the rank that sums them, from the end of its own passes on; that rank sums them over
// data ranks in one message and sends the result back. When all have the losses, each rank updates a part of the parameters that its worker has summed,
// and sends it to all ranks that hold a copy.
//
// Errors: those of Schedule.Time and of the context.
func (p *Pipeline) Step(ctx context.Context, s *pipeline.Schedule, k *KFAC) (x Step, err error) {
	t, err := s.Time(p.passes())
	if err != nil {
		return x, err
	}
	o := p.own(s, nil)
	if k != nil {
		if x.Curvature, o, err = p.curvature(ctx, s, t, k); err != nil {
			return x, err
		}
	}
	ready := make([]cluster.Time, s.Stages) // of workers, after their passes
	for w := range ready {
		ready[w] = t.Spans[w][len(t.Spans[w])-1].End
	}
	gradients := p.sumTime(s, o.sums, ready, true)
	losses := p.lossTime(s)
	updated := p.byRank(s, o)
	x.Passes, x.Idle, x.Gradients = t.End, t.MeanBubbles(), gradients.end-t.End+losses.end
	x.Optimiser = p.optimiser(slices.Max(updated))
	exchanged, sent := p.network.m.Transfers(p.exchange(s, o))
	x.Parameters = exchanged
	x.Time = x.Passes + x.Gradients + x.Optimiser + x.Parameters
	x.Sent = p.passBytes(s) + gradients.sent + losses.sent + sent
	if k != nil {
		x.Sent += x.Curvature.Sent / int64(max(1, k.Refresh))
	}
	x.Memory = p.memory(s, o, x.Curvature)
	return x, nil
}

// Mean is the mean time of a step, with the work of K-FAC.
func (x Step) Mean() cluster.Time {
	if x.Curvature == nil {
		return x.Time
	}
	return x.Time + x.Curvature.Mean()
}

// optimiser is the time in which a rank updates a number of values.
func (p *Pipeline) optimiser(values int64) cluster.Time {
	return scaled(p.whole.Optimiser, float64(values)/float64(max(1, p.network.parameters())))
}

// summed is the cost of sums.
type summed struct {
	end  cluster.Time // when all workers have their results
	sent int64        // by the busiest rank
}

// sumTime is the cost of sums over copies and data ranks, for workers that begin when they are ready. With back the copies get the
// results.
func (p *Pipeline) sumTime(s *pipeline.Schedule, sums []pipeline.Sum, ready []cluster.Time, back bool) (x summed) {
	each := p.mesh.Size()
	to, from := &messages{m: &p.network.m, each: each, sent: make([]int64, s.Stages)}, &messages{m: &p.network.m, each: each, sent: make([]int64, s.Stages)}
	own := make([]int64, s.Stages) // values by worker that sums
	for _, of := range sums {
		if of.Values == 0 {
			continue
		}
		bytes, owner := 4*int64(of.Values), of.Workers(s)[0]
		own[owner] += int64(of.Values)
		for _, h := range s.Contributors(of) {
			to.add(s.Worker(h.Pipe, h.Stage), owner, bytes)
		}
		for _, w := range of.Workers(s) {
			from.add(owner, w, bytes)
		}
	}
	ends := to.run(ready)
	for w, n := range own {
		t, sent := p.network.m.DataSum(p.mesh, n)
		ends[w] += t
		to.sent[w] += sent
	}
	if back {
		ends = from.run(ends)
	}
	for w := range ends {
		x.end, x.sent = max(x.end, ends[w]), max(x.sent, to.sent[w]+from.sent[w])
	}
	return x
}

// lossTime is the cost of the sums of losses, in float64, over the stages and over data ranks. Nobody continues before.
func (p *Pipeline) lossTime(s *pipeline.Schedule) (x summed) {
	values := 2 * int64(p.mesh.DataRanks()*s.Pieces())
	t, sent := p.network.m.StridedSum(s.Stages, p.mesh.Size(), values)
	d, more := p.network.m.DataSum(p.mesh, values)
	return summed{t + d, sent + more}
}

// messages are those between workers: each of their ranks sends one to the rank in its place.
type messages struct {
	m    *search.Machine
	each int // ranks of a worker
	all  []message
	sent []int64 // by worker: bytes of a rank
}

// message is one of them.
type message struct {
	from, to int
	bytes    int64
}

// add adds a message, unless a worker keeps it itself.
func (x *messages) add(from, to int, bytes int64) {
	if from != to {
		x.all = append(x.all, message{from, to, bytes})
	}
}

// run returns when workers, which send from a time on, have what they receive. Messages share the link of a rank to others on its
// node, or that of its node to other nodes: all of a link end with its last one.
func (x *messages) run(ready []cluster.Time) (ends []cluster.Time) {
	slices.SortStableFunc(x.all, func(a, b message) int { return cmp.Compare(ready[a.from], ready[b.from]) })
	type link struct {
		between, in  bool
		node, worker int
	}
	linksOf := func(v message) (out, in link) {
		from, to := x.m.Node(v.from*x.each), x.m.Node(v.to*x.each)
		if from != to {
			return link{between: true, node: from}, link{between: true, in: true, node: to}
		}
		return link{worker: v.from}, link{in: true, worker: v.to}
	}
	// Links are shared evenly, so that messages that start together end together: a first pass finds when each link is free again.
	free := map[link]cluster.Time{}
	time := func(v message, bytes int64) cluster.Time {
		return x.m.MessageTime(v.from*x.each, v.to*x.each, x.each, bytes)
	}
	for _, v := range x.all {
		out, in := linksOf(v)
		for _, at := range []link{out, in} {
			free[at] = max(free[at], ready[v.from]) + time(v, v.bytes) - time(v, 0)
		}
		x.sent[v.from] += v.bytes
	}
	ends = slices.Clone(ready)
	for _, v := range x.all {
		out, in := linksOf(v)
		// A worker waits until its own messages have left, too.
		ends[v.from], ends[v.to] = max(ends[v.from], free[out]), max(ends[v.to], max(free[out], free[in])+time(v, 0))
	}
	return ends
}

// crossing is what a rank sends over a cut for a micro-batch, one way; 0 for no cut.
func (p *Pipeline) crossing(cut int) int64 {
	if cut < 0 || cut >= p.Division.Stages()-1 {
		return 0
	}
	return p.Division.Crossing(cut) / int64(p.mesh.Fields().Size())
}

// passBytes is what the rank that sends most sends in the passes of a step: results to the next stage, gradients to the one before,
// and sums of gradients to the ranks of its stage with the same samples.
func (p *Pipeline) passBytes(s *pipeline.Schedule) (most int64) {
	for w := range s.Stages {
		var sent int64
		for pipe := range s.Pipes() {
			k := s.Stage(pipe, w)
			gradients := p.whole.GradientBytes * p.Division.Parameters(p.network.g, k) / max(1, p.network.parameters())
			sent += int64(s.Micro/s.Pipes()) * (p.crossing(k) + p.crossing(k-1) + gradients)
		}
		most = max(most, sent)
	}
	return most
}

// memory predicts the memory of the rank that needs most. A rank has all parameters, and their moving average if there is one, since
// it validates the whole network. Of its stages it has parameters, gradients of a micro-batch and their sums, and of what it updates
// gradients and state. Of a stage it keeps its share of the values of one micro-batch for each one between its forward and its
// backward pass, or with Recompute what it has received of each, and the values of one. With K-FAC a stage has a second plan, and the
// rank the averages and inverses of its layers.
func (p *Pipeline) memory(s *pipeline.Schedule, o owners, c *Curvature) (most int64) {
	all := p.network.parameters()
	whole := all
	if p.network.o.Average {
		whole += all
	}
	values, kept, factors := make([]int64, s.Stages), make([]int64, s.Stages), make([]int64, s.Stages)
	for k := range kept {
		values[k] = int64(p.Division.Share(k) * float64(p.whole.Memory-p.network.o.Bytes(all)))
		if kept[k] = values[k]; p.Recompute {
			kept[k] = p.crossing(k - 1)
		}
		if c != nil {
			factors[k] = int64(p.Division.Share(k)*float64(c.plan.Memory-p.network.o.Bytes(all))) + 4*c.triangles[k]
		}
	}
	updated := p.byRank(s, o)
	for w, activations := range s.PeakBytes(kept) {
		var held int64
		for pipe := range s.Pipes() {
			k := s.Stage(pipe, w)
			if p.Recompute {
				activations += values[k]
			}
			activations += factors[k]
			held += p.Division.Parameters(p.network.g, k)
		}
		for r := range p.mesh.Size() {
			rank := w*p.mesh.Size() + r
			n := 4*(whole+3*held+updated[rank]*int64(1+p.network.o.State)) + activations
			if c != nil {
				n += c.memory[rank]
			}
			most = max(most, n)
		}
	}
	return most
}
