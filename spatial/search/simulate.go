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

// SimulatedStep is a step on a virtual cluster.
type SimulatedStep struct {
	Step   cluster.Time
	Sent   int64 // bytes of all ranks to others
	Events int64 // of the simulation
}

// Simulate runs a step of a graph with a loss as package spatial cuts it: every rank computes
// the operations of its own part in their order, for the time that the machine needs, and
// exchanges parts of values and sums by the programs of package comm over a network. So
// uneven parts, ranks that wait for each other and messages that share links count, which
// the closed forms leave out.
//
// If the machine hides halos, they start as soon as the value is there, and the first
// convolution that reads one computes what needs none before it waits, in the order in which
// the engine runs operations. If it hides gradients, these are summed in buckets, one after
// the other, beside the rest of the pass.
//
// Errors: a mesh that the graph cannot be cut by; a network that has no place for all ranks.
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

// simulation is what all ranks do.
type simulation struct {
	mesh    spatial.Mesh
	m       *Machine
	scripts [][]action             // by rank
	moves   map[int][]spatial.Move // by tag
}

// action is one thing that a rank does: it lets messages of an exchange go, waits for those
// that it gets, adds up or gathers values, or computes.
type action struct {
	startTag, waitTag int    // tags of exchanges; none for others
	sum               string // axes of the mesh over which it adds up, or gathers
	gathers           bool
	deferred          bool // beside what follows
	values            int
	compute           cluster.Time
}

// scriptBuilder is the script of one rank while it is written down.
type scriptBuilder struct {
	*simulation
	g        *graph.Graph
	rank     int
	readers  []int
	gradient map[int]bool // roots of gradients
	incoming [][]incoming // by node: exchanges that its readers wait for
	waited   map[int]bool // by tag
	open     map[string]*bucket
	script   []action
}

// incoming is a value that is under way: its exchange, and the share of what a convolution
// makes of it that reads nothing of others.
type incoming struct {
	tag      int
	interior float64
}

// bucket is gradients that are summed together, by the last action that fills it.
type bucket struct{ last, values int }

// script writes down what a rank does.
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

// order is that of the operations: as the graph has them, or if halos are hidden as the
// engine runs them.
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

// operation writes down what a rank does for one.
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
	case isConcat(n): // is read in parts
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

// compute lets time pass.
func (s *scriptBuilder) compute(t cluster.Time) {
	if k := len(s.script) - 1; k >= 0 && s.script[k].computes() {
		s.script[k].compute += t
	} else {
		s.script = append(s.script, action{startTag: noAxis, waitTag: noAxis, compute: t})
	}
}

func (a *action) computes() bool { return a.startTag == noAxis && a.waitTag == noAxis && a.sum == "" }

// exchange lets parts of a value go.
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

// wait waits for what an operation of so much computing reads, if it is the first, and tells
// how much it computes before.
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

// interior is the share of a convolution's result that does not read the halo of its operand;
// 0 if more than a halo comes.
func (s *scriptBuilder) interior(p spatial.Redistribution) float64 {
	own, need := p.Mesh.Owned(p.From, p.Shape, s.rank), p.Need[s.rank]
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

// deferSum puts a gradient into the bucket that is open along axes of the mesh.
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

// sum lets the sum of a bucket start where its last gradient is there.
func (s *scriptBuilder) sum(b *bucket) { s.script[b.last].values = b.values }

// runScript does what is written down for a rank.
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
		case a.deferred && a.values == 0: // with the rest of its bucket
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

// exchange gives and gets parts of a value, without waiting.
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

// CheckExecutable refuses a mesh that package spatial cannot cut the step of a graph with a loss by.
func CheckExecutable(g *graph.Graph, mesh spatial.Mesh) error {
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
