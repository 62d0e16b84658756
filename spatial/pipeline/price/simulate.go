package price

import (
	"context"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// Simulate plays a step without K-FAC on a virtual cluster: every rank of every stage, message by message. Passes take the predicted
// times.
//
// Errors: those of cluster.Run; a network with fewer hosts than ranks; that of the context.
func (p *Pipeline) Simulate(ctx context.Context, s *pipeline.Schedule, network cluster.Network) (search.SimulatedStep, error) {
	o, each := p.own(s, nil), p.mesh.Size()
	updated, transfers := p.byRank(s, o), p.exchange(s, o)
	x := pipeline.Simulated{Schedule: s, Costs: p.passes(), Mesh: p.mesh, Sums: o.sums}
	for k := range s.Stages - 1 {
		x.Bytes = append(x.Bytes, p.crossing(k))
	}
	sent := make([]int64, s.Stages*each)
	result, err := cluster.Run(s.Stages*each, network, cluster.Options{}, func(r *cluster.Rank) error {
		if _, err := x.Run(ctx, r); err != nil {
			return err
		}
		r.Compute(p.optimiser(updated[r.Rank()]))
		err := transfer(r, transfers)
		sent[r.Rank()] = r.Traffic().Bytes
		return err
	})
	if err != nil {
		return search.SimulatedStep{}, err
	}
	out := search.SimulatedStep{Step: result.Time(), Events: result.Events}
	for _, n := range sent {
		out.Sent += n
	}
	return out, nil
}

// transfer runs the messages of a rank, all at once. Two ranks exchange several messages with one tag in the order of the list, which
// is the same on both.
func transfer(r *cluster.Rank, all []search.Transfer) error {
	const tag = 0
	var requests []comm.Request
	// Receives come first: a message that finds none waits for it.
	for _, t := range all {
		if t.From != r.Rank() && r.Rank() >= t.First && r.Rank() < t.First+t.Count {
			requests = append(requests, r.Recv(t.From, tag, make([]comm.SizeOnly, t.Bytes/4)))
		}
	}
	for _, t := range all {
		for to := t.First; to < t.First+t.Count && t.From == r.Rank(); to++ {
			if to != t.From {
				requests = append(requests, r.Send(to, tag, make([]comm.SizeOnly, t.Bytes/4)))
			}
		}
	}
	return comm.WaitAll(requests...)
}
