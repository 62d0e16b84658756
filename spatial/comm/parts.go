package comm

import (
	"errors"
	"math"
)

// Parts is a vector in several slices, which collectives treat as their
// concatenation.
type Parts[T any] [][]T

// Len returns the number of values.
func (x Parts[T]) Len() int {
	n := 0
	for _, p := range x {
		n += len(p)
	}
	return n
}

// span is the range [lo, hi) of a vector.
type span struct{ lo, hi int }

// slice returns a span as a slice of one part; nil if the span crosses parts.
func (x Parts[T]) slice(s span) []T {
	at := 0
	for _, p := range x {
		if s.lo >= at && s.hi <= at+len(p) {
			return p[s.lo-at : s.hi-at]
		}
		at += len(p)
	}
	return nil
}

// each calls f with the pieces of a span in each part; at is the offset within the
// span.
func (x Parts[T]) each(s span, f func(part []T, at int)) {
	at := 0
	for _, p := range x {
		if lo, hi := max(s.lo, at), min(s.hi, at+len(p)); lo < hi {
			f(p[lo-at:hi-at], lo-s.lo)
		}
		at += len(p)
	}
}

// segmentBytes is the maximum size of a message of a collective. It bounds the
// scratch memory for received and assembled segments. At 10 GB/s a segment takes 50
// µs, many times the latency of a message.
const segmentBytes = 1 << 19

// segmentLen returns the number of values of a segment. SizeOnly values need no
// memory and form one segment.
func segmentLen[T any]() int {
	var x []T
	switch any(x).(type) {
	case []SizeOnly:
		return math.MaxInt / 2
	case []float32:
		return segmentBytes / 4
	case []byte:
		return segmentBytes
	}
	return segmentBytes / 8
}

// noRank is a peer to which nothing is sent and from which nothing is received.
const noRank = -1

// peerSpan is a span that is sent to a rank or received from it.
type peerSpan struct {
	rank int
	span
}

// exchange sends one span of x while it receives another. If join is not nil,
// received values are combined with those of x. The spans are disjoint, or equal if
// join is not nil. Long spans travel in segments; one segment is processed while
// the next is in transit. Values are sent from and received into x itself where a
// segment lies within one slice and is not combined; other segments are copied.
//
// Memory: two segments in each direction that needs a copy.
func exchange[T any](c *Comm, tag int, x Parts[T], to, from peerSpan, join func(y, x []T)) error {
	most := segmentLen[T]()
	out, in := to.span, from.span
	segments := func(l peerSpan) int {
		s := l.span
		if l.rank == noRank {
			return 0
		}
		return max(1, (s.hi-s.lo)/most+min(1, (s.hi-s.lo)%most)) // an empty span is one message too, so that both sides agree on the count
	}
	segment := func(s span, k int) span {
		lo := s.lo + k*most
		return span{lo, min(lo+most, s.hi)}
	}
	sends, receives := segments(to), segments(from)
	// Scratch memory for two segments in each direction: one in transit, one in
	// use.
	var nOut, nIn int
	if x.slice(out) == nil {
		nOut = min(most, out.hi-out.lo)
	}
	if join != nil || x.slice(in) == nil {
		nIn = min(most, in.hi-in.lo)
	}
	rooms := scratchFor[T](c, 2*(nOut+nIn))
	outRoom := func(k int) []T { return rooms[k%2*nOut:][:nOut] }
	inRoom := func(k int) []T { return rooms[2*nOut+k%2*nIn:][:nIn] }

	var sent, received [2]Request
	var arriving [2][]T
	start := func(k int) {
		sent[k%2], received[k%2] = nil, nil
		if k < receives {
			s := segment(in, k)
			if arriving[k%2] = x.slice(s); join != nil || arriving[k%2] == nil {
				arriving[k%2] = inRoom(k)[:s.hi-s.lo]
			}
			received[k%2] = c.recv(from.rank, tag, arriving[k%2])
		}
		if k < sends {
			s := segment(out, k)
			values := x.slice(s)
			if values == nil {
				values = outRoom(k)[:s.hi-s.lo]
				x.each(s, func(part []T, at int) { copy(values[at:], part) })
			}
			sent[k%2] = c.send(to.rank, tag, values)
		}
	}
	finish := func(k int) error {
		var err error
		for _, r := range []Request{sent[k%2], received[k%2]} {
			if r != nil {
				err = errors.Join(err, r.Wait())
			}
		}
		if err != nil || k >= receives {
			return err
		}
		s, got := segment(in, k), arriving[k%2]
		switch {
		case join != nil:
			x.each(s, func(part []T, at int) { join(part, got[at:at+len(part)]) })
		case x.slice(s) == nil:
			x.each(s, func(part []T, at int) { copy(part, got[at:]) })
		}
		return nil
	}
	count := max(sends, receives)
	start(0)
	for k := range count {
		if k+1 < count {
			start(k + 1)
		}
		if err := finish(k); err != nil {
			if k+1 < count { // wait for the next segment too: its memory must be free
				err = errors.Join(err, finish(k+1))
			}
			return err
		}
	}
	return nil
}
