package spatial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Exchange redistributes a value over the ranks of a group, repeatedly and always
// in the same way. An operation calls Start, Exchange.CopyLocal and Finish once per
// run.
//
// A message contains the elements of one box in row-major order of the sender's
// shard, without padding. Sender and receiver enumerate the same boxes, so messages
// need no header. There is one message per pair of ranks and box; all have the same
// tag and arrive in order.
//
// Memory: message buffers come from a pool that all exchanges of a plan share. The
// first run fills it.
type Exchange struct {
	c               *comm.Comm
	tag             int
	unit            int // bytes per element
	sends, receives []peerMessage
	localCopies     []localCopy // elements that this rank owns already
	zeroRuns        []run       // padding around the required box
	requests        []comm.Request
	buffers         *buffers
	active          bool // between Start and Finish
}

// buffers is a pool of message buffers that the exchanges of a plan share.
type buffers struct{ free [][]byte }

// get returns a buffer of n bytes: the smallest free one that is large enough, else
// a new one.
func (b *buffers) get(n int) []byte {
	best := -1
	for i, x := range b.free {
		if cap(x) >= n && (best < 0 || cap(x) < cap(b.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]byte, n)
	}
	x := b.free[best]
	b.free = slices.Delete(b.free, best, best+1)
	return x[:n]
}

// put returns a buffer to the pool.
func (b *buffers) put(x []byte) { b.free = append(b.free, x) }

// peerMessage is the message to or from one rank: its runs in the value, its size
// in bytes and its buffer. A received message may have several places in the value,
// each with runs of its own.
type peerMessage struct {
	rank   int
	places [][]run
	bytes  int
	buffer []byte
}

// subarray is a box within a row-major array of the given shape.
type subarray struct {
	box   Box
	shape []int
}

// run is a range of n consecutive elements that starts at index at.
type run struct{ at, n int }

// localCopy is a run of n elements copied within the rank.
type localCopy struct{ from, to, n int }

// NewExchange prepares the redistribution p over the ranks of c, which are those of
// the mesh. All ranks prepare the same redistribution. Exchanges that are in
// progress at the same time need different tags.
//
// Unit: unit is the size of an element in bytes.
// Errors: those of Redistribution.Moves; a mesh and a group of different size.
func NewExchange(c *comm.Comm, tag int, p Redistribution, unit int) (*Exchange, error) {
	e := &Exchange{c: c, tag: tag, unit: unit, buffers: &buffers{}}
	if err := e.prepare(p, subarray.contiguousFrom, func(i int) (int, bool) { return i, true }); err != nil {
		return nil, err
	}
	room, need := p.room(c.Rank()), p.Need.Of(c.Rank())
	e.zeroRuns = outsideRuns(relativeTo(room, need))
	for _, hole := range holeBoxes(need, p.Need.holes(c.Rank())) {
		at := relativeTo(room, hole)
		e.zeroRuns = append(e.zeroRuns, at.runs(at.contiguousFrom())...)
	}
	return e, nil
}

// NewHaloExchange prepares an exchange of the halo alone, which arrives in an
// op.Halo buffer that does not contain the rank's own shard. The messages equal
// those of NewExchange, so some ranks may gather the halo alone and others shard
// and halo together.
//
// Errors: those of NewExchange; a box that is not a field [N C D H W] around the
// own shard.
func NewHaloExchange(c *comm.Comm, tag int, p Redistribution, unit int) (*Exchange, error) {
	own := p.Mesh.Owned(p.From, p.Shape, c.Rank())
	f, ok := p.haloFrame(c.Rank())
	if !ok {
		return nil, fmt.Errorf("box %v is not a halo around the shard %v", p.room(c.Rank()), own)
	}
	s := own.Shape()
	all, frame := f.PaddedShape(s), f.Shape(s)
	e := &Exchange{c: c, tag: tag, unit: unit, buffers: &buffers{}, zeroRuns: []run{{n: frame.Size()}}}
	rows := func(subarray) int { return len(s) - 1 }
	return e, e.prepare(p, rows, func(i int) (int, bool) {
		cell, apart := f.Locate(s[3], s[4], i/all[4]%all[3], i%all[4])
		return i/(all[3]*all[4])*frame[3] + cell, apart
	})
}

