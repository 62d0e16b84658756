package search

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// cost is the cost of a part of a step.
type cost struct {
	forward, backward cluster.Time // exposed time of each pass
	reduce            cluster.Time // time in the queue of gradient sums
	memory            int64

	compute, halo, overlapped, shuffle, sums cluster.Time // breakdown of the passes; overlapped time is not part of them
	haloBytes, shuffleBytes, sumBytes, grads int64        // received or sent by the busiest rank
}

// add returns the sum of two costs.
func (c cost) add(d cost) cost {
	return cost{c.forward + d.forward, c.backward + d.backward, c.reduce + d.reduce, c.memory + d.memory,
		c.compute + d.compute, c.halo + d.halo, c.overlapped + d.overlapped, c.shuffle + d.shuffle, c.sums + d.sums,
		c.haloBytes + d.haloBytes, c.shuffleBytes + d.shuffleBytes, c.sumBytes + d.sumBytes, c.grads + d.grads}
}

// costModel evaluates the cost of a network on a mesh.
type costModel struct {
	n         Network
	m         *Machine
	mesh      spatial.Mesh // without overrides
	cuts      *splitter
	strides   []int  // by mesh axis: difference between neighbouring ranks
	intraNode []bool // by mesh axis: ranks that differ along it share a node
	fixed     int64  // memory; 0 until it is computed
}

// newCostModel returns the cost model of a network on a mesh.
func newCostModel(n Network, m *Machine, mesh spatial.Mesh, c *splitter) *costModel {
	p := &costModel{n: n, m: m, mesh: withoutOverrides(mesh), cuts: c, strides: make([]int, len(mesh)), intraNode: make([]bool, len(mesh))}
	stride := 1
	for k := len(mesh) - 1; k >= 0; k-- {
		p.strides[k] = stride
		stride *= mesh[k].Size
		p.intraNode[k] = mesh.Size() <= m.perNode() || m.perNode()%stride == 0
	}
	return p
}

// over returns the group of ranks along the mesh axes that split a layout.
func (p *costModel) over(l fieldLayout) group {
	g := group{ranks: 1, stride: p.mesh.Size(), intraNode: true}
	for _, c := range l {
		if c.mesh != noAxis {
			g.ranks *= p.mesh[c.mesh].Size
			g.stride = min(g.stride, p.strides[c.mesh])
			g.intraNode = g.intraNode && p.intraNode[c.mesh]
		}
	}
	return g
}

// share returns the largest shard's share of a field, or of the work for it: the
// product over the split axes of the largest part divided by the size. taps, if not
// nil, counts the operands that an index along the levels reads: windows beyond the
// ends of the levels have less work.
func share(l fieldLayout, s graph.Shape, taps func(at int) int) float64 {
	part := 1.0
	for axis, c := range l {
		if c.mesh == noAxis {
			continue
		}
		work := func(v spatial.Interval) int { return v.Len() }
		if taps != nil && axis == levels {
			work = func(v spatial.Interval) int {
				n := 0
				for at := v.Lo; at < v.Hi; at++ {
					n += taps(at)
				}
				return n
			}
		}
		most := 0
		for at := range c.parts() {
			most = max(most, work(c.part(at, s[axis])))
		}
		part *= float64(most) / float64(work(spatial.Interval{Lo: 0, Hi: s[axis]}))
	}
	return part
}

// reads returns a function that counts the operands along an axis that an output
// index reads.
func (e *Edge) reads(axis int) func(at int) int {
	a := e.Window[axis]
	return func(at int) int {
		n := 0
		for t := range a.Size {
			if i := at*a.Stride/max(a.UpFactor, 1) - a.Pad + t*a.Dilation; i >= 0 && i < e.Shape[axis] || a.Periodic {
				n++
			}
		}
		return n
	}
}

// readBy returns a function that counts the outputs along an axis, of the given
// number, that read an operand index.
func (e *Edge) readBy(axis, results int) func(at int) int {
	a := e.Window[axis]
	return func(at int) int {
		n := 0
		for o := range results {
			if a.Reads(o, at, e.Shape[axis]) {
				n++
			}
		}
		return n
	}
}

// neededIntervals holds the intervals of a field that each part of a layout
// requires, by axis and coordinate.
type neededIntervals [fieldAxes][]spatial.Interval

// readsWhole reports whether a layer reads all of its operand along an axis,
// however its result is split.
func (e *Edge) readsWhole(axis int, out graph.Shape) bool {
	if e.Window == nil {
		return e.Shape[axis] != out[axis]
	}
	return axis == channels && e.MixesChannels
}

