package spatial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Exchange carries parts of a value between ranks, the same ones again and again. Its
// memory is allocated in the first.
type Exchange struct {
	c               *comm.Comm
	tag             int
	unit            int // bytes of an element
	sends, receives []peerMessage
	localCopies     []localCopy // what a rank has already
	zeroRuns        []run       // room around what it needs
	requests        []comm.Request
	buffers         *buffers
	active          bool
}

// buffers is memory for messages, which exchanges take in turn.
type buffers struct{ free [][]byte }

// get gives room for n bytes: the least that is free and large enough.
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

// put takes room back.
func (b *buffers) put(x []byte) { b.free = append(b.free, x) }

// peerMessage is what goes to a rank or comes from it, run by run, its bytes, and the buffer
// it travels in.
type peerMessage struct {
	rank   int
	runs   []run
	bytes  int
	buffer []byte
}

// subarray is a box within an array of a shape.
type subarray struct {
	box   Box
	shape []int
}

// run is consecutive elements.
type run struct{ at, n int }

// localCopy is a run that stays on the rank, where it lies before and after.
type localCopy struct{ from, to, n int }

// NewExchange prepares to give every rank of a group, which are those of the mesh, its
// part of a value with elements of so many bytes. All ranks prepare the same. Messages
// of different exchanges that are under way together need different tags.
//
// Errors: as for Moves; a mesh of another size than c.
func NewExchange(c *comm.Comm, tag int, p Redistribution, unit int) (*Exchange, error) {
	e := &Exchange{c: c, tag: tag, unit: unit, buffers: &buffers{}}
	if err := e.prepare(p, subarray.contiguousFrom, func(i int) (int, bool) { return i, true }); err != nil {
		return nil, err
	}
	e.zeroRuns = outsideRuns(relativeTo(p.room(c.Rank()), p.Need[c.Rank()]))
	return e, nil
}

// NewHaloExchange prepares the same for what lies around a rank's own part, which
// arrives in a frame (op.Halo). Ranks send each other what they send for the whole, so
// that some may want a frame and others the whole.
//
// Errors: as for NewExchange; parts that are no fields [N C D H W] with their own in the
// middle.
func NewHaloExchange(c *comm.Comm, tag int, p Redistribution, unit int) (*Exchange, error) {
	own := p.Mesh.Owned(p.From, p.Shape, c.Rank())
	f, ok := p.haloFrame(c.Rank())
	if !ok {
		return nil, fmt.Errorf("%v around %v is no frame", p.room(c.Rank()), own)
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

// haloFrame is how much room a rank has around its own part; ok is false where that is not
// all that it gets.
func (p Redistribution) haloFrame(rank int) (f op.Halo, ok bool) {
	own, room := p.Mesh.Owned(p.From, p.Shape, rank), p.room(rank)
	if len(own) != 5 || !slices.Equal(own[:3], room[:3]) || !slices.Equal(p.Need[rank][:3], room[:3]) {
		return f, false
	}
	for i := 3; i < 5; i++ {
		if own[i].Len() == 0 || p.Need[rank][i].Intersect(own[i]) != own[i] {
			return f, false
		}
	}
	return op.Halo{North: own[3].Lo - room[3].Lo, South: room[3].Hi - own[3].Hi, West: own[4].Lo - room[4].Lo, East: room[4].Hi - own[4].Hi}, true
}

// prepare lists what is copied and sent. Where a box arrives, axes from the one that
// dense names on lie together, and place tells where an element of the room goes, if
// anywhere.
func (e *Exchange) prepare(p Redistribution, dense func(subarray) int, place func(i int) (at int, ok bool)) error {
	if p.Mesh.Size() != e.c.Size() || len(p.Need) != e.c.Size() {
		return fmt.Errorf("a mesh of %d ranks and %d parts for a group of %d", p.Mesh.Size(), len(p.Need), e.c.Size())
	}
	moves, err := p.Moves()
	if err != nil {
		return err
	}
	me := e.c.Rank()
	own, room := p.Mesh.Owned(p.From, p.Shape, me), p.room(me)
	for _, v := range moves {
		at, into := relativeTo(own, v.At), relativeTo(room, v.Into)
		switch from := max(at.contiguousFrom(), dense(into)); {
		case v.From != me && v.To != me:
		case v.To != me:
			e.sends = append(e.sends, peerMessage{v.To, at.runs(at.contiguousFrom()), e.unit * v.At.Size(), nil})
		case v.From != me:
			e.receives = append(e.receives, peerMessage{v.From, placeRuns(into.runs(dense(into)), place), e.unit * v.At.Size(), nil})
		default:
			source := at.runs(from)
			for i, r := range into.runs(from) {
				if to, ok := place(r.at); ok {
					e.localCopies = append(e.localCopies, localCopy{from: source[i].at, to: to, n: r.n})
				}
			}
		}
	}
	return nil
}

// placeRuns are runs where place puts them.
func placeRuns(runs []run, place func(i int) (at int, ok bool)) []run {
	for i, r := range runs {
		runs[i].at, _ = place(r.at)
	}
	return runs
}

// relativeTo gives a box in the coordinates of the part that holds it.
func relativeTo(part, box Box) subarray {
	c := subarray{box: make(Box, len(box)), shape: make([]int, len(part))}
	for i, v := range box {
		c.box[i], c.shape[i] = Interval{v.Lo - part[i].Lo, v.Hi - part[i].Lo}, part[i].Len()
	}
	return c
}

// Start sends what others want of x, the part that the rank owns.
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
		for _, r := range t.runs {
			at += copy(t.buffer[at:], x[r.at*e.unit:(r.at+r.n)*e.unit])
		}
		e.requests = append(e.requests, e.c.Send(t.rank, e.tag, t.buffer))
	}
}

