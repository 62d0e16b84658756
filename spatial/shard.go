package spatial

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Sharded is the part of a graph that one rank computes.
type Sharded struct {
	Local *graph.Graph // graph of the rank
	// Inputs and Outputs are the distributions of the fields that enter and leave
	// the graph, by name.
	Inputs, Outputs map[string]graph.Distribution
	// Distributions holds those of all values, by node of the graph that was sharded.
	Distributions []graph.Distribution
}

// Shard rewrites a graph, gradients included, to the part that one rank of the mesh
// computes.
//
// Distribution of fields: each mesh axis splits the axis of its name ("data",
// "level", "lat", "lon"). The first input is split as evenly as multiples of the
// smallest field allow. Every other field of the same size is split alike. Windows
// of operations carry the split from one field size to the next. An axis stays
// whole where a rank would own nothing. In fields of the sizes that
// MeshAxis.Overrides lists, a mesh axis splits another axis or none; inputs and
// outputs of these sizes keep the default split. A batch with fewer samples than
// ranks along "data" is not split.
//
// Communication: the elements that a rank requires from others become a gather. A
// sum over a split axis becomes a sum over ranks.
//
// Channels: a convolution reads all channels of its operand and computes the rank's
// channels of the result with their filters alone. The rank's rows of the filter
// gradient are padded with zeros and summed over the ranks. Concatenations along
// the channels are whole.
//
// Parameters, states and values that are not fields are replicated, with the same
// bits on all ranks.
//
// Errors: a mesh with unknown axes or with more ranks than indices; operations that
// cannot be split this way.
func Shard(g *graph.Graph, m Mesh, rank int) (*Sharded, error) {
	s := newSharding(g, m, rank)
	if err := s.cutFields(); err != nil {
		return nil, err
	}
	return s.part()
}

// newSharding returns the state before any axis is cut.
func newSharding(g *graph.Graph, m Mesh, rank int) *sharding {
	s := &sharding{mesh: m, rank: rank, g: g, dist: make([]graph.Distribution, len(g.Nodes)), isField: make([]bool, len(g.Nodes)),
		values: make([]graph.Value, len(g.Nodes)), cuts: map[axisSize]graph.AxisPartition{}, stored: map[int]bool{}, gradients: map[int]bool{}, partial: map[int]partialSum{}, leaves: map[int]bool{}, fetched: map[string]graph.Value{}}
	for _, d := range g.Grads {
		s.stored[d.Value], s.gradients[d.Value] = true, true
	}
	for _, a := range g.Assigns {
		s.stored[a.Value] = true
	}
	for _, o := range g.Outputs {
		shape := g.Nodes[o.ID].Shape
		s.leaves[o.ID] = slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
			return n.Kind == graph.KindInput && len(n.Shape) == 5 && len(shape) == 5 && n.Shape[2:].Equal(shape[2:])
		})
	}
	return s
}

// part rewrites the graph to the part of the rank, with the present cuts.
func (s *sharding) part() (*Sharded, error) {
	local, err := s.g.Rewrite(nil, s.visit)
	if err != nil {
		return nil, err
	}
	out := &Sharded{Local: local, Inputs: map[string]graph.Distribution{}, Outputs: map[string]graph.Distribution{}, Distributions: s.dist}
	for i, n := range s.g.Nodes {
		if n.Kind == graph.KindInput {
			out.Inputs[n.Name] = s.dist[i]
		}
	}
	for _, o := range s.g.Outputs {
		out.Outputs[o.Name] = s.dist[o.ID]
	}
	return out, nil
}

// axisSize identifies an axis of fields together with its size.
type axisSize struct{ axis, n int }

// sharding is the state of the rewrite of a graph.
type sharding struct {
	mesh      Mesh
	rank      int
	g         *graph.Graph
	cuts      map[axisSize]graph.AxisPartition // default split of an axis by its size
	isField   []bool                           // by node: split like the fields of its size
	dist      []graph.Distribution             // by node
	stored    map[int]bool                     // values of parameters and states, which are replicated
	gradients map[int]bool                     // those of the stored values that are gradients of parameters
	partial   map[int]partialSum               // by the value of a sum over ranks: what it sums
	// outputs with the size of an input, which get the distribution of inputs
	leaves  map[int]bool
	values  []graph.Value          // by node: the shards of fields
	fetched map[string]graph.Value // gathered values, by source and boxes: each is gathered once
	tags    int                    // number of message tags used so far, equal on all ranks
}

