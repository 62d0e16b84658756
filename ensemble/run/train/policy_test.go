package train

import (
	"slices"
	"testing"
)

// The samples of an epoch take each number of members and each member equally often, and a control always.
func TestDrawFewerMembers(t *testing.T) {
	used := []int{0, 3, 4, 7, 9}
	if got := drawFewerMembers(used, 0, 1, 2, 3, true); !slices.Equal(got, used) {
		t.Errorf("without a least number: %v", got)
	}
	if got := drawFewerMembers(used, 5, 1, 2, 3, true); !slices.Equal(got, used) {
		t.Errorf("with all: %v", got)
	}
	const draws = 6000
	number, member := map[int]int{}, map[int]int{}
	for i := range uint64(draws) {
		got := drawFewerMembers(used, 3, 7, i%6, i, true)
		if again := drawFewerMembers(used, 3, 7, i%6, i, true); !slices.Equal(got, again) || !slices.IsSorted(got) || got[0] != 0 {
			t.Fatalf("%v, then %v", got, again)
		}
		number[len(got)]++
		for _, m := range got {
			member[m]++
		}
	}
	// Binomial counts are within five standard deviations, 5 sqrt(n p (1-p)) < 200.
	for n := 3; n <= 5; n++ {
		if d := number[n] - draws/3; d < -200 || d > 200 {
			t.Errorf("%d of %d samples have %d members", number[n], draws, n)
		}
	}
	for _, m := range used[1:] { // 3 of the 4 on average
		if d := member[m] - draws*3/4; d < -200 || d > 200 {
			t.Errorf("member %d is in %d of %d samples", m, member[m], draws)
		}
	}
	clear(member)
	for i := range uint64(draws) { // without control: 4 of all 5 on average
		for _, m := range drawFewerMembers(used, 3, 7, i%6, i, false) {
			member[m]++
		}
	}
	for _, m := range used {
		if d := member[m] - draws*4/5; d < -200 || d > 200 {
			t.Errorf("without control member %d is in %d of %d samples", m, member[m], draws)
		}
	}
}