// CopyLocal puts what the rank has itself into y, which is not x, and zeros around what it
// needs.
func (e *Exchange) CopyLocal(y, x []byte) {
	for _, r := range e.zeroRuns {
		clear(y[r.at*e.unit : (r.at+r.n)*e.unit])
	}
	for _, r := range e.localCopies {
		copy(y[r.to*e.unit:(r.to+r.n)*e.unit], x[r.from*e.unit:])
	}
}

// Finish waits for what was started, and puts what comes from others into y.
//
// Errors: those of other ranks.
func (e *Exchange) Finish(y []byte) error {
	e.active = false
	if err := comm.WaitAll(e.requests...); err != nil {
		return fmt.Errorf("exchanging parts of a value: %w", err)
	}
	for i := range e.receives {
		t := &e.receives[i]
		at := 0
		for _, r := range t.runs {
			at += copy(y[r.at*e.unit:(r.at+r.n)*e.unit], t.buffer[at:])
		}
		e.buffers.put(t.buffer)
	}
	for i := range e.sends {
		e.buffers.put(e.sends[i].buffer)
	}
	return nil
}

// contiguousFrom is the first axis such that the box is whole on all axes behind it.
func (c subarray) contiguousFrom() int {
	k := len(c.shape) - 1
	for k > 0 && c.box[k] == (Interval{0, c.shape[k]}) {
		k--
	}
	return max(k, 0)
}

// eachRun calls f with start and length of every run of the box: axes from the given one
// on lie together.
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

// runs lists the runs of the box, as rows calls them.
func (c subarray) runs(from int) (out []run) {
	c.eachRun(from, func(i, n int) { out = append(out, run{i, n}) })
	return out
}

// outsideRuns lists the runs of the array outside of the box.
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

// BytesSent is the bytes that a rank sends in one exchange.
func (e *Exchange) BytesSent() int64 {
	var n int64
	for _, t := range e.sends {
		n += int64(t.bytes)
	}
	return n
}