// cutFields decides the split of every axis size: first of the first input, then of
// the fields that windows derive from it.
func (s *sharding) cutFields() error {
	first := slices.IndexFunc(s.g.Nodes, func(n *graph.Node) bool { return n.Kind == graph.KindInput && len(n.Shape) == 5 })
	if first < 0 {
		return fmt.Errorf("the network has no input field [N C D H W] to split over the mesh %v", s.mesh)
	}
	for _, a := range s.mesh {
		axis, n := a.FieldAxis(), s.g.Nodes[first].Shape
		if axis < 0 || a.Size < 1 {
			return fmt.Errorf("mesh %v: invalid axis %q of %d ranks; valid names are data, channel, level, lat and lon", s.mesh, a.Name, a.Size)
		}
		if axis == channels || axis == 0 && n[0] < a.Size { // a short batch: all ranks along "data" compute the same samples
			continue
		}
		if a.Size > n[axis] {
			return fmt.Errorf("mesh %v: %d ranks along %q, but the field %v has size %d", s.mesh, a.Size, a.Name, n, n[axis])
		}
		if a.Size > 1 {
			s.cuts[axisSize{axis, n[axis]}] = graph.AxisPartition{MeshAxis: a.Name, Starts: ShardStarts(n[axis], a.Size, s.commonUnit(axis, n[axis]))}
		}
	}
	for _, n := range s.g.Nodes {
		if n.Kind == graph.KindOp {
			s.propagate(n)
		}
	}
	return nil
}

// commonUnit returns the largest factor by which any field of the graph is smaller
// than n along an axis. Splits at multiples of it map to whole indices in all these
// fields.
func (s *sharding) commonUnit(axis, n int) int {
	unit := 1
	for _, nd := range s.g.Nodes {
		if nd.Kind != graph.KindOp || len(nd.Shape) != 5 {
			continue
		}
		// Against > 0 marks gradients of filters, which are not fields.
		w := nd.Op.Window(s.g.InShapes(nd), nd.Attrs)
		if axis == 0 && w.Samples > 0 && n%w.Samples == 0 {
			unit = max(unit, n/w.Samples)
		}
		if len(w.Axes) == 5 && w.CorrelateWith == 0 && n%nd.Shape[axis] == 0 {
			unit = max(unit, n/nd.Shape[axis])
		}
	}
	return unit
}

// ShardStarts returns the first index of each of p shards of n indices. Sizes are
// multiples of unit, as equal as possible, larger shards first. If there are fewer
// multiples than shards, unit 1 is used.
func ShardStarts(n, p, unit int) []int {
	if n/unit < p {
		unit = 1
	}
	units := n / unit
	starts := make([]int, p)
	for r := 1; r < p; r++ {
		starts[r] = starts[r-1] + units/p*unit
		if r <= units%p {
			starts[r] += unit
		}
	}
	return starts
}

// propagate propagates the split of an operand to the size of the result, through
// windows and reshapes.
func (s *sharding) propagate(n *graph.Node) {
	shapes := s.g.InShapes(n)
	if n.Op.Split == graph.SplitReshape {
		for i := range shapes[0] {
			if j, ok := sameAxis(shapes[0], n.Shape, i); ok && len(shapes[0]) == 5 && len(n.Shape) == 5 {
				s.propagateScaled(axisSize{i, shapes[0][i]}, axisSize{j, n.Shape[j]})
			}
		}
		return
	}
	w := n.Op.Window(shapes, n.Attrs)
	if w.Samples > 0 {
		s.propagateSets(n)
		return
	}
	if len(w.Axes) != 5 || w.Adjoint || w.CorrelateWith > 0 {
		return
	}
	for axis, a := range w.Axes {
		from, to := axisSize{axis, shapes[w.Operand][axis]}, axisSize{axis, n.Shape[axis]}
		if _, ok := s.cuts[to]; ok || s.cuts[from].MeshAxis == "" {
			continue
		}
		if cut, ok := OutputSplit(a, s.cuts[from], to.n); ok {
			s.cuts[to] = cut
		}
	}
}

