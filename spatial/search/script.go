package search

import (
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Optimiser describes the optimiser of a training.
type Optimiser struct {
	State int // values per parameter, such as 2 for Adam
	// Average means a moving average of the parameters, which every rank holds whole, also if the optimiser is sharded.
	Average bool
	// Sharded means that each rank has gradients and state of its share of the
	// parameters only.
	Sharded bool
	// Compression makes sums of gradients sparse; nil: they are dense.
	Compression *spatial.Compression
	// Curvature is the memory of K-FAC's averages and inverses on each rank, in bytes.
	Curvature int64
}

// shares returns the number of ranks of a mesh that share the optimiser.
func (o Optimiser) shares(m spatial.Mesh) int {
	if o.Sharded {
		return m.Size()
	}
	return 1
}

// Bytes returns the memory of a number of parameters with their gradients and state.
func (o Optimiser) Bytes(parameters int64) int64 { return o.bytes(parameters, 1) }

// bytes returns Bytes for a number of ranks that share the optimiser: the gradients of several are part of the arena.
func (o Optimiser) bytes(parameters, shares int64) int64 {
	bytes := 4*(parameters+parameters*int64(o.State)/shares) + o.Curvature
	if shares == 1 {
		bytes += 4 * parameters
	}
	if o.Average {
		bytes += 4 * parameters
	}
	return bytes
}

// residuals returns the number of values per parameter that sparse sums keep: what is not sent yet, and its momentum, or the moments of
// updates and the weights that all ranks have.
func (o Optimiser) residuals() int64 {
	switch {
	case o.Compression == nil:
		return 0
	case o.Compression.Updates:
		return 4
	case o.Compression.Momentum > 0:
		return 2
	}
	return 1
}

// updated returns the number of values per parameter that a step updates besides the parameter.
func (o Optimiser) updated() int {
	if o.Average {
		return o.State + 1
	}
	return o.State
}

// script is what one rank does in a training step: the operations, exchanges and sums of its compiled graph, in order.
// Prices are computed from it, and the virtual cluster plays it.
type script struct {
	actions    []action
	moves      map[int][]spatial.Move // transfers from and to the rank, by tag
	shuffles   map[int]bool           // by tag: between two distributions, not a halo
	parameters int64                  // number of values, of the whole network
}

// kind is the kind of an action.
type kind uint8

// The kinds.
const (
	computes kind = iota
	starts        // an exchange
	waits         // for an exchange
	sums          // over ranks, before the next action
	gathers       // values of all ranks, before the next action
	defers        // a sum over ranks that is concurrent with the following actions
)

// action is one step of a script.
type action struct {
	kind     kind
	backward bool         // part of the backward pass
	time     cluster.Time // of computes
	tag      int          // of starts and waits
	axes     []string     // mesh axes of sums and gathers
	values   int          // number of values of sums and gathers
	sparse   bool         // a sum that is sparse over the data axis
}

// scriptBuilder is the state of writing a script.
type scriptBuilder struct {
	script
	step     *spatial.RankStep
	m        *Machine
	mesh     spatial.Mesh
	rank     int
	incoming map[int][]incoming // by node: exchanges that its readers wait for
	waited   map[int]bool       // by tag
	backward bool               // whether the loss is computed
}

// incoming is a value in transit: its exchange, and the share of a convolution's
// result that needs no element of it; 0 for operations without a kernel for halos in separate buffers.
type incoming struct {
	tag      int
	interior float64
}

// newScript writes the script of a rank. If the machine overlaps halos, an exchange starts when its value is computed,
// and the first convolution that reads it computes its interior before it waits; otherwise the rank waits at once.
func newScript(g *graph.Graph, m *Machine, o Optimiser, mesh spatial.Mesh, rank int) (*script, *spatial.RankStep, error) {
	step, err := spatial.CompileRank(g, mesh, rank, o.shares(mesh) > 1, o.Compression)
	if err != nil {
		return nil, nil, err
	}
	s := &scriptBuilder{script: script{moves: map[int][]spatial.Move{}, shuffles: map[int]bool{}}, step: step, m: m, mesh: mesh, rank: rank,
		incoming: map[int][]incoming{}, waited: map[int]bool{}}
	for _, n := range step.Graph.Nodes {
		if n.Kind == graph.KindParam {
			s.parameters += int64(n.Shape.Size())
		}
	}
	due := step.Sums
	for at, id := range step.Sequence {
		if err := s.operation(step.Graph.Nodes[id]); err != nil {
			return nil, nil, err
		}
		s.backward = s.backward || id == step.Graph.AliasRoot(step.Graph.Loss)
		for ; len(due) > 0 && due[0].Last == at; due = due[1:] {
			k := defers
			if !m.OverlapGradients {
				k = sums
			}
			s.add(action{kind: k, axes: due[0].Axes, values: due[0].Values, sparse: due[0].Sparse})
		}
	}
	return &s.script, step, nil
}

// add appends an action. Consecutive computations of one pass become one action, so that scripts stay short.
func (s *scriptBuilder) add(a action) {
	a.backward = s.backward
	if k := len(s.actions) - 1; a.kind == computes && k >= 0 && s.actions[k].kind == computes && s.actions[k].backward == a.backward {
		s.actions[k].time += a.time
		return
	}
	s.actions = append(s.actions, a)
}

// operation appends the actions of an operation. Every operation first waits for its operands in transit; a
// concatenation that is a view passes the wait on to its readers.
func (s *scriptBuilder) operation(n *graph.Node) error {
	if parts, tag, ok := spatial.RedistributionOf(n); ok {
		return s.exchange(n, parts, tag)
	}
	over, isSum := spatial.SumAxes(n)
	if !isSum {
		over, _ = spatial.JoinMomentsAxes(n)
	}
	switch {
	case spatial.IsDeferredSum(n): // RankStep.Sums has the buckets
		s.wait(n, 0)
	case op.IsChannelConcat(n) && n.Op.Alias: // its readers read the parts
		for _, id := range n.In {
			s.incoming[n.ID] = append(s.incoming[n.ID], s.incoming[id]...)
		}
	case isSum:
		s.wait(n, 0)
		s.add(action{kind: sums, axes: over, values: n.Shape.Size()})
	case over != nil:
		s.wait(n, 0)
		s.add(action{kind: gathers, axes: over, values: n.Shape.Size()})
	default:
		w := workOf(s.step.Graph, n)
		t := s.m.computeTime(w)
		s.add(action{kind: computes, time: t - s.wait(n, t)})
	}
	return nil
}

// exchange appends the start of an exchange, and the copy of the rank's own part if readers need one buffer. Its transfers are kept for the rank alone, so that the cost does not grow
// with the number of ranks.
func (s *scriptBuilder) exchange(n *graph.Node, parts spatial.Redistribution, tag int) (err error) {
	if s.moves[tag], err = parts.MovesOf(s.rank); err != nil {
		return err
	}
	s.shuffles[tag] = !parts.IsHalo()
	s.wait(n, 0)
	s.add(action{kind: starts, tag: tag})
	interior := 0.0
	if s.step.Halos[n.ID] {
		interior = s.interior(parts)
	} else {
		s.add(action{kind: computes, time: s.m.computeTime(workOf(s.step.Graph, n))}) // the copy of the own part
	}
	s.incoming[n.ID] = []incoming{{tag, interior}}
	if !s.m.OverlapHalos {
		s.add(action{kind: waits, tag: tag})
		s.waited[tag] = true
	}
	return nil
}

// wait appends waits for the operands of an operation that are in transit, unless
// an earlier operation has waited for them. It returns the part of the operation's
// computing time that is spent before the wait, on the interior.
func (s *scriptBuilder) wait(n *graph.Node, compute cluster.Time) (before cluster.Time) {
	var tags []int
	interior := 1.0
	for _, id := range n.In {
		for _, c := range s.incoming[id] {
			if s.waited[c.tag] {
				continue
			}
			s.waited[c.tag] = true
			tags, interior = append(tags, c.tag), min(interior, c.interior)
		}
	}
	if tags == nil {
		return 0
	}
	before = cluster.Time(float64(compute) * interior)
	s.add(action{kind: computes, time: before})
	for _, tag := range tags {
		s.add(action{kind: waits, tag: tag})
	}
	return before
}

// interior returns the share of a convolution's result that does not read the halo
// of its operand; 0 if more than a halo in latitude and longitude is in transit. The share is that of the operand's
// own points, which is exact for windows of stride 1.
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

// groupName is the name of the group of ranks along mesh axes, as in spatial.Mesh.Groups.
func groupName(axes []string) string { return strings.Join(axes, " ") }

// sentBytes returns what the rank sends and receives in an exchange, by moves to others.
func (s *script) sentBytes(rank, tag int) (sent int64) {
	for _, v := range s.moves[tag] {
		if v.From == rank && v.To != rank {
			sent += 4 * int64(v.At.Size())
		}
	}
	return sent
}

// tags returns the tags of all exchanges, in ascending order.
func (s *script) tags() []int {
	var all []int
	for tag := range s.moves {
		all = append(all, tag)
	}
	slices.Sort(all)
	return all
}

// Workspace of a convolution by Winograd's algorithm: the transformed filters of three levels, 16/9 of the filters each, and a
// buffer of tiles for every channel; or all tiles of the field, if these are smaller. The sizes of buffers are those of the
// kernels within 10 %.
const (
	scratchTransforms = 3
	scratchTile       = 64       // bytes of a tile of 2x2 points, transformed
	scratchTiles      = 5 << 10  // bytes of a channel in passes that compute fields
	scratchSumTiles   = 26 << 10 // bytes of a channel in the pass that computes the filter's gradient
)

// workspaceOf returns the workspace of the kernel of an operation. Only convolutions need much.
//
// Unit: bytes.
func workspaceOf(o *graph.Op, in []graph.Shape, out graph.Shape) int64 {
	c := convOf(&graph.Node{Op: o, Shape: out}, in)
	if c == nil {
		return 0
	}
	points, tiles := out.Size()/out[channels], int64(scratchTiles)
	if c.Pass == "filter" {
		tiles, points = scratchSumTiles, math.MaxInt
		for _, s := range in {
			if len(s) == fieldAxes {
				points = min(points, s.Size()/s[channels])
			}
		}
	}
	both := int64(c.In + c.Out)
	filters := scratchTransforms * 16 * 4 * int64(c.In*c.Out*c.Filter[0]*c.Filter[1]*c.Filter[2]) / 9
	return min(filters+tiles*both, scratchTile*int64(points)/4*both)
}