// forwardNeeds returns the intervals of an edge's operand that the shards of a
// result read, and the layout in which they read it.
func forwardNeeds(e *Edge, out fieldLayout, shape graph.Shape) (n neededIntervals, reader fieldLayout) {
	reader = out
	for axis, size := range e.Shape {
		if e.readsWhole(axis, shape) {
			reader[axis] = axisSplit{mesh: noAxis}
		}
		for at := range reader[axis].parts() {
			need := reader[axis].part(at, size)
			if reader[axis].mesh != noAxis && e.Window != nil {
				need = spatial.InputRange(e.Window[axis], reader[axis].part(at, shape[axis]), size)
			}
			n[axis] = append(n[axis], need)
		}
	}
	return n, reader
}

// backwardNeeds returns the intervals of the result's gradient that the gradients
// of shards of the operand read, and the layout in which they read it.
func backwardNeeds(e *Edge, x fieldLayout, shape graph.Shape) (n neededIntervals, reader fieldLayout) {
	reader = x
	for axis, size := range shape {
		if e.readsWhole(axis, shape) {
			reader[axis] = axisSplit{mesh: noAxis}
		}
		for at := range reader[axis].parts() {
			need := reader[axis].part(at, size)
			if reader[axis].mesh != noAxis && e.Window != nil {
				need = spatial.AdjointRange(e.Window[axis], reader[axis].part(at, e.Shape[axis]), size)
			}
			n[axis] = append(n[axis], need)
		}
	}
	return n, reader
}

// axisPieces holds the requirements of one coordinate along an axis: the number of
// pieces and their length, in total and from the coordinate itself.
type axisPieces struct{ pieces, length, ownPieces, ownLength float64 }

// transfer is the cost of moving parts of a field: the time of the slowest rank,
// the bytes that it receives, and the bytes that it then holds.
type transfer struct {
	time                     cluster.Time
	receivedBytes, heldBytes int64
}

// transfer returns the cost of moving a field from one layout to the intervals n,
// whose coordinates are those of the layout to. What a rank receives is a box, so
// numbers of pieces and elements are products over the axes of the field.
//
// The time is that of the slowest rank. Ranks with equal requirements along every
// mesh axis are evaluated once (costModel.distinctPlaces); usually these are the
// first, the last and one inner coordinate of an axis.
//
// Cost: O(Π distinct coordinates per mesh axis · axes).
func (p *costModel) transfer(s graph.Shape, from, to fieldLayout, n neededIntervals) transfer {
	// Index: required coordinate · number of held parts + held coordinate, or the
	// coordinate alone if the same mesh axis splits both.
	var what [fieldAxes][]axisPieces
	used := make([]bool, len(p.mesh))
	whole := true
	for axis, size := range s {
		held := from[axis]
		for place, need := range n[axis] {
			pieces := spatial.Sources(held.cut(), need, size)
			at, end := 0, held.parts()
			if held.mesh != noAxis && held.mesh == to[axis].mesh { // the same mesh axis: both coordinates are equal
				at, end = place, place+1
			}
			for ; at < end; at++ {
				var a axisPieces
				for _, piece := range pieces {
					a.pieces++
					a.length += float64(piece.At.Len())
					if held.mesh == noAxis || piece.Rank == at {
						a.ownPieces++
						a.ownLength += float64(piece.At.Len())
					}
				}
				what[axis] = append(what[axis], a)
			}
		}
		for _, c := range []axisSplit{held, to[axis]} {
			if c.mesh != noAxis {
				used[c.mesh] = true
				whole = false
			}
		}
	}
	if whole {
		return transfer{heldBytes: 4 * int64(s.Size())}
	}
	var most, got, has float64
	at, index := make([]int, len(p.mesh)), make([]int, len(p.mesh))
	places := make([][]int, len(p.mesh))
	for k := range places {
		places[k] = []int{0}
		if used[k] {
			places[k] = p.distinctPlaces(k, from, to, &what)
		}
	}
	for {
		t, b, all := p.rankTransfer(from, to, &what, at)
		if t > most || t == most && b > got {
			most, got = t, b
		}
		has = max(has, all)
		k := len(at) - 1
		for ; k >= 0; k-- {
			if index[k]++; index[k] < len(places[k]) {
				at[k] = places[k][index[k]]
				break
			}
			index[k], at[k] = 0, 0
		}
		if k < 0 {
			return transfer{seconds(most), int64(got), int64(has)}
		}
	}
}