// propagateScaled propagates a split to an axis whose size is a multiple or a
// fraction. It does nothing if a boundary would not be a whole index.
func (s *sharding) propagateScaled(from, to axisSize) {
	c, ok := s.cuts[from]
	if _, known := s.cuts[to]; !ok || known {
		return
	}
	starts := make([]int, len(c.Starts))
	for i, at := range c.Starts {
		if at*to.n%from.n != 0 {
			return
		}
		starts[i] = at * to.n / from.n
	}
	s.cuts[to] = graph.AxisPartition{MeshAxis: c.MeshAxis, Starts: starts}
}

// sameAxis finds the axis j of a reshape's result that continues axis i of the
// operand: the same number of elements precede it, and one size divides the other.
// Neighbours along i are then neighbours along j, or along j and the axes after it.
//
// Example: [6 5 4] → [3 2 5 4]: axis 0 of size 6 continues as axis 0 of size 3. A
// boundary of a split at index 2 becomes index 1; one at index 3 would not be
// whole, and the axis is gathered first.
func sameAxis(from, to graph.Shape, i int) (j int, ok bool) {
	before := from[:i].Size()
	for j := range to {
		if to[:j].Size() == before && to[j] > 1 {
			return j, to[j]%from[i] == 0 || from[i]%to[j] == 0
		}
	}
	return 0, false
}

// channels is the channel axis of fields [N C D H W].
const channels = 1

// fieldDist returns the distribution of a field of a shape within the network.
// Channels are split at multiples of graph.BlockSize. An axis that would leave a
// rank without elements stays whole.
func (s *sharding) fieldDist(shape graph.Shape) graph.Distribution {
	return s.distBy(shape, MeshAxis.SplitAxis)
}

// boundaryDist returns the distribution of a field that enters or leaves the
// network. Ranks have all channels; space and samples are split by the names of the
// mesh axes.
func (s *sharding) boundaryDist(shape graph.Shape) graph.Distribution {
	return s.distBy(shape, func(a MeshAxis, shape graph.Shape) (axis int, changed bool) {
		switch axis, changed = a.SplitAxis(shape); {
		case a.FieldAxis() == channels:
			return -1, false
		case axis != a.FieldAxis():
			return a.FieldAxis(), false
		}
		return axis, changed
	})
}

// distBy returns a distribution in which each mesh axis splits the axis that by
// returns.
func (s *sharding) distBy(shape graph.Shape, by func(MeshAxis, graph.Shape) (axis int, changed bool)) graph.Distribution {
	if len(shape) != 5 {
		return graph.Distribution{}
	}
	d := graph.Distribution{Axes: make([]graph.AxisPartition, len(shape))}
	for _, a := range s.mesh {
		axis, changed := by(a, shape)
		if axis < 0 || a.Size == 1 || d.Axes[axis].MeshAxis != "" {
			continue
		}
		switch natural := s.cuts[axisSize{axis, shape[axis]}]; {
		case natural.MeshAxis == a.Name && !changed:
			d.Axes[axis] = natural
		case axis == channels && shape[axis] >= a.Size*graph.BlockSize:
			d.Axes[axis] = graph.AxisPartition{MeshAxis: a.Name, Starts: ShardStarts(shape[axis], a.Size, graph.BlockSize)}
		case axis != channels && changed && shape[axis] >= a.Size:
			d.Axes[axis] = graph.AxisPartition{MeshAxis: a.Name, Starts: ShardStarts(shape[axis], a.Size, 1)}
		}
	}
	return d
}

