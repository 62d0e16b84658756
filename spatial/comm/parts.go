package comm

import (
	"errors"
	"math"
)

// Parts are slices that collectives take as one vector, one behind the other.
type Parts[T any] [][]T

// Len is the number of values.
func (x Parts[T]) Len() int {
	n := 0
	for _, p := range x {
		n += len(p)
	}
	return n
}

// span is the values of a vector from lo up to before hi.
type span struct{ lo, hi int }

// slice gives the values of a span as a slice of one part; nil if no part has them all.
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

// each calls f with what parts have of a span, and where that is in the span.
func (x Parts[T]) each(s span, f func(part []T, at int)) {
	at := 0
	for _, p := range x {
		if lo, hi := max(s.lo, at), min(s.hi, at+len(p)); lo < hi {
			f(p[lo-at:hi-at], lo-s.lo)
		}
		at += len(p)
	}
}

// segmentBytes is the most that a message of a collective has. Room for what arrives,
// and for what is put together from parts, is a few of these; at 10 GB/s one takes 50 µs,
// many times what a message costs beside its bytes.
const segmentBytes = 1 << 19

// segmentLen is the number of values of a segment. Those that are only counted need no
// room, and travel at once.
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

// noRank is the rank to which nothing is sent, and from which nothing comes.
const noRank = -1

// peerSpan is a span of values that goes to a rank, or comes from it.
type peerSpan struct {
	rank int
	span
}

// exchange sends a span of x to one rank while it receives another from a rank, which
// join, if not nil, adds to what is there. The spans are disjoint, or the same where join
// is not nil. Segments travel one behind the other; while one is joined, the next is
// under way.
func exchange[T any](c *Comm, tag int, x Parts[T], to, from peerSpan, join func(y, x []T)) error {
	most := segmentLen[T]()
	out, in := to.span, from.span
	segments := func(l peerSpan) int {
		s := l.span
		if l.rank == noRank {
			return 0
		}
		return max(1, (s.hi-s.lo)/most+min(1, (s.hi-s.lo)%most)) // one of nothing too: both sides count messages
	}
	segment := func(s span, k int) span {
		lo := s.lo + k*most
		return span{lo, min(lo+most, s.hi)}
	}
	sends, receives := segments(to), segments(from)
	// Room for two segments each way where it is needed: one is under way while the other
	// is looked at.
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
			if k+1 < count { // its memory is free when it has ended
				err = errors.Join(err, finish(k+1))
			}
			return err
		}
	}
	return nil
}
