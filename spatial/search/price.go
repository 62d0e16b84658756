package search

import (
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

	compute, halo, hidden, shuffle, sums     cluster.Time // parts of the passes; hidden is no part
	haloBytes, shuffleBytes, sumBytes, grads int64        // that the busiest rank gets or sends
}

func (c cost) add(d cost) cost {
	return cost{c.forward + d.forward, c.backward + d.backward, c.reduce + d.reduce, c.memory + d.memory,
		c.compute + d.compute, c.halo + d.halo, c.hidden + d.hidden, c.shuffle + d.shuffle, c.sums + d.sums,
		c.haloBytes + d.haloBytes, c.shuffleBytes + d.shuffleBytes, c.sumBytes + d.sumBytes, c.grads + d.grads}
}

// pricer prices a network on a mesh.
type pricer struct {
	n       Network
	m       *Machine
	mesh    spatial.Mesh
	cuts    *cutter
	strides []int // of the axes of the mesh, in ranks
}

func newPricer(n Network, m *Machine, mesh spatial.Mesh, c *cutter) *pricer {
	p := &pricer{n: n, m: m, mesh: mesh, cuts: c, strides: make([]int, len(mesh))}
	stride := 1
	for k := len(mesh) - 1; k >= 0; k-- {
		p.strides[k] = stride
		stride *= mesh[k].Size
	}
	return p
}

// inside tells whether ranks that differ along an axis of the mesh share a node.
func (p *pricer) inside(k int) bool {
	if p.mesh.Size() <= p.m.perNode() {
		return true
	}
	span := p.strides[k] * p.mesh[k].Size
	return p.m.perNode()%span == 0
}

// over is the group of the axes of the mesh that cut a layout.
func (p *pricer) over(l layout) group {
	g := group{ranks: 1, stride: p.mesh.Size(), inside: true}
	for _, c := range l {
		if c.mesh != none {
			g.ranks *= p.mesh[c.mesh].Size
			g.stride = min(g.stride, p.strides[c.mesh])
			g.inside = g.inside && p.inside(c.mesh)
		}
	}
	return g
}

// share is the largest part of a field, of what is computed for it: where a window reaches
// beyond the ends of the levels, there is nothing to compute.
func share(l layout, s graph.Shape, e *Edge) float64 {
	part := 1.0
	for axis, c := range l {
		if c.mesh == none {
			continue
		}
		work := func(v spatial.Interval) int { return v.Len() }
		if e != nil && axis == levels {
			work = func(v spatial.Interval) int {
				n := 0
				for o := v.Lo; o < v.Hi; o++ {
					first := o*e.Window[axis].Stride - e.Window[axis].Pad
					for t := range e.Window[axis].Size {
						if i := first + t*e.Window[axis].Dilation; i >= 0 && i < e.Shape[axis] || e.Window[axis].Periodic {
							n++
						}
					}
				}
				return n
			}
		}
		most := 0
		for at := range c.places() {
			most = max(most, work(c.part(at, s[axis])))
		}
		part *= float64(most) / float64(work(spatial.Interval{Lo: 0, Hi: s[axis]}))
	}
	return part
}

// needs is what the parts of a layout need of a field: along each axis, by place.
type needs [fieldAxes][]spatial.Interval

// forwardNeeds is what parts of a result read of the operand of an edge.
func forwardNeeds(e Edge, out layout, shape graph.Shape, x layout) needs {
	var n needs
	for axis, size := range e.Shape {
		c := out[axis]
		if e.Window == nil {
			c = x[axis]
		}
		for at := range c.places() {
			whole := spatial.Interval{Lo: 0, Hi: size}
			switch {
			case c.mesh == none:
			case e.Window == nil:
				whole = c.part(at, size)
			default:
				whole = spatial.Needs(e.Window[axis], c.part(at, shape[axis]), size)
			}
			n[axis] = append(n[axis], whole)
		}
	}
	return n
}