// visit returns the value that a rank computes in place of node n: for an input its
// shard, for an operation the rewritten one. Values of parameters and states are
// then replicated, and outputs get the distribution of inputs of their size.
func (s *sharding) visit(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	switch n.Kind {
	case graph.KindInput:
		if len(n.Shape) != 5 {
			return graph.Value{}
		}
		s.isField[n.ID], s.dist[n.ID] = true, s.boundaryDist(n.Shape)
		s.values[n.ID] = b.Input(n.Name, s.owned(n.ID, s.rank).Shape())
		return s.values[n.ID]
	case graph.KindOp:
		v := s.rewrite(b, n, in)
		if v.Valid() && s.stored[n.ID] {
			if s.gradients[n.ID] {
				v = s.wholeGradient(b, n.ID, v)
			}
			v = s.replicate(b, n.ID, v)
			s.dist[n.ID] = graph.Distribution{}
		}
		if v.Valid() && s.isField[n.ID] && s.leaves[n.ID] {
			to := s.boundaryDist(n.Shape)
			v = s.fetch(b, n.ID, v, s.mesh.ownedBoxes(to, n.Shape), Boxes{})
			s.dist[n.ID] = to
		}
		s.values[n.ID] = v
		return v
	}
	return graph.Value{}
}

// owned returns the box of a node's value that a rank owns.
func (s *sharding) owned(id, rank int) Box {
	return s.mesh.Owned(s.dist[id], s.g.Nodes[id].Shape, rank)
}

// rewrite returns the value that a rank computes for an operation. The window and
// the traits of the operation select the rewrite; no operation is known by name.
func (s *sharding) rewrite(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	w := n.Op.Window(s.g.InShapes(n), n.Attrs)
	fields := slices.ContainsFunc(n.In, func(id int) bool { return s.isField[id] })
	if !fields && n.Op.Split != graph.SplitBroadcast {
		return graph.Value{}
	}
	s.isField[n.ID] = len(n.Shape) == 5 && w.CorrelateWith == 0
	if s.isField[n.ID] {
		s.dist[n.ID] = s.fieldDist(n.Shape)
	}
	if w.Unshared {
		s.wholeChannels(n.ID)
	}
	switch n.Op.Split {
	case graph.SplitAxis:
		return s.axisAttention(b, n, in)
	case graph.SplitReshape:
		return s.reshape(b, n, in)
	case graph.SplitRandom:
		return s.dropout(b, n, in)
	case graph.SplitMoments:
		return s.moments(b, n, in)
	case graph.SplitMomentsGrad:
		return s.momentsGrad(b, n, in)
	case graph.SplitPatches:
		return s.patches(b, n, in, w)
	}
	switch n.Op.Moves {
	case graph.MoveConcat:
		return s.concat(b, n, in)
	case graph.MoveSlice, graph.MovePad:
		return s.slice(b, n, in)
	}
	switch {
	case w.Samples > 0:
		return s.sets(b, n, in, w)
	case w.CorrelateWith > 0 && w.Unshared:
		return s.pointFilterGrad(b, n, in, w)
	case w.CorrelateWith > 0:
		return s.filterGrad(b, n, in, w)
	case len(w.Axes) > 0 && w.Adjoint:
		return s.adjoint(b, n, in, w)
	case len(w.Axes) > 0:
		return s.windowed(b, n, in, w)
	case len(w.FullAxes) > 0:
		return s.reduction(b, n, in, w)
	}
	return s.pointwise(b, n, in)
}

// cut returns the split of an axis of a node's value.
func (s *sharding) cut(id, axis int) graph.AxisPartition {
	if s.dist[id].Replicated() {
		return graph.AxisPartition{}
	}
	return s.dist[id].Axes[axis]
}

// local appends the operation with attributes adapted to the part l.
func (s *sharding) local(b *graph.Builder, n *graph.Node, l graph.Shard, in ...graph.Value) graph.Value {
	attrs := n.Attrs
	if n.Op.ShardAttrs != nil {
		attrs = n.Op.ShardAttrs(attrs, l)
	}
	return b.Node(n.Op, attrs, in...)
}

// ownedBoxes returns the boxes of a node's value that the ranks own.
func (s *sharding) ownedBoxes(id int) Boxes {
	return s.mesh.ownedBoxes(s.dist[id], s.g.Nodes[id].Shape)
}