// distinctPlaces returns the coordinates along a mesh axis with different
// requirements or content, one of each kind. If the mesh axis splits several axes
// of the field, it returns all.
func (p *costModel) distinctPlaces(k int, from, to fieldLayout, what *[fieldAxes][]axisPieces) []int {
	only, all := noAxis, make([]int, p.mesh[k].Size)
	for i := range all {
		all[i] = i
	}
	for axis := range from {
		if from[axis].mesh != k && to[axis].mesh != k {
			continue
		}
		if only != noAxis || from[axis].mesh != to[axis].mesh {
			return all
		}
		only = axis
	}
	var places []int
	seen := map[axisPieces]bool{}
	for _, i := range all {
		if a := what[only][i]; !seen[a] {
			seen[a] = true
			places = append(places, i)
		}
	}
	return places
}

// rankTransfer returns the time of the rank at the given mesh coordinates, the
// bytes that it receives, and the bytes that it then holds. Three products over the
// axes are formed: all required pieces, those held on the same node, and the rank's
// own. Their differences travel between nodes and within the node, each over its
// own link.
func (p *costModel) rankTransfer(from, to fieldLayout, what *[fieldAxes][]axisPieces, at []int) (t, got, has float64) {
	all, near, own := axisPieces{pieces: 1, length: 1}, axisPieces{pieces: 1, length: 1}, axisPieces{pieces: 1, length: 1}
	for axis := range what {
		i := 0
		if to[axis].mesh != noAxis {
			i = at[to[axis].mesh]
		}
		inside := true
		if k := from[axis].mesh; k != noAxis {
			if k != to[axis].mesh {
				i = i*from[axis].parts() + at[k]
			}
			inside = p.intraNode[k]
		}
		a := &what[axis][i]
		all.pieces *= a.pieces
		all.length *= a.length
		own.pieces *= a.ownPieces
		own.length *= a.ownLength
		if inside {
			near.pieces *= a.pieces
			near.length *= a.length
		} else {
			near.pieces *= a.ownPieces
			near.length *= a.ownLength
		}
	}
	t = p.m.IntraNode.time(near.pieces-own.pieces, 4*(near.length-own.length), 1) +
		p.m.InterNode.time(all.pieces-near.pieces, 4*(all.length-near.length), float64(min(p.m.perNode(), p.mesh.Size())))
	return t, 4 * (all.length - own.length), 4 * all.length
}

// readsHaloApart reports whether a layer reads halos from a separate buffer, which
// convolutions of whole blocks of channels do.
func readsHaloApart(e *Edge, out graph.Shape) bool {
	return e.MixesChannels && min(e.Shape[channels], out[channels]) >= graph.BlockSize
}

// canOverlap reports whether a layer can compute while its operand is in transit:
// only latitudes and longitudes may be missing.
func canOverlap(e *Edge, held, reader fieldLayout, out graph.Shape) bool {
	for axis, c := range held {
		if c.mesh != noAxis && (c.mesh != reader[axis].mesh || axis <= levels && e.Window[axis].Size > 1) {
			return false
		}
	}
	return readsHaloApart(e, out)
}

// interior returns the smallest share of a rank's result that reads only the rank's
// own shard: the product over the axes of the smallest share along each.
func interior(e *Edge, reader fieldLayout, shape graph.Shape, x fieldLayout) float64 {
	part := 1.0
	for axis, c := range reader {
		if x[axis].mesh == noAxis {
			continue
		}
		least := 1.0
		for at := range c.parts() {
			own := c.part(at, shape[axis])
			in := spatial.InteriorOutputs(e.Window[axis], own, x[axis].part(at, e.Shape[axis]), e.Shape[axis])
			least = min(least, float64(in.Len())/float64(own.Len()))
		}
		part *= least
	}
	return part
}

// isShuffle reports whether an operand is read in another distribution than it is
// held in, which needs a shuffle instead of a halo exchange.
func isShuffle(held, reader fieldLayout) bool {
	for axis := range held {
		if held[axis].mesh != noAxis && held[axis].mesh != reader[axis].mesh {
			return true
		}
	}
	return false
}

// layerCost returns the cost of a layer without its operands. The computing of a
// layer that reads an operand in windows belongs to that edge. Sums of statistics
// are exposed, because the next operation needs their result.
func (p *costModel) layerCost(v int, to stageSplit) cost {
	l := &p.n.Layers[v]
	out := p.cuts.layout(p.mesh, to, l.result())
	part := share(out, l.Out, nil)
	c := cost{memory: int64(float64(l.SavedBytes) * part)}
	if p.windowedEdge(v) == noAxis {
		c.forward = p.m.computeTime(l.Forward, part, 1)
		c.backward = p.m.computeTime(l.Filter, part, 1) + p.m.computeTime(l.Backward, part, 1)
		c.compute = c.forward + c.backward
	}
	g := p.over(out)
	add := func(t cluster.Time, bytes int64, to *cluster.Time) {
		*to += t
		c.sums += t
		c.sumBytes += bytes
	}
	for _, values := range l.Sums {
		t, bytes := p.m.allReduce(g, values)
		add(t, bytes, &c.forward)
	}
	for _, values := range l.BackwardSums {
		t, bytes := p.m.allReduce(g, values)
		add(t, bytes, &c.backward)
	}
	t, bytes := p.m.allReduce(g, l.GradientValues)
	if p.optimiserShards() > 1 { // a sharded optimiser needs only the reduce-scatter
		t, bytes = t/2, bytes/2
	}
	u, more := p.m.allGather(g, l.GatheredValues)
	c.reduce, c.grads = t+u, bytes+more
	return c
}

