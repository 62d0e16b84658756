package testseed

import (
	"slices"
	"strconv"
	"testing"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]uint64{"": 1, "23": 23} {
		t.Setenv("ENSEMBLE_TEST_SEED", text)
		if got := Of(t); got != want {
			t.Errorf("%q gives seed %d, want %d", text, got, want)
		}
	}
}

// Every case is selected by some seed, in the order of the cases; a seed selects the same ones again.
func TestSome(t *testing.T) {
	cases, seen := []int{2, 3, 5, 7, 11}, map[int]bool{}
	for seed := range 30 {
		t.Setenv("ENSEMBLE_TEST_SEED", strconv.Itoa(seed))
		got := Some(t, cases, 2)
		if len(got) != 2 || got[0] >= got[1] || !slices.Equal(got, Some(t, cases, 2)) {
			t.Errorf("seed %d: %v", seed, got)
		}
		seen[got[0]], seen[got[1]] = true, true
	}
	if len(seen) != len(cases) {
		t.Errorf("30 seeds select only %v", seen)
	}
	if got := Some(t, cases, All); !slices.Equal(got, cases) {
		t.Errorf("all of %v are %v", cases, got)
	}
}
