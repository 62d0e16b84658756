package search

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
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

// Simulate simulates a training step of a graph with a loss, sharded by package
// spatial. Every rank executes the operations of its part in order, for the time
// that the machine needs. It exchanges shards and sums with the algorithms of
// package comm over a network model. The simulation includes effects that the
// closed forms of the cost model omit: shards of different size, ranks that wait
// for each other, and messages that share links.
//
// If the machine overlaps halos, an exchange starts when its value is computed, and
// the first convolution that reads it computes its interior before it waits.
// Operations run in the engine's order. If the machine overlaps gradients, they are
// summed in buckets, one after the other, during the rest of the backward pass.
//
// Errors: a mesh that does not suit the graph; a network with fewer hosts than
// ranks.
func Simulate(g *graph.Graph, o Optimiser, mesh spatial.Mesh, m Machine, network cluster.Network) (SimulatedStep, error) {
	own, err := withGradients(g)
	if err != nil {
		return SimulatedStep{}, err
	}
	p := &simulation{mesh: mesh, m: &m, moves: map[int][]spatial.Move{}}
	var parameters int64
	for _, n := range own.Nodes {
		if n.Kind == graph.KindParam {
			parameters += int64(n.Shape.Size())
		}
	}
	for rank := range mesh.Size() {
		if err := p.script(own, rank); err != nil {
			return SimulatedStep{}, err
		}
	}
	optimiser := optimiserTime(parameters, o.State, m.Bytes)
	sent := make([]int64, mesh.Size())
	result, err := cluster.Run(mesh.Size(), network, cluster.Options{}, func(r *cluster.Rank) error {
		if err := p.runScript(r); err != nil {
			return err
		}
		r.Compute(optimiser)
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

// simulation holds the scripts of all ranks. A script is derived once from the
// sharded graph of a rank; the simulation then executes it without the graph.
// Exchanges with the same tag have the same transfers on all ranks.
type simulation struct {
	mesh    spatial.Mesh
	m       *Machine
	scripts [][]action             // by rank
	moves   map[int][]spatial.Move // by tag
}

// action is one step of a rank's script: it starts an exchange, waits for one, sums
// or gathers values, or computes.
type action struct {
	startTag, waitTag int    // tag of an exchange; none for other actions
	sum               string // mesh axes of a sum or all-gather
	gathers           bool
	deferred          bool // concurrent with the following actions
	values            int
	compute           cluster.Time
}

// scriptBuilder is the state of writing the script of one rank.
type scriptBuilder struct {
	*simulation
	g        *graph.Graph
	rank     int
	readers  []int
	gradient map[int]bool       // root nodes of gradients
	incoming [][]incoming       // by node: exchanges that its readers wait for
	waited   map[int]bool       // by tag
	open     map[string]*bucket // buckets that are not full, by mesh axes
	script   []action
}

// incoming is a value in transit: its exchange, and the share of a convolution's
// result that needs no element of it.
type incoming struct {
	tag      int
	interior float64
}

// bucket is a set of gradients that are summed together. last is the action of the
// latest gradient.
type bucket struct{ last, values int }

// script writes the script of a rank.
func (p *simulation) script(g *graph.Graph, rank int) error {
	part, err := spatial.Shard(g, p.mesh, rank)
	if err != nil {
		return err
	}
	local := part.Local
	s := &scriptBuilder{simulation: p, g: local, rank: rank, readers: local.Uses(), gradient: map[int]bool{}, incoming: make([][]incoming, len(local.Nodes)),
		waited: map[int]bool{}, open: map[string]*bucket{}}
	for _, d := range local.Grads {
		s.gradient[local.AliasRoot(d.Value)] = true
	}
	order, err := s.order()
	if err != nil {
		return err
	}
	for _, id := range order {
		if err := s.operation(local.Nodes[id]); err != nil {
			return err
		}
	}
	for _, b := range s.open {
		s.sum(b)
	}
	p.scripts = append(p.scripts, s.script)
	return nil
}

// order returns the order of execution: that of the graph, or the engine's schedule
// if halos overlap.
func (s *scriptBuilder) order() ([]int, error) {
	needed := s.g.Needed(s.g.Roots())
	u := &pass.Unit{Graph: s.g}
	if s.m.OverlapHalos {
		at := slices.IndexFunc(pass.List, func(p pass.Pass) bool { return p.Name == "schedule" })
		if err := pass.List[at].Run(u); err != nil {
			return nil, err
		}
	} else {
		for id := range s.g.Nodes {
			u.Sequence = append(u.Sequence, id)
		}
	}
	return slices.DeleteFunc(u.Sequence, func(id int) bool { return s.g.Nodes[id].Kind != graph.KindOp || !needed[id] }), nil
}

// operation appends the actions of an operation.
func (s *scriptBuilder) operation(n *graph.Node) error {
	if parts, tag, ok := spatial.RedistributionOf(n); ok {
		return s.exchange(n, parts, tag)
	}
	mesh, sums := spatial.SumAxes(n)
	if !sums {
		mesh, _ = spatial.JoinMomentsAxes(n)
	}
	axes := strings.Join(mesh, " ")
	switch {
	case isConcat(n): // its readers read the parts
		for _, id := range n.In {
			s.incoming[n.ID] = append(s.incoming[n.ID], s.incoming[id]...)
		}
	case sums && s.m.OverlapGradients && s.gradient[n.ID] && s.readers[n.ID] == 1:
		s.wait(n, 0)
		s.deferSum(axes, n.Shape.Size())
	case axes != "":
		s.wait(n, 0)
		s.script = append(s.script, action{startTag: noAxis, waitTag: noAxis, sum: axes, gathers: !sums, values: n.Shape.Size()})
	default:
		t := s.m.computeTime([]Work{workOf(s.g, n)}, 1, 1)
		s.compute(t - s.wait(n, t))
	}
	return nil
}

// compute appends computing time.
func (s *scriptBuilder) compute(t cluster.Time) {
	if k := len(s.script) - 1; k >= 0 && s.script[k].computes() {
		s.script[k].compute += t
	} else {
		s.script = append(s.script, action{startTag: noAxis, waitTag: noAxis, compute: t})
	}
}

// computes reports whether the action is computing.
func (a *action) computes() bool { return a.startTag == noAxis && a.waitTag == noAxis && a.sum == "" }

// exchange appends the start of an exchange.
func (s *scriptBuilder) exchange(n *graph.Node, parts spatial.Redistribution, tag int) error {
	if _, known := s.moves[tag]; !known {
		var err error
		if s.moves[tag], err = parts.Moves(); err != nil {
			return err
		}
	}
	s.wait(n, 0)
	s.script = append(s.script, action{startTag: tag, waitTag: noAxis})
	s.incoming[n.ID] = []incoming{{tag, s.interior(parts)}}
	if !s.m.OverlapHalos {
		s.script = append(s.script, action{startTag: noAxis, waitTag: tag})
		s.waited[tag] = true
	}
	return nil
}

// wait appends waits for the operands of an operation that are in transit, unless
// an earlier operation has waited for them. It returns the part of the operation's
// computing time that is spent before the wait, on the interior. Only convolutions
// of whole blocks of channels have kernels for that.
func (s *scriptBuilder) wait(n *graph.Node, compute cluster.Time) (before cluster.Time) {
	var tags []int
	interior := 1.0
	for _, id := range n.In {
		for _, c := range s.incoming[id] {
			if !s.waited[c.tag] {
				s.waited[c.tag] = true
				tags, interior = append(tags, c.tag), min(interior, c.interior)
				if n.Op.Conv == nil || !readsHaloApart(&Edge{Shape: s.g.Nodes[id].Shape, MixesChannels: true}, n.Shape) {
					interior = 0
				}
			}
		}
	}
	if tags == nil {
		return 0
	}
	before = cluster.Time(float64(compute) * interior)
	s.compute(before)
	for _, tag := range tags {
		s.script = append(s.script, action{startTag: noAxis, waitTag: tag})
	}
	return before
}

// interior returns the share of a convolution's result that does not read the halo
// of its operand; 0 if more than a halo in latitude and longitude is in transit.
func (s *scriptBuilder) interior(p spatial.Redistribution) float64 {
	own, need := p.Mesh.Owned(p.From, p.Shape, s.rank), p.Need.Of(s.rank)
	part := 1.0
	for axis := range own {
		before, behind := own[axis].Lo-need[axis].Lo, need[axis].Hi-own[axis].Hi
		if before < 0 || behind < 0 || axis <= levels && before+behind > 0 {
			return 0
		}
		part *= max(0, float64(own[axis].Len()-before-behind)/float64(own[axis].Len()))
	}
	return part
}

// deferSum adds a gradient to the open bucket of its mesh axes. Every gradient gets
// an action; only the last one of a bucket gets the number of values, so the sum
// starts when the last gradient is ready.
func (s *scriptBuilder) deferSum(axes string, values int) {
	b := s.open[axes]
	if b == nil {
		b = &bucket{}
		s.open[axes] = b
	}
	b.last, b.values = len(s.script), b.values+values
	s.script = append(s.script, action{startTag: noAxis, waitTag: noAxis, sum: axes, deferred: true})
	if 4*b.values >= spatial.BucketBytes {
		s.sum(b)
		delete(s.open, axes)
	}
}

// sum makes the last action of a bucket sum all its values.
func (s *scriptBuilder) sum(b *bucket) { s.script[b.last].values = b.values }

// runScript executes the script of a rank in the simulation. Deferred sums run in
// tasks, one after the other, with groups of their own: their messages must not
// match those of other sums.
func (p *simulation) runScript(r *cluster.Rank) error {
	groups, err := p.mesh.Groups(r.Comm)
	if err != nil {
		return err
	}
	later, err := p.mesh.Groups(r.Comm)
	if err != nil {
		return err
	}
	var task *comm.Task
	under := map[int][]comm.Request{} // by tag
	for _, a := range p.scripts[r.Rank()] {
		switch {
		case a.startTag != noAxis:
			under[a.startTag] = p.exchange(r, a.startTag)
		case a.waitTag != noAxis:
			err = comm.WaitAll(under[a.waitTag]...)
		case a.computes():
			r.Compute(a.compute)
		case a.gathers:
			_, err = comm.AllGather(groups[a.sum], make([]comm.SizeOnly, a.values))
		case a.deferred && a.values == 0: // summed with the last gradient of its bucket
		case a.deferred:
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

// exchange posts all sends and receives of an exchange without waiting.
func (p *simulation) exchange(r *cluster.Rank, tag int) (requests []comm.Request) {
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
	return requests
}

// CheckExecutable returns an error if package spatial cannot shard the training
// step of a graph over a mesh.
func CheckExecutable(g *graph.Graph, mesh spatial.Mesh) error {
	own, err := withGradients(g)
	if err != nil {
		return err
	}
	_, err = spatial.Shard(own, mesh, 0)
	return err
}

// withGradients returns a copy of a graph with the gradients of its loss.
func withGradients(g *graph.Graph) (*graph.Graph, error) {
	own, err := g.Rewrite(nil, func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
	if err != nil {
		return nil, err
	}
	return own, own.AddGradients(op.Add)
}
