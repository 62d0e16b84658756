package search

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// cost is what a part of a step takes: of computing and of messages that computing waits
// for, and what is hidden.
type cost struct {
	forward, backward cluster.Time // in the passes
	reduce            cluster.Time // in the queue of gradients
	memory            int64

	compute, halo, overlapped, shuffle, sums cluster.Time // parts of the passes; hidden is no part
	haloBytes, shuffleBytes, sumBytes, grads int64        // that the busiest rank gets or sends
}

func (c cost) add(d cost) cost {
	return cost{c.forward + d.forward, c.backward + d.backward, c.reduce + d.reduce, c.memory + d.memory,
		c.compute + d.compute, c.halo + d.halo, c.overlapped + d.overlapped, c.shuffle + d.shuffle, c.sums + d.sums,
		c.haloBytes + d.haloBytes, c.shuffleBytes + d.shuffleBytes, c.sumBytes + d.sumBytes, c.grads + d.grads}
}

// costModel prices a network on a mesh.
type costModel struct {
	n         Network
	m         *Machine
	mesh      spatial.Mesh // without changes
	cuts      *splitter
	strides   []int  // of the axes of the mesh, in ranks
	intraNode []bool // by axis of the mesh: ranks that differ along it share a node
	fixed     int64  // memory, once it is known
}

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

// over is the group of the axes of the mesh that cut a layout.
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

// share is the largest part of a field, of what is computed for it. taps, if not nil, counts
// along the levels what a place's work is: where a window reaches beyond their ends, there is
// nothing to compute.
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

// reads counts the operands along an axis that a result at a place reads.
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

// readBy counts the results along an axis, of so many, that read an operand at a place.
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

// neededIntervals is what the parts of a layout need of a field: along each axis, by place.
type neededIntervals [fieldAxes][]spatial.Interval

// readsWhole tells whether a layer reads the whole of its operand along an axis, however its
// result is cut.
func (e *Edge) readsWhole(axis int, out graph.Shape) bool {
	if e.Window == nil {
		return e.Shape[axis] != out[axis]
	}
	return axis == channels && e.MixesChannels
}

// forwardNeeds is what parts of a result read of the operand of an edge, and how these are
// laid out.
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

// backwardNeeds is what the gradients of parts of the operand read of those of the result,
// and how these are laid out.
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

// axisPieces is what a place needs of an axis whose parts are held elsewhere: pieces and their
// length, in all and of the place's own.
type axisPieces struct{ pieces, length, ownPieces, ownLength float64 }

// transfer is parts of a field on their way: the time until the rank that gets most has
// those that it needs, their bytes, and all that it then has.
type transfer struct {
	time                     cluster.Time
	receivedBytes, heldBytes int64
}

// transfer prices what parts need of a field: places of needs are along the axes of the mesh
// of to.
func (p *costModel) transfer(s graph.Shape, from, to fieldLayout, n neededIntervals) transfer {
	// By the needs' place · places held + place held, or by place if the same axis of the
	// mesh cuts both.
	var what [fieldAxes][]axisPieces
	used := make([]bool, len(p.mesh))
	whole := true
	for axis, size := range s {
		held := from[axis]
		for place, need := range n[axis] {
			pieces := spatial.Sources(held.cut(), need, size)
			at, end := 0, held.parts()
			if held.mesh != noAxis && held.mesh == to[axis].mesh { // no rank stands elsewhere
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

// distinctPlaces are the places along an axis of the mesh, of those that need and hold as much as
// another only the first. All are, if the axis cuts several axes of the field.
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

// rankTransfer is the time of one rank, by its places along the axes of the mesh, the bytes
// that it gets, and those that it then has.
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

// readsHaloApart tells whether a layer reads halos apart from the rank's own part: convolutions of
// whole blocks of channels do.
func readsHaloApart(e *Edge, out graph.Shape) bool {
	return e.MixesChannels && min(e.Shape[channels], out[channels]) >= graph.BlockSize
}

// canOverlap tells whether a layer computes while parts that are held so are on their way to it: if
// it needs their rows and columns only.
func canOverlap(e *Edge, held, reader fieldLayout, out graph.Shape) bool {
	for axis, c := range held {
		if c.mesh != noAxis && (c.mesh != reader[axis].mesh || axis <= levels && e.Window[axis].Size > 1) {
			return false
		}
	}
	return readsHaloApart(e, out)
}

// interior is the least share of a rank's part of the result that reads nothing of others.
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

// isShuffle tells whether parts that are read are cut along other axes than those that are held,
// so that more than a halo travels.
func isShuffle(held, reader fieldLayout) bool {
	for axis := range held {
		if held[axis].mesh != noAxis && held[axis].mesh != reader[axis].mesh {
			return true
		}
	}
	return false
}

// layerCost prices a layer whose operands are there: all of it, or what does not wait for an
// operand that is read in windows.
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
	if p.optimiserShards() > 1 { // each rank needs the sums of its share only
		t, bytes = t/2, bytes/2
	}
	u, more := p.m.allGather(g, l.GatheredValues)
	c.reduce, c.grads = t+u, bytes+more
	return c
}

// windowedEdge is the edge of a layer that is read in windows, none if there is none.
func (p *costModel) windowedEdge(v int) int {
	return slices.IndexFunc(p.n.Layers[v].From, func(e Edge) bool { return e.Window != nil })
}

// filters is the share of the filters that the part of a result reads: whole ones.
func filters(l fieldLayout, s graph.Shape) float64 {
	only := fieldLayout{}
	for axis := range only {
		only[axis].mesh = noAxis
	}
	only[channels] = l[channels]
	return share(only, s, nil)
}

// workTime is the computing of a layer that reads an operand in windows, but for the gradient of
// that operand.
func (p *costModel) workTime(l *Layer, e *Edge, out fieldLayout) (forward, filter, backward cluster.Time) {
	part := share(out, l.Out, e.reads(levels))
	return p.m.computeTime(l.Forward, part, filters(out, l.Out)), p.m.computeTime(l.Filter, part, 1), p.m.computeTime(l.Backward, part, 1)
}

// dataTime is the computing of the gradient of an operand that is read in windows.
func (p *costModel) dataTime(l *Layer, e *Edge, x fieldLayout) cluster.Time {
	if len(l.Data) == 0 {
		return 0
	}
	return p.m.computeTime(l.Data, share(x, e.Shape, e.readBy(levels, l.Out[levels])), filters(x, e.Shape))
}

// edgeCost prices how an operand of one spread gets to a layer of another and its gradient back,
// with the computing of the layer if that reads it in windows.
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
	switch { // what the gradient of a filter reads again
	case !e.MixesChannels:
	case isShuffle(x, reader):
		c.memory = in.heldBytes
	default:
		c.memory = in.receivedBytes
	}
	return c
}

// backwardTransfer prices the way of the gradient of an operand that is laid out like x, and tells how it
// is held and how it is read. reader is how the layer reads the operand.
func (p *costModel) backwardTransfer(l *Layer, e *Edge, out, x, reader fieldLayout) (t transfer, held, to fieldLayout) {
	var need neededIntervals
	switch {
	case e.From == Input: // its gradient is not wanted
		return transfer{}, x, x
	case e.Window == nil:
		held = reader
		need, to = forwardNeeds(&Edge{Shape: e.Shape}, x, e.Shape)
		return p.transfer(e.Shape, held, to, need), held, to
	}
	need, to = backwardNeeds(e, x, l.Out)
	return p.transfer(l.Out, out, to, need), out, to
}