// haloFrame returns the width of the halo around the shard of a rank. ok is false
// if the box that the rank receives is more than shard and halo.
func (p Redistribution) haloFrame(rank int) (f op.Halo, ok bool) {
	own, room, need := p.Mesh.Owned(p.From, p.Shape, rank), p.room(rank), p.Need.Of(rank)
	if len(own) != 5 || !slices.Equal(own[:3], room[:3]) || !slices.Equal(need[:3], room[:3]) {
		return f, false
	}
	for i := 3; i < 5; i++ {
		if own[i].Len() == 0 || need[i].Intersect(own[i]) != own[i] {
			return f, false
		}
	}
	return op.Halo{North: own[3].Lo - room[3].Lo, South: room[3].Hi - own[3].Hi, West: own[4].Lo - room[4].Lo, East: room[4].Hi - own[4].Hi}, true
}

// prepare lists the copies and messages of this rank. dense returns the first axis
// from which a received box is contiguous in the destination. place maps an index
// of the destination box to an index of the result; ok is false for elements that
// the result does not contain.
func (e *Exchange) prepare(p Redistribution, dense func(subarray) int, place func(i int) (at int, ok bool)) error {
	if p.Mesh.Size() != e.c.Size() || p.Need.mesh.Size() != e.c.Size() {
		return fmt.Errorf("mesh of %d ranks and boxes of %d for a group of %d ranks", p.Mesh.Size(), p.Need.mesh.Size(), e.c.Size())
	}
	me := e.c.Rank()
	moves, err := p.MovesOf(me)
	if err != nil {
		return err
	}
	own, room := p.Mesh.Owned(p.From, p.Shape, me), p.room(me)
	for _, v := range moves {
		m := peerMessage{bytes: e.unit * v.At.Size()}
		if v.To != me {
			at := relativeTo(own, v.At)
			m.rank, m.places = v.To, [][]run{at.runs(at.contiguousFrom())}
			e.sends = append(e.sends, m)
			continue
		}
		for _, b := range v.places() {
			into := relativeTo(room, b)
			if v.From == me {
				e.copyWithin(relativeTo(own, v.At), into, dense, place)
			} else {
				m.places = append(m.places, placeRuns(into.runs(dense(into)), place))
			}
		}
		if v.From != me {
			m.rank = v.From
			e.receives = append(e.receives, m)
		}
	}
	return nil
}

// copyWithin lists the copies from the box at of the own shard to the box into of the destination.
func (e *Exchange) copyWithin(at, into subarray, dense func(subarray) int, place func(i int) (at int, ok bool)) {
	from := max(at.contiguousFrom(), dense(into))
	source := at.runs(from)
	for i, r := range into.runs(from) {
		if to, ok := place(r.at); ok {
			e.localCopies = append(e.localCopies, localCopy{from: source[i].at, to: to, n: r.n})
		}
	}
}

// holeBoxes returns the parts of a box that are in a hole along some axis. They may overlap.
func holeBoxes(b Box, holes [][]Interval) (out []Box) {
	for axis, along := range holes {
		for _, h := range along {
			part := slices.Clone(b)
			part[axis] = h
			out = append(out, part)
		}
	}
	return out
}

// placeRuns maps the first index of each run by place, in place.
func placeRuns(runs []run, place func(i int) (at int, ok bool)) []run {
	for i, r := range runs {
		runs[i].at, _ = place(r.at)
	}
	return runs
}

// relativeTo returns a box in coordinates relative to the part that contains it.
func relativeTo(part, box Box) subarray {
	c := subarray{box: make(Box, len(box)), shape: make([]int, len(part))}
	for i, v := range box {
		c.box[i], c.shape[i] = Interval{v.Lo - part[i].Lo, v.Hi - part[i].Lo}, part[i].Len()
	}
	return c
}

