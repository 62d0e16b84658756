package loader

import (
	"slices"
	"testing"
)

func TestOrderIsAPermutationAndAPureFunction(t *testing.T) {
	a, b, c := Order(7, 3, 101), Order(7, 3, 101), Order(7, 4, 101)
	if !slices.Equal(a, b) {
		t.Error("the same epoch has two orders")
	}
	if slices.Equal(a, c) {
		t.Error("two epochs have one order")
	}
	slices.Sort(a)
	for i, v := range a {
		if v != i {
			t.Fatalf("sample %d is missing", i)
		}
	}
}

// Every member is drawn equally often, and the control always with keepFirst.
func TestMembers(t *testing.T) {
	for _, keep := range []bool{false, true} {
		count := make([]int, 10)
		const draws = 20000
		for i := range uint64(draws) {
			m := DrawMembers(1, i/100, i%100, 10, 5, keep)
			if len(m) != 5 || !slices.IsSorted(m) || len(slices.Compact(slices.Clone(m))) != 5 {
				t.Fatalf("draw %v", m)
			}
			if keep && m[0] != 0 {
				t.Fatalf("draw %v lacks the control", m)
			}
			for _, x := range m {
				count[x]++
			}
		}
		for x, c := range count {
			want := draws / 2.0
			if keep {
				want = draws * 4 / 9.0
				if x == 0 {
					want = draws
				}
			}
			// Four standard deviations of a binomial count.
			if d := float64(c) - want; d*d > 16*draws*0.25 {
				t.Errorf("keepFirst %v: member %d drawn %d times, want about %.0f", keep, x, c, want)
			}
		}
	}
}