// fetch returns the value with the box need of node id, of which v is the
// rank's shard. The box room, unless it is zero, contains need and is zero
// elsewhere. A rank that already has its box returns v, but only if all ranks have
// theirs: a gather is a collective. If the value is replicated, a crop is enough.
// Equal requests share one gather.
func (s *sharding) fetch(b *graph.Builder, id int, v graph.Value, need, room Boxes) graph.Value {
	p := Redistribution{Mesh: s.mesh, Shape: s.g.Nodes[id].Shape, From: s.dist[id], Need: need, Room: room}
	own := s.ownedBoxes(id)
	if p.Need = need.withOwned(own, p.rooms()); own.span(p.Need) && own.span(p.rooms()) {
		return v
	}
	key := string(p.rooms().appendKey(p.Need.appendKey(strconv.AppendInt(nil, int64(v.ID()), 10))))
	if _, ok := s.fetched[key]; !ok {
		if joined := s.fetchParts(b, id, need, room); joined.Valid() {
			s.fetched[key] = joined
			return joined
		}
		if s.dist[id].Replicated() && p.Need.span(p.rooms()) && p.Need.within(p.Shape) { // on all ranks alike
			s.fetched[key] = b.Node(crop, cropAttrs{p.Need.Of(s.rank), p.Shape}, v)
		} else {
			s.fetched[key] = b.Node(gather, gatherAttrs{Redistribution: p, Rank: s.rank, Tag: s.tags}, v)
			s.tags++
		}
	}
	return s.fetched[key]
}

// fetchParts fetches the operands of a channel concatenation one by one and
// concatenates the results. Operations that read concatenations in parts then need
// no copy of the whole. It returns an invalid value for other nodes.
func (s *sharding) fetchParts(b *graph.Builder, id int, need, room Boxes) graph.Value {
	n := s.g.Nodes[id]
	if !op.IsChannelConcat(n) || len(n.Shape) != 5 {
		return graph.Value{}
	}
	parts := make([]graph.Value, len(n.In))
	for i, part := range n.In {
		if !s.values[part].Valid() {
			return graph.Value{}
		}
		of := func(boxes Boxes) Boxes {
			if boxes.IsZero() {
				return boxes
			}
			return boxes.with(channels, s.g.Nodes[part].Shape[channels])
		}
		parts[i] = s.fetch(b, part, s.values[part], of(need), of(room))
	}
	return b.Node(n.Op, n.Attrs, parts...)
}

// replicate replicates a value: every rank gets all of it.
func (s *sharding) replicate(b *graph.Builder, id int, v graph.Value) graph.Value {
	return s.fetch(b, id, v, s.mesh.ownedBoxes(graph.Distribution{}, s.g.Nodes[id].Shape), Boxes{})
}

// fetchLike fetches the part of an operand that corresponds to the rank's shard of
// node to. Axes of size 1 are broadcast. Values that are not fields are replicated.
func (s *sharding) fetchLike(b *graph.Builder, id int, v graph.Value, to int) graph.Value {
	shape, target := s.g.Nodes[id].Shape, s.g.Nodes[to].Shape
	if len(shape) != 5 || len(target) != 5 {
		return s.replicate(b, id, v)
	}
	need := s.ownedBoxes(to)
	for i := range shape {
		if shape[i] != target[i] {
			need = need.with(i, shape[i])
		}
	}
	return s.fetch(b, id, v, need, Boxes{})
}

// pointwise computes a shard of the result from the same shard of all operands.
func (s *sharding) pointwise(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	for i, id := range n.In {
		in[i] = s.fetchAligned(b, id, in[i], n.ID)
	}
	return s.local(b, n, graph.Shard{Shape: s.owned(n.ID, s.rank).Shape()}, in...)
}

