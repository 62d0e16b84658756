package pass

import (
	"math/rand/v2"
	"testing"
)

// TestFindGap verifies that a gap overlaps no value that is alive at the time, and
// that a gap is found wherever one is large enough.
func TestFindGap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	found, none := 0, 0
	for range 200 {
		var spans []*Span
		for range 12 {
			first := rng.IntN(20)
			spans = append(spans, &Span{Size: 1 + rng.IntN(90), First: first, Last: first + rng.IntN(6)})
		}
		m := &Memory{}
		placeSpans(spans, m)
		for _, s := range spans {
			m.Spans = append(m.Spans, *s)
		}
		first, n := rng.IntN(20), 1+rng.IntN(120)
		last := first + rng.IntN(3)
		taken := make([]bool, m.ArenaSize)
		for _, s := range spans {
			if s.First <= last && first <= s.Last {
				for i := range s.Size {
					taken[s.Offset+i] = true
				}
			}
		}
		free := func(at int) bool {
			for i := range n {
				if at+i >= len(taken) || taken[at+i] {
					return false
				}
			}
			return true
		}
		possible := false
		for at := 0; at < len(taken); at += align {
			possible = possible || free(at)
		}
		at, ok := m.FindGap(first, last, n)
		if ok != possible || ok && (!free(at) || at%align != 0) {
			t.Fatalf("%d elements during %d to %d: a gap at %d, %v, want %v, among %+v", n, first, last, at, ok, possible, m.Spans)
		}
		if ok {
			found++
		} else {
			none++
		}
	}
	if found < 20 || none < 20 {
		t.Errorf("%d gaps found, %d times none", found, none)
	}
}

// TestImproveOrder verifies that lifetimes which leave a gap when placed by size fit
// without one after the order is improved, that nothing overlaps, and that
// equal spans get equal places.
func TestImproveOrder(t *testing.T) {
	sketch := func() []*Span {
		var spans []*Span
		for _, s := range [][3]int{ // size, first, last: the first stage of a U-Net in half of its memory
			{21, -1, 60}, {24, 0, 25}, {16, 24, 43}, {16, 25, 40}, {8, 37, 40}, {16, 40, 44}, {24, 42, 60}, {16, 44, 45}, {4, 45, 50},
		} {
			spans = append(spans, &Span{Size: s[0] * 1024, First: s[1], Last: s[2]})
		}
		return spans
	}
	spans, m := sketch(), &Memory{}
	todo := sketch()
	bySize, _ := placeInOrder([]*Span{todo[1], todo[6], todo[0], todo[2], todo[3], todo[5], todo[7], todo[4], todo[8]})
	placeSpans(spans, m)
	if m.ArenaSize != m.LowerBound || m.LowerBound != 77*1024 || bySize == m.LowerBound {
		t.Errorf("arena of %d, %d by size, %d alive at one time", m.ArenaSize, bySize, m.LowerBound)
	}
	for i, a := range spans {
		for _, b := range spans[:i] {
			together := a.First <= b.Last && b.First <= a.Last
			if together && a.Offset < b.Offset+b.Size && b.Offset < a.Offset+a.Size {
				t.Errorf("spans %+v and %+v overlap", a, b)
			}
		}
	}
	again := sketch()
	placeSpans(again, &Memory{})
	for i, s := range again {
		if s.Offset != spans[i].Offset {
			t.Errorf("span %d at %d, the first time at %d", i, s.Offset, spans[i].Offset)
		}
	}
}
