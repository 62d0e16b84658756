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
	if m.Size() != c.Size() {
		return nil, fmt.Errorf("a mesh of %d ranks for a group of %d", m.Size(), c.Size())
	}
	moves, err := Shuffle(m, s, from, to)
	if err != nil {
		return nil, err
	}
	old, want := m.Owned(from, s, c.Rank()), m.Owned(to, s, c.Rank())
	e := &Exchange{c: c, tag: tag}
	both := old.Intersect(want)
	if both.Size() > 0 {
		within(old, both).rows(func(i, n int) { e.keep = append(e.keep, run{from: i, n: n}) })
		k := 0
		within(want, both).rows(func(i, _ int) { e.keep[k].to = i; k++ })
	}
	for _, v := range moves {
		switch c.Rank() {
		case v.From:
			e.sends = append(e.sends, transfer{v.To, within(old, v.Box), make([]float32, v.Box.Size())})
		case v.To:
			e.gets = append(e.gets, transfer{v.From, within(want, v.Box), make([]float32, v.Box.Size())})
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

// Start sends what others want of x, the rank's part in the old distribution.
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

// Finish waits for what was started, and puts the rank's part in the new distribution
// into y, which is not x.
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