// reduction computes the reduction of the rank's shard and sums it over the ranks
// that split a reduced axis. All operands take the distribution of the first.
// Reductions other than sums, such as maxima, have no collective and are computed
// on every rank from the whole operand.
func (s *sharding) reduction(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	field := n.In[w.Operand]
	var over []string
	for _, axis := range w.FullAxes {
		if c := s.cut(field, axis); c.MeshAxis != "" {
			over = append(over, c.MeshAxis)
		}
	}
	if len(over) > 0 && !w.Additive {
		return s.replicated(b, n, in)
	}
	if s.isField[n.ID] {
		for axis := range n.Shape {
			s.dist[n.ID].Axes[axis] = graph.AxisPartition{}
			if !slices.Contains(w.FullAxes, axis) {
				s.dist[n.ID].Axes[axis] = s.cut(field, axis)
			}
		}
	}
	for i, id := range n.In {
		in[i] = s.fetchAligned(b, id, in[i], field)
	}
	part := b.Node(n.Op, n.Attrs, in...)
	if !s.isField[n.ID] && !slices.Contains(w.FullAxes, channels) {
		return s.sumChannels(b, part, len(n.Shape)-1, field, over)
	}
	return s.sum(b, part, over)
}

// fetchAligned fetches the part of a value that belongs to the rank's shard of the
// field to: a shard of a field, or the rank's channels of a value per channel [C]
// or [2 C].
func (s *sharding) fetchAligned(b *graph.Builder, id int, v graph.Value, to int) graph.Value {
	shape := s.g.Nodes[id].Shape
	if axis := len(shape) - 1; s.isField[to] && (axis == 0 || axis == 1) {
		return s.sliceChannels(b, v, axis, to)
	}
	return s.fetchLike(b, id, v, to)
}

// sliceChannels crops a replicated value to the rank's channels of a field. axis is
// the channel axis of the value.
func (s *sharding) sliceChannels(b *graph.Builder, v graph.Value, axis, field int) graph.Value {
	if s.cut(field, channels).MeshAxis == "" {
		return v
	}
	box := make(Box, len(v.Shape()))
	for i, n := range v.Shape() {
		box[i] = Interval{0, n}
	}
	box[axis] = s.owned(field, s.rank)[channels]
	return b.Node(crop, cropAttrs{box, v.Shape()}, v)
}

// sumChannels sums a value over the ranks along mesh axes. If the field's channels
// are split, each rank has only its own channels along axis; padding with zeros and
// summing over the channel ranks too yields the whole value on all ranks.
func (s *sharding) sumChannels(b *graph.Builder, part graph.Value, axis, field int, over []string) graph.Value {
	c := s.cut(field, channels)
	if c.MeshAxis == "" {
		return s.sum(b, part, over)
	}
	own := s.owned(field, s.rank)[channels]
	n := s.g.Nodes[field].Shape[channels]
	return s.sum(b, op.PadZeros(b, part, axis, own.Lo, n-own.Hi), append(over, c.MeshAxis))
}

// sum sums a value over the ranks along mesh axes.
func (s *sharding) sum(b *graph.Builder, v graph.Value, over []string) graph.Value {
	if len(over) == 0 {
		return v
	}
	sum := b.Node(sumRanks, meshAxes{s.mesh.sorted(over)}, v)
	s.partial[sum.ID()] = partialSum{v, over}
	return sum
}

// partialSum is a value of each rank that is summed over the ranks along mesh axes.
type partialSum struct {
	part graph.Value
	over []string
}

// replicated computes the whole result on every rank from replicated operands.
func (s *sharding) replicated(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	s.dist[n.ID] = graph.Distribution{}
	for i, id := range n.In {
		in[i] = s.replicate(b, id, in[i])
	}
	return b.Node(n.Op, n.Attrs, in...)
}

// dropout draws the mask of the whole field and crops it, so that the random
// numbers do not depend on the distribution. The mask is the dropout of a field of
// ones.
//
// Cost: memory of the whole field for the mask.
func (s *sharding) dropout(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	if !s.isField[n.ID] || s.dist[n.ID].Replicated() {
		return s.pointwise(b, n, in)
	}
	ones := make(graph.Shape, len(n.Shape))
	for i := range ones {
		ones[i] = 1
	}
	all := b.Node(n.Op, n.Attrs, op.BroadcastTo(b, b.Const("", ones, []float32{1}), n.Shape))
	return op.Mul(b, s.fetchLike(b, n.In[0], in[0], n.ID), b.Node(crop, cropAttrs{s.owned(n.ID, s.rank), n.Shape}, all))
}
