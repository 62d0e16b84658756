package search

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Played is a step on a virtual cluster.
type Played struct {
	Step   cluster.Time
	Sent   int64 // bytes of all ranks to others
	Events int64 // of the simulation
}

// Play runs a step of a graph with a loss as package spatial cuts it: every rank computes
// the operations of its own part in their order, for the time that the machine needs, and
// exchanges parts of values and sums by the programs of package comm over a network. So
// uneven parts, ranks that wait for each other and messages that share links count, which
// the closed forms leave out. Sums of gradients go beside the backward pass if the
// machine hides them; halos are waited for.
//
// Errors: a mesh that the graph cannot be cut by; a network that has no place for all ranks.
func Play(g *graph.Graph, o Optimiser, mesh spatial.Mesh, m Machine, network cluster.Network) (Played, error) {
	own, err := withGradients(g)
	if err != nil {
		return Played{}, err
	}
	p := &playing{mesh: mesh, m: &m, moves: map[int][]spatial.Move{}}
	var parameters int64
	for _, n := range own.Nodes {
		if n.Kind == graph.KindParam {
			parameters += int64(n.Shape.Size())
		}
	}
	for rank := range mesh.Size() {
		if err := p.script(own, rank); err != nil {
			return Played{}, err
		}
	}
	optimiser := optimiserTime(parameters, o.State, m.Bytes)
	sent := make([]int64, mesh.Size())
	result, err := cluster.Run(mesh.Size(), network, cluster.Options{}, func(r *cluster.Rank) error {
		if err := p.perform(r); err != nil {
			return err
		}
		r.Compute(optimiser)
		sent[r.Rank()] = r.Traffic().Bytes
		return nil
	})
	if err != nil {
		return Played{}, err
	}
	out := Played{Step: result.Time(), Events: result.Events}
	for _, n := range sent {
		out.Sent += n
	}
	return out, nil
}

// playing is what all ranks do.
type playing struct {
	mesh    spatial.Mesh
	m       *Machine
	scripts [][]action             // by rank
	moves   map[int][]spatial.Move // by tag
}

// action is one thing that a rank does.
type action struct {
	compute  cluster.Time
	exchange int    // tag of an exchange; none for others
	sum      string // axes of the mesh over which it adds up, or gathers
	gathers  bool
	later    bool // beside what follows
	values   int
}

// script writes down what a rank does.
func (p *playing) script(g *graph.Graph, rank int) error {
	part, err := spatial.Shard(g, p.mesh, rank)
	if err != nil {
		return err
	}
	local := part.Local
	gradient := map[int]bool{}
	for _, d := range local.Grads {
		gradient[local.Root(d.Value)] = true
	}
	uses := local.Uses()
	needed := local.Needed(local.Roots())
	var script []action
	for _, n := range local.Nodes {
		if n.Kind != graph.KindOp || !needed[n.ID] {
			continue
		}
		if parts, tag, ok := spatial.Exchanged(n); ok {
			if _, known := p.moves[tag]; !known {
				if p.moves[tag], err = parts.Moves(); err != nil {
					return err
				}
			}
			script = append(script, action{exchange: tag})
			continue
		}
		a := action{exchange: none, values: n.Shape.Size()}
		if mesh, ok := spatial.Summed(n); ok {
			a.sum, a.later = strings.Join(mesh, " "), p.m.HideGradients && gradient[n.ID] && uses[n.ID] == 1
		} else if mesh, ok := spatial.Joined(n); ok {
			a.sum, a.gathers = strings.Join(mesh, " "), true
		} else {
			a.compute = p.m.computing([]Work{workOf(local, n)}, 1, 1)
			if k := len(script) - 1; k >= 0 && script[k].exchange == none && script[k].sum == "" {
				script[k].compute += a.compute
				continue
			}
		}
		script = append(script, a)
	}
	p.scripts = append(p.scripts, script)
	return nil
}

// perform does what is written down for a rank.
func (p *playing) perform(r *cluster.Rank) error {
	groups, err := p.mesh.Groups(r.Comm)
	if err != nil {
		return err
	}
	later, err := p.mesh.Groups(r.Comm)
	if err != nil {
		return err
	}
	var task *comm.Task
	for _, a := range p.scripts[r.Rank()] {
		switch {
		case a.exchange != none:
			err = p.exchange(r, a.exchange)
		case a.sum == "":
			r.Compute(a.compute)
		case a.gathers:
			_, err = comm.AllGather(groups[a.sum], make([]comm.SizeOnly, a.values))
		case a.later:
			task = later[a.sum].Go(task, func(c *comm.Comm) error { return comm.AllReduce(c, make([]comm.SizeOnly, a.values), comm.Auto) })
		default:
			err = comm.AllReduce(groups[a.sum], make([]comm.SizeOnly, a.values), comm.Auto)
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

// exchange gives and gets parts of a value.
func (p *playing) exchange(r *cluster.Rank, tag int) error {
	var requests []comm.Request
	for _, v := range p.moves[tag] {
		if v.To == r.Rank() && v.From != v.To {
			requests = append(requests, r.Recv(v.From, tag, make([]comm.SizeOnly, v.At.Size())))
		}
	}
	for _, v := range p.moves[tag] {
		if v.From == r.Rank() && v.From != v.To {
			requests = append(requests, r.Send(v.To, tag, make([]comm.SizeOnly, v.At.Size())))
		}
	}
	return comm.WaitAll(requests...)
}

// Executes refuses a mesh that package spatial cannot cut the step of a graph with a loss by.
func Executes(g *graph.Graph, mesh spatial.Mesh) error {
	own, err := withGradients(g)
	if err != nil {
		return err
	}
	_, err = spatial.Shard(own, mesh, 0)
	return err
}

// withGradients is a copy of a graph with the gradients of its loss.
func withGradients(g *graph.Graph) (*graph.Graph, error) {
	own, err := g.Rewrite(nil, func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
	if err != nil {
		return nil, err
	}
	return own, own.AddGradients(op.Add)
}