// windowedEdge returns the edge of a layer that is read in windows; −1 for none.
func (p *costModel) windowedEdge(v int) int {
	return slices.IndexFunc(p.n.Layers[v].From, func(e Edge) bool { return e.Window != nil })
}

// filters returns the share of the filters that a shard of the result reads, which
// depends on its channels only.
func filters(l fieldLayout, s graph.Shape) float64 {
	only := fieldLayout{}
	for axis := range only {
		only[axis].mesh = noAxis
	}
	only[channels] = l[channels]
	return share(only, s, nil)
}

// workTime returns the computing times of a layer that reads an operand in windows,
// without the gradient of that operand.
func (p *costModel) workTime(l *Layer, e *Edge, out fieldLayout) (forward, filter, backward cluster.Time) {
	part := share(out, l.Out, e.reads(levels))
	return p.m.computeTime(l.Forward, part, filters(out, l.Out)), p.m.computeTime(l.Filter, part, 1), p.m.computeTime(l.Backward, part, 1)
}

// dataTime returns the computing time of the gradient of an operand that is read in
// windows.
func (p *costModel) dataTime(l *Layer, e *Edge, x fieldLayout) cluster.Time {
	if len(l.Data) == 0 {
		return 0
	}
	return p.m.computeTime(l.Data, share(x, e.Shape, e.readBy(levels, l.Out[levels])), filters(x, e.Shape))
}

// edgeCost returns the cost of moving an operand from one split to another and its
// gradient back. If the layer reads the operand in windows, its computing is
// included. The halo of the operand then overlaps with the interior of the result,
// and the halo of the gradient with the gradient of the filters.
func (p *costModel) edgeCost(v, i int, from, to stageSplit) cost {
	l := &p.n.Layers[v]
	e := &l.From[i]
	out, x := p.cuts.layout(p.mesh, to, l.result()), p.cuts.layout(p.mesh, from, e.operand())
	need, reader := forwardNeeds(e, out, l.Out)
	in := p.transfer(e.Shape, x, reader, need)
	back, backHeld, backReader := p.backwardTransfer(l, e, out, x, reader)
	c := cost{forward: in.time, backward: back.time}
	var hide, hideBack cluster.Time
	if e.Window != nil {
		compute, filter, other := p.workTime(l, e, out)
		other += p.dataTime(l, e, x)
		if p.m.OverlapHalos && canOverlap(e, x, reader, l.Out) {
			hide = min(in.time, cluster.Time(float64(compute)*interior(e, reader, l.Out, x)))
		}
		if p.m.OverlapHalos && canOverlap(e, out, backReader, l.Out) {
			hideBack = min(back.time, filter)
		}
		c.forward += compute - hide
		c.backward += filter + other - hideBack
		c.compute, c.overlapped = compute+filter+other, hide+hideBack
	}
	add := func(moved bool, waited cluster.Time, bytes int64) {
		if moved {
			c.shuffle += waited
			c.shuffleBytes += bytes
		} else {
			c.halo += waited
			c.haloBytes += bytes
		}
	}
	add(isShuffle(x, reader), in.time-hide, in.receivedBytes)
	add(isShuffle(backHeld, backReader), back.time-hideBack, back.receivedBytes)
	switch { // kept for the gradient of the filters
	case !e.MixesChannels:
	case isShuffle(x, reader):
		c.memory = in.heldBytes
	default:
		c.memory = in.receivedBytes
	}
	return c
}

// backwardTransfer returns the cost of moving the gradient of an operand with
// layout x, and the layouts in which it is held and read. reader is the layout in
// which the layer reads the operand.
func (p *costModel) backwardTransfer(l *Layer, e *Edge, out, x, reader fieldLayout) (t transfer, held, to fieldLayout) {
	var need neededIntervals
	switch {
	case e.From == Input: // inputs need no gradient
		return transfer{}, x, x
	case e.Window == nil:
		held = reader
		need, to = forwardNeeds(&Edge{Shape: e.Shape}, x, e.Shape)
		return p.transfer(e.Shape, held, to, need), held, to
	}
	need, to = backwardNeeds(e, x, l.Out)
	return p.transfer(l.Out, out, to, need), out, to
}
