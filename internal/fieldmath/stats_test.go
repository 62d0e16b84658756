package fieldmath

import (
	"math"
	"testing"
)

// Statistics count every value once, in any lane, and hashes distinguish fields.
func TestTallyOfFew(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		values []float32
		want   Stats
	}{
		{nil, Stats{Min: math.Inf(1), Max: math.Inf(-1)}},
		{[]float32{3}, Stats{Points: 1, Min: 3, Max: 3, Sum: 3, Squares: 9}},
		{[]float32{1, 2, 3, 4, -5, 0}, Stats{Points: 6, Min: -5, Max: 4, Sum: 5, Squares: 55}},
		{[]float32{1, nan, 3, inf, 2, 2, 2, -inf, nan}, Stats{Points: 9, Missing: 2, Infinite: 2, Min: 1, Max: 3, Sum: 10, Squares: 22}},
	} {
		got := StatsOf(c.values)
		got.Hash = 0
		if got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
	same := [][2][]float32{{{0, 1, 2, 3, 4}, {float32(math.Copysign(0, -1)), 1, 2, 3, 4}}, {{nan, 1, 2, 3}, {math.Float32frombits(0x7fc00123), 1, 2, 3}}}
	for _, s := range same {
		if StatsOf(s[0]).Hash != StatsOf(s[1]).Hash {
			t.Errorf("%v and %v have two hashes", s[0], s[1])
		}
	}
	seen := map[uint64][]float32{}
	for _, v := range [][]float32{{1, 2, 3, 4, 5}, {2, 1, 3, 4, 5}, {5, 2, 3, 4, 1}, {1, 2, 3, 4}, {1, 2, 3, 4, 5, 0}, {1, 2, 3, 4, inf}, {1, 2, 3, 4, nan}} {
		h := StatsOf(v).Hash
		if h == 0 || seen[h] != nil {
			t.Errorf("%v has the hash of %v", v, seen[h])
		}
		seen[h] = v
	}
}