// backwardNeeds is what the gradients of parts of the operand read of those of the result.
func backwardNeeds(e Edge, x layout, shape graph.Shape) needs {
	var n needs
	for axis, c := range x {
		for at := range c.places() {
			need := spatial.Interval{Lo: 0, Hi: shape[axis]}
			if c.mesh != none {
				need = spatial.NeedsAdjoint(e.Window[axis], c.part(at, e.Shape[axis]), shape[axis])
			}
			n[axis] = append(n[axis], need)
		}
	}
	return n
}

// along is what a place needs of an axis whose parts are held elsewhere: pieces and their
// length, in all and of the place's own.
type along struct{ pieces, length, ownPieces, ownLength float64 }

// transfer is the time until the rank that gets most has the parts of a field that it
// needs, and their bytes: places of needs are along the axes of the mesh of to.
func (p *pricer) transfer(s graph.Shape, from, to layout, n needs) (cluster.Time, int64) {
	// By the needs' place · places held + place held, or by place if the same axis of the
	// mesh cuts both.
	var what [fieldAxes][]along
	used := make([]bool, len(p.mesh))
	whole := true
	for axis, size := range s {
		held := from[axis]
		for place, need := range n[axis] {
			pieces := spatial.Sources(held.cut(), need, size)
			at, end := 0, held.places()
			if held.mesh != none && held.mesh == to[axis].mesh { // no rank stands elsewhere
				at, end = place, place+1
			}
			for ; at < end; at++ {
				var a along
				for _, piece := range pieces {
					a.pieces++
					a.length += float64(piece.At.Len())
					if held.mesh == none || piece.Rank == at {
						a.ownPieces++
						a.ownLength += float64(piece.At.Len())
					}
				}
				what[axis] = append(what[axis], a)
			}
		}
		for _, c := range []cutAt{held, to[axis]} {
			if c.mesh != none {
				used[c.mesh] = true
				whole = false
			}
		}
	}
	if whole {
		return 0, 0
	}
	var most, bytes float64
	at, index := make([]int, len(p.mesh)), make([]int, len(p.mesh))
	places := make([][]int, len(p.mesh))
	for k := range places {
		places[k] = []int{0}
		if used[k] {
			places[k] = p.unlike(k, from, to, &what)
		}
	}
	for {
		t, b := p.rankTransfer(from, to, &what, at)
		if t > most || t == most && b > bytes {
			most, bytes = t, b
		}
		k := len(at) - 1
		for ; k >= 0; k-- {
			if index[k]++; index[k] < len(places[k]) {
				at[k] = places[k][index[k]]
				break
			}
			index[k], at[k] = 0, 0
		}
		if k < 0 {
			return seconds(most), int64(bytes)
		}
	}
}

// unlike are the places along an axis of the mesh, of those that need and hold as much as
// another only the first. All are, if the axis cuts several axes of the field.
func (p *pricer) unlike(k int, from, to layout, what *[fieldAxes][]along) []int {
	only, all := none, make([]int, p.mesh[k].Size)
	for i := range all {
		all[i] = i
	}
	for axis := range from {
		if from[axis].mesh != k && to[axis].mesh != k {
			continue
		}
		if only != none || from[axis].mesh != to[axis].mesh {
			return all
		}
		only = axis
	}
	var places []int
	seen := map[along]bool{}
	for _, i := range all {
		if a := what[only][i]; !seen[a] {
			seen[a] = true
			places = append(places, i)
		}
	}
	return places
}