// Start posts all receives, packs the shard x into messages and sends them. It does
// not wait. Receives are posted first, so that arriving messages need no buffers of
// the transport.
func (e *Exchange) Start(x []byte) {
	if e.active {
		panic("spatial: an exchange is started twice")
	}
	e.active = true
	e.requests = e.requests[:0]
	for i := range e.receives {
		t := &e.receives[i]
		t.buffer = e.buffers.get(t.bytes)
		e.requests = append(e.requests, e.c.Recv(t.rank, e.tag, t.buffer))
	}
	for i := range e.sends {
		t := &e.sends[i]
		t.buffer = e.buffers.get(t.bytes)
		at := 0
		for _, r := range t.places[0] {
			at += copy(t.buffer[at:], x[r.at*e.unit:(r.at+r.n)*e.unit])
		}
		e.requests = append(e.requests, e.c.Send(t.rank, e.tag, t.buffer))
	}
}

// CopyLocal copies the elements that the rank owns itself from x to y and clears
// the padding of y. x and y must not overlap.
func (e *Exchange) CopyLocal(y, x []byte) {
	for _, r := range e.zeroRuns {
		clear(y[r.at*e.unit : (r.at+r.n)*e.unit])
	}
	for _, r := range e.localCopies {
		copy(y[r.to*e.unit:(r.to+r.n)*e.unit], x[r.from*e.unit:])
	}
}

// Finish waits for the messages and unpacks the received elements into y.
//
// Errors: failures of other ranks.
func (e *Exchange) Finish(y []byte) error {
	e.active = false
	if err := comm.WaitAll(e.requests...); err != nil {
		return fmt.Errorf("exchanging shards: %w", err)
	}
	for i := range e.receives {
		t := &e.receives[i]
		for _, runs := range t.places {
			at := 0
			for _, r := range runs {
				at += copy(y[r.at*e.unit:(r.at+r.n)*e.unit], t.buffer[at:])
			}
		}
		e.buffers.put(t.buffer)
	}
	for i := range e.sends {
		e.buffers.put(e.sends[i].buffer)
	}
	return nil
}

// contiguousFrom returns the first axis from which the box is contiguous in memory:
// it spans all later axes.
func (c subarray) contiguousFrom() int {
	k := len(c.shape) - 1
	for k > 0 && c.box[k] == (Interval{0, c.shape[k]}) {
		k--
	}
	return max(k, 0)
}

// eachRun calls f with the first index and the length of every contiguous run of
// the box, in row-major order. Axes from and later form one run, of length Π
// len(axis ≥ from). The axes before from are enumerated like the digits of an
// odometer.
func (c subarray) eachRun(from int, f func(i, n int)) {
	if len(c.shape) == 0 {
		f(0, 1)
		return
	}
	inner, n := 1, 1
	for k := from; k < len(c.shape); k++ {
		n *= c.box[k].Len()
		if k > from {
			inner *= c.shape[k]
		}
	}
	if n == 0 {
		return
	}
	at := make([]int, from)
	for i := range at {
		if at[i] = c.box[i].Lo; c.box[i].Len() == 0 {
			return
		}
	}
	for {
		i := 0
		for k := range at {
			i = i*c.shape[k] + at[k]
		}
		f((i*c.shape[from]+c.box[from].Lo)*inner, n)
		k := from - 1
		for ; k >= 0; k-- {
			if at[k]++; at[k] < c.box[k].Hi {
				break
			}
			at[k] = c.box[k].Lo
		}
		if k < 0 {
			return
		}
	}
}

// runs returns the runs that rows visits.
func (c subarray) runs(from int) (out []run) {
	c.eachRun(from, func(i, n int) { out = append(out, run{i, n}) })
	return out
}

// outsideRuns returns the runs of the array outside the box, in ascending order.
func outsideRuns(c subarray) []run {
	var out []run
	end := 0
	add := func(lo, hi int) {
		if lo < hi {
			out = append(out, run{lo, hi - lo})
		}
	}
	c.eachRun(c.contiguousFrom(), func(i, n int) {
		add(end, i)
		end = i + n
	})
	add(end, graph.Shape(c.shape).Size())
	return out
}

// BytesSent returns the bytes that this rank sends in one exchange.
func (e *Exchange) BytesSent() int64 {
	var n int64
	for _, t := range e.sends {
		n += int64(t.bytes)
	}
	return n
}
