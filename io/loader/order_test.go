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

// The member that verifies is never an input member and never the control, which is always input; over many epochs all others
// verify, and all are input. The same draw gives the same members.
func TestVerifyingMembers(t *testing.T) {
	for _, c := range []struct {
		n, k    int
		control bool
	}{{4, 3, true}, {4, 1, true}, {5, 2, false}, {2, 1, false}} {
		verified, inputs := make([]int, c.n), make([]int, c.n)
		const epochs = 2000
		for epoch := range uint64(epochs) {
			verifying, used := DrawVerifying(5, epoch, 7, c.n, c.k, c.control)
			if again, same := DrawVerifying(5, epoch, 7, c.n, c.k, c.control); again != verifying || !slices.Equal(used, same) {
				t.Fatalf("%+v: %d, %v, then %d, %v", c, verifying, used, again, same)
			}
			if len(slices.Compact(slices.Sorted(slices.Values(used)))) != c.k || slices.Contains(used, verifying) || used[0] < 0 || used[c.k-1] >= c.n {
				t.Fatalf("%+v: %d verifies %v", c, verifying, used)
			}
			verified[verifying]++
			for _, i := range used {
				inputs[i]++
			}
		}
		for i := range c.n {
			of, others, drawn := c.n, c.n, c.k // equally often
			if c.control {
				of, others, drawn = c.n-1, c.n-1, c.k-1
			}
			wantVerified, wantInput := epochs/of, epochs*drawn/others
			if c.control && i == 0 {
				wantVerified, wantInput = 0, epochs
			}
			if d := verified[i] - wantVerified; max(d, -d) > epochs/20 {
				t.Errorf("%+v: member at %d verifies %d times, want about %d", c, i, verified[i], wantVerified)
			}
			if d := inputs[i] - wantInput; max(d, -d) > epochs/20 {
				t.Errorf("%+v: member at %d is input %d times, want about %d", c, i, inputs[i], wantInput)
			}
		}
	}
}