// rankTransfer is the time and the bytes of one rank, by its places along the axes of the
// mesh.
func (p *pricer) rankTransfer(from, to layout, what *[fieldAxes][]along, at []int) (t, bytes float64) {
	all, near, own := along{pieces: 1, length: 1}, along{pieces: 1, length: 1}, along{pieces: 1, length: 1}
	for axis := range what {
		i := 0
		if to[axis].mesh != none {
			i = at[to[axis].mesh]
		}
		inside := true
		if k := from[axis].mesh; k != none {
			if k != to[axis].mesh {
				i = i*from[axis].places() + at[k]
			}
			inside = p.inside(k)
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
	t = p.m.Inside.time(near.pieces-own.pieces, 4*(near.length-own.length), 1) +
		p.m.Between.time(all.pieces-near.pieces, 4*(all.length-near.length), float64(min(p.m.perNode(), p.mesh.Size())))
	return t, 4 * (all.length - own.length)
}

// interior is the least share of a rank's part of the result that reads nothing of others.
func interior(e Edge, out layout, shape graph.Shape, x layout) float64 {
	part := 1.0
	for axis, c := range out {
		if c.mesh == none || x[axis].mesh != c.mesh {
			continue
		}
		least := 1.0
		for at := range c.places() {
			own := c.part(at, shape[axis])
			in := spatial.Interior(e.Window[axis], own, x[axis].part(at, e.Shape[axis]), e.Shape[axis])
			least = min(least, float64(in.Len())/float64(own.Len()))
		}
		part *= least
	}
	return part
}

// layer prices a layer whose operands are there: all of it, or what does not wait for an
// operand that is read in windows.
func (p *pricer) layer(v int, to spread) cost {
	l := &p.n.Layers[v]
	out := p.cuts.layout(p.mesh, to, l.Out)
	part := share(out, l.Out, nil)
	c := cost{memory: int64(float64(l.Kept) * part)}
	if p.windowed(v) == none {
		c.forward = p.m.computing(l.Forward, part)
		c.backward = p.m.computing(l.Filter, part) + p.m.computing(l.Backward, part)
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
	for _, values := range l.BackSums {
		t, bytes := p.m.allReduce(g, values)
		add(t, bytes, &c.backward)
	}
	t, bytes := p.m.allReduce(g, l.Gradients)
	u, more := p.m.allGather(g, l.Gathered)
	c.reduce, c.grads = t+u, bytes+more
	return c
}

// windowed is the edge of a layer that is read in windows, none if there is none.
func (p *pricer) windowed(v int) int {
	for i, e := range p.n.Layers[v].From {
		if e.Window != nil {
			return i
		}
	}
	return none
}

// edge prices how an operand gets to a layer and its gradient back, with the computing of
// the layer if that reads it in windows. from is nil for an input, which is loaded as
// it is read.
func (p *pricer) edge(v, i int, from, to spread) cost {
	l := &p.n.Layers[v]
	e := l.From[i]
	out, x := p.cuts.layout(p.mesh, to, l.Out), p.cuts.layout(p.mesh, to, e.Shape)
	held := x
	if e.From != Input {
		held = p.cuts.layout(p.mesh, from, e.Shape)
	}
	var c cost
	need, reader := forwardNeeds(e, out, l.Out, x), out
	if e.Window == nil {
		reader = x
	}
	t, bytes := p.transfer(e.Shape, held, reader, need)
	back, backBytes := cluster.Time(0), int64(0)
	moved := !held.same(x)
	if moved {
		c.shuffle, c.shuffleBytes = t, bytes
		back, backBytes = p.transfer(e.Shape, x, held, forwardNeeds(Edge{Shape: e.Shape}, held, e.Shape, held))
		c.shuffle += back
		c.shuffleBytes += backBytes
	} else {
		c.haloBytes = bytes
	}
	if e.Window == nil {
		c.forward, c.backward = t, back
		return c
	}
	part := share(out, l.Out, &e)
	compute := p.m.computing(l.Forward, part)
	hide := cluster.Time(0)
	if p.m.HideHalos {
		hide = min(t, cluster.Time(float64(compute)*interior(e, out, l.Out, held)))
	}
	c.forward = compute + t - hide
	filter, other := p.m.computing(l.Filter, part), p.m.computing(l.Backward, part)
	var halo cluster.Time
	if e.From != Input { // the gradient of an input is not wanted
		halo, backBytes = p.transfer(l.Out, out, x, backwardNeeds(e, x, l.Out))
		c.haloBytes += backBytes
	}
	hideBack := cluster.Time(0)
	if p.m.HideHalos {
		hideBack = min(halo, filter)
	}
	c.backward = filter + other + halo - hideBack + back
	c.compute = compute + filter + other
	c.hidden = hide + hideBack
	c.halo = halo - hideBack
	if moved {
		c.shuffle -= hide
	} else {
		c.halo += t - hide
	}
	return c
}
