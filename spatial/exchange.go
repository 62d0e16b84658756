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
	sends, gets []transfer
	keep        []run // what a rank has already
	requests    []comm.Request
	moving      bool
}

// transfer is a box that goes to a rank or comes from it, in the coordinates of the
// local part, and the buffer it travels in.
type transfer struct {
	rank   int
	part   copied
	buffer []float32
}

// copied is a box within an array of a shape.
type copied struct {
	box   Box
	shape []int
}

// run is consecutive elements, where they lie before and after.
type run struct{ from, to, n int }

// NewShuffle prepares to bring a value of shape s from one distribution over a mesh into
// another. All ranks of c, which are those of the mesh, prepare the same. Messages of
// different exchanges that are under way together need different tags.
//
// Errors: as for Shuffle; a mesh of another size than c.
func NewShuffle(c *comm.Comm, tag int, m Mesh, s graph.Shape, from, to graph.Dist) (*Exchange, error) {
	if err := m.check(to); err != nil {
		return nil, err
	}
	return NewGather(c, tag, m, s, from, func(rank int) Box { return m.Owned(to, s, rank) })
}

// NewGather prepares to give every rank the box that it needs of a value that is
// distributed as d; see Gather and NewShuffle.
func NewGather(c *comm.Comm, tag int, m Mesh, s graph.Shape, d graph.Dist, need func(rank int) Box) (*Exchange, error) {
	if m.Size() != c.Size() {
		return nil, fmt.Errorf("a mesh of %d ranks for a group of %d", m.Size(), c.Size())
	}
	moves, err := Gather(m, s, d, need)
	if err != nil {
		return nil, err
	}
	own, want := m.Owned(d, s, c.Rank()), need(c.Rank())
	e := &Exchange{c: c, tag: tag}
	for _, v := range moves {
		at, into := within(own, v.At), within(want, v.Into)
		switch me := c.Rank(); {
		case v.From == me && v.To == me:
			k := len(e.keep)
			at.rows(func(i, n int) { e.keep = append(e.keep, run{from: i, n: n}) })
			into.rows(func(i, _ int) { e.keep[k].to = i; k++ })
		case v.From == me:
			e.sends = append(e.sends, transfer{v.To, at, make([]float32, v.At.Size())})
		case v.To == me:
			e.gets = append(e.gets, transfer{v.From, into, make([]float32, v.At.Size())})
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
func (e *Exchange) Start(x []float32) {
	if e.moving {
		panic("spatial: an exchange is started twice")
	}
	e.moving = true
	e.requests = e.requests[:0]
	for _, t := range e.gets {
		e.requests = append(e.requests, e.c.Recv(t.rank, e.tag, t.buffer))
	}
	for _, t := range e.sends {
		at := 0
		t.part.rows(func(i, n int) { at += copy(t.buffer[at:], x[i:i+n]) })
		e.requests = append(e.requests, e.c.Send(t.rank, e.tag, t.buffer))
	}
}

// Finish waits for what was started, and puts what the rank needs into y, which is not
// x. What lies beyond the ends of axes that are not periodic is no part of that.
//
// Errors: those of other ranks.
func (e *Exchange) Finish(y, x []float32) error {
	e.moving = false
	if err := comm.WaitAll(e.requests...); err != nil {
		return fmt.Errorf("exchanging parts of a value: %w", err)
	}
	for _, r := range e.keep {
		copy(y[r.to:r.to+r.n], x[r.from:r.from+r.n])
	}
	for _, t := range e.gets {
		at := 0
		t.part.rows(func(i, n int) { at += copy(y[i:i+n], t.buffer[at:]) })
	}
	return nil
}

// rows calls f with start and length of every run of the box along the last axis.
func (c copied) rows(f func(i, n int)) {
	last := len(c.shape) - 1
	at := make([]int, last+1)
	for i := range at {
		at[i] = c.box[i].Lo
	}
	for {
		i := 0
		for k, n := range c.shape {
			i = i*n + at[k]
		}
		f(i, c.box[last].Len())
		k := last - 1
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

// Sent is the bytes that a rank sends in one exchange.
func (e *Exchange) Sent() int64 {
	var n int64
	for _, t := range e.sends {
		n += 4 * int64(len(t.buffer))
	}
	return n
}
