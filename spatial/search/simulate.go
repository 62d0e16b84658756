package search

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// SimulatedStep is the result of a simulated step.
type SimulatedStep struct {
	Step   cluster.Time
	Sent   int64 // bytes that all ranks sent to others
	Events int64 // number of simulated events
}

// Simulate simulates a training step of a graph with a loss on the virtual cluster. Every rank executes its script, from
// which Search computes its prices, with the algorithms of package comm over a network model. The simulation includes
// effects that the closed forms omit: shards of different size, ranks that wait
// for each other, and messages that share links.
//
// Errors: a mesh that does not suit the graph; a network with fewer hosts than
// ranks; that of the context.
func Simulate(ctx context.Context, g *graph.Graph, o Optimiser, mesh spatial.Mesh, m Machine, network cluster.Network) (SimulatedStep, error) {
	whole, err := wholeStep(g, 0)
	if err != nil {
		return SimulatedStep{}, err
	}
	scripts, err := newScripts(ctx, whole, &m, o, mesh)
	if err != nil {
		return SimulatedStep{}, err
	}
	sent := make([]int64, mesh.Size())
	result, err := cluster.Run(mesh.Size(), network, cluster.Options{}, func(r *cluster.Rank) error {
		s := scripts[r.Rank()]
		if err := s.run(ctx, r, mesh, o); err != nil {
			return err
		}
		r.Compute(m.optimiserTime(s.parameters/int64(o.shares(mesh)), o.updated()))
		if o.shares(mesh) > 1 {
			if _, err := comm.AllGather(r.Comm, make([]comm.SizeOnly, s.parameters/int64(mesh.Size()))); err != nil {
				return err
			}
		}
		sent[r.Rank()] = r.Traffic().Bytes
		return nil
	})
	if err != nil {
		return SimulatedStep{}, err
	}
	out := SimulatedStep{Step: result.Time(), Events: result.Events}
	for _, n := range sent {
		out.Sent += n
	}
	return out, nil
}

// newScripts writes the scripts of all ranks of a mesh, on all processors. Ranks differ in the sizes of their parts, in
// the ends of axes that are not periodic, and in their partners, so each has a script of its own.
//
// Cost: a compilation of the step for each rank, some milliseconds.
// Errors: the first rank whose part cannot be computed; that of the context.
func newScripts(ctx context.Context, g *graph.Graph, m *Machine, o Optimiser, mesh spatial.Mesh) ([]*script, error) {
	scripts, errs := make([]*script, mesh.Size()), make([]error, mesh.Size())
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), mesh.Size())
	for k := range workers {
		wg.Go(func() {
			for rank := k; rank < mesh.Size() && ctx.Err() == nil; rank += workers {
				scripts[rank], _, errs[rank] = newScript(g, m, o, mesh, rank)
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for rank, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	return scripts, nil
}

// run executes the script of a rank in the simulation. Deferred sums run in
// tasks, one after the other, with groups of their own: their messages must not
// match those of other sums.
func (s *script) run(ctx context.Context, r *cluster.Rank, mesh spatial.Mesh, o Optimiser) error {
	groups, err := mesh.Groups(r.Comm)
	if err != nil {
		return err
	}
	later, err := mesh.Groups(r.Comm)
	if err != nil {
		return err
	}
	var task *comm.Task
	under := map[int][]comm.Request{} // by tag
	for i := range s.actions {
		a := &s.actions[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		switch a.kind {
		case computes:
			r.Compute(a.time)
		case starts:
			under[a.tag] = s.exchange(r, a.tag)
		case waits:
			err = comm.WaitAll(under[a.tag]...)
		case sums:
			if a.sparse {
				err = playSparse(groups, a, r.Comm, o.Compression)
			} else {
				err = comm.AllReduce(groups[groupName(a.axes)], make([]comm.SizeOnly, a.values), comm.Auto)
			}
		case gathers:
			_, err = comm.AllGather(groups[groupName(a.axes)], make([]comm.SizeOnly, a.values))
		case defers:
			task = later[groupName(a.axes)].Go(task, func(c *comm.Comm) error {
				if a.sparse {
					return playSparse(later, a, c, o.Compression)
				}
				return sumDeferred(c, a.values, o.shares(mesh) > 1)
			})
		}
		if err != nil {
			return err
		}
	}
	if task != nil {
		if err := task.Wait(r.Comm); err != nil {
			return fmt.Errorf("sums of gradients: %w", err)
		}
	}
	return nil
}

// sumDeferred sums a bucket of gradients. With a sharded optimiser each rank needs the sums of its part only.
func sumDeferred(c *comm.Comm, values int, sharded bool) error {
	x := make([]comm.SizeOnly, values)
	if !sharded {
		return comm.AllReduce(c, x, comm.Auto)
	}
	cuts := make([]int, c.Size()+1)
	for k := range cuts {
		cuts[k] = values * k / c.Size()
	}
	_, err := comm.ReduceScatterV(c, x, cuts, comm.Auto)
	return err
}

// exchange posts all sends and receives of an exchange without waiting. Receives come first, as in spatial.Exchange.
func (s *script) exchange(r *cluster.Rank, tag int) (requests []comm.Request) {
	for _, v := range s.moves[tag] {
		if v.To == r.Rank() && v.From != v.To {
			requests = append(requests, r.Recv(v.From, tag, make([]comm.SizeOnly, v.At.Size())))
		}
	}
	for _, v := range s.moves[tag] {
		if v.From == r.Rank() && v.From != v.To {
			requests = append(requests, r.Send(v.To, tag, make([]comm.SizeOnly, v.At.Size())))
		}
	}
	return requests
}
