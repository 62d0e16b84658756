package spatial

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Exchange carries parts of a value between ranks, the same ones again and again: its
// buffers are made once.
type Exchange struct {
	c           *comm.Comm
	tag         int
	unit        int // bytes of an element
	sends, gets []transfer
	keep        []run // what a rank has already
	zero        []run // room around what it needs
	requests    []comm.Request
	moving      bool
}

// transfer is a box that goes to a rank or comes from it, in the coordinates of the
// local part, and the buffer it travels in.
type transfer struct {
	rank   int
	part   copied
	buffer []byte
}

// copied is a box within an array of a shape.
type copied struct {
	box   Box
	shape []int
}

// run is consecutive elements, where they lie before and after.
type run struct{ from, to, n int }

// NewExchange prepares to give every rank of a group, which are those of the mesh, its
// part of a value with elements of so many bytes. All ranks prepare the same. Messages
// of different exchanges that are under way together need different tags.
//
// Errors: as for Moves; a mesh of another size than c.
func NewExchange(c *comm.Comm, tag int, p Parts, unit int) (*Exchange, error) {
	if p.Mesh.Size() != c.Size() || len(p.Need) != c.Size() {
		return nil, fmt.Errorf("a mesh of %d ranks and %d parts for a group of %d", p.Mesh.Size(), len(p.Need), c.Size())
	}
	moves, err := p.Moves()
	if err != nil {
		return nil, err
	}
	own, room := p.Mesh.Owned(p.From, p.Shape, c.Rank()), p.room(c.Rank())
	e := &Exchange{c: c, tag: tag, unit: unit, zero: around(within(room, p.Need[c.Rank()]))}
	for _, v := range moves {
		at, into := within(own, v.At), within(room, v.Into)
		switch me := c.Rank(); {
		case v.From == me && v.To == me:
			from, k := max(at.dense(), into.dense()), len(e.keep)
			at.rows(from, func(i, n int) { e.keep = append(e.keep, run{from: i, n: n}) })
			into.rows(from, func(i, _ int) { e.keep[k].to = i; k++ })
		case v.From == me:
			e.sends = append(e.sends, transfer{v.To, at, make([]byte, unit*v.At.Size())})
		case v.To == me:
			e.gets = append(e.gets, transfer{v.From, into, make([]byte, unit*v.At.Size())})
		}
	}
	return e, nil
}

// within gives a box in the coordinates of the part that holds it.
func within(part, box Box) copied {
	c := copied{box: make(Box, len(box)), shape: make([]int, len(part))}
	for i, v := range box {
		c.box[i], c.shape[i] = Interval{v.Lo - part[i].Lo, v.Hi - part[i].Lo}, part[i].Len()
	}
	return c
}

// Start sends what others want of x, the part that the rank owns.
func (e *Exchange) Start(x []byte) {
	if e.moving {
		panic("spatial: an exchange is started twice")
	}
	e.moving = true
	e.requests = e.requests[:0]
	for i := range e.gets {
		t := &e.gets[i]
		e.requests = append(e.requests, e.c.Recv(t.rank, e.tag, t.buffer))
	}
	for i := range e.sends {
		t := &e.sends[i]
		at := 0
		t.part.rows(t.part.dense(), func(i, n int) { at += copy(t.buffer[at:], x[i*e.unit:(i+n)*e.unit]) })
		e.requests = append(e.requests, e.c.Send(t.rank, e.tag, t.buffer))
	}
}

// Keep puts what the rank has itself into y, which is not x, and zeros around what it
// needs.
func (e *Exchange) Keep(y, x []byte) {
	for _, r := range e.zero {
		clear(y[r.to*e.unit : (r.to+r.n)*e.unit])
	}
	for _, r := range e.keep {
		copy(y[r.to*e.unit:(r.to+r.n)*e.unit], x[r.from*e.unit:])
	}
}

// Finish waits for what was started, and puts what comes from others into y.
//
// Errors: those of other ranks.
func (e *Exchange) Finish(y []byte) error {
	e.moving = false
	if err := comm.WaitAll(e.requests...); err != nil {
		return fmt.Errorf("exchanging parts of a value: %w", err)
	}
	for i := range e.gets {
		t := &e.gets[i]
		at := 0
		t.part.rows(t.part.dense(), func(i, n int) { at += copy(y[i*e.unit:(i+n)*e.unit], t.buffer[at:]) })
	}
	return nil
}

// dense is the first axis such that the box is whole on all axes behind it.
func (c copied) dense() int {
	k := len(c.shape) - 1
	for k > 0 && c.box[k] == (Interval{0, c.shape[k]}) {
		k--
	}
	return max(k, 0)
}

// rows calls f with start and length of every run of the box: axes from the given one
// on lie together.
func (c copied) rows(from int, f func(i, n int)) {
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

// around lists the runs of the array outside of the box.
func around(c copied) []run {
	var out []run
	end := 0
	add := func(lo, hi int) {
		if lo < hi {
			out = append(out, run{to: lo, n: hi - lo})
		}
	}
	c.rows(c.dense(), func(i, n int) {
		add(end, i)
		end = i + n
	})
	add(end, graph.Shape(c.shape).Size())
	return out
}

// Sent is the bytes that a rank sends in one exchange.
func (e *Exchange) Sent() int64 {
	var n int64
	for _, t := range e.sends {
		n += int64(len(t.buffer))
	}
	return n
}
