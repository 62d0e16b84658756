package pass

import "testing"

// TestTurns: lifetimes that leave a hole when they are placed by size fit without
// one, since buffers change to earlier turns; nothing overlaps, and the same spans
// get the same places again.
func TestTurns(t *testing.T) {
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
	bySize, _ := placeInTurn([]*Span{todo[1], todo[6], todo[0], todo[2], todo[3], todo[5], todo[7], todo[4], todo[8]})
	placeSpans(spans, m)
	if m.ArenaSize != m.Lower || m.Lower != 77*1024 || bySize == m.Lower {
		t.Errorf("arena of %d, %d by size, %d alive at one time", m.ArenaSize, bySize, m.Lower)
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
