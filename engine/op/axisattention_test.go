package op

import (
	"fmt"
	"testing"
)

// TestWindowStarts verifies that windows cover an axis once, that their sizes
// differ by at most one point (except at the ends of an axis that is not
// periodic), and that borders of shifted windows lie inside the others.
func TestWindowStarts(t *testing.T) {
	for _, n := range []int{1, 2, 5, 12, 13, 37, 64} {
		for _, size := range []int{0, 1, 3, 8, 100} {
			for _, shifted := range []bool{false, true} {
				for _, periodic := range []bool{false, true} {
					a := AxisAttention{Starts: WindowStarts(n, size, shifted, periodic)}
					seen := make([]int, n)
					for _, w := range a.Windows(n) {
						if w[1] < 1 || size > 0 && w[1] > size {
							t.Errorf("%d of %d, shifted %v, periodic %v: window %v", size, n, shifted, periodic, w)
						}
						for i := range w[1] {
							seen[(w[0]+i)%n]++
						}
					}
					for i, k := range seen {
						if k != 1 {
							t.Errorf("%d of %d, shifted %v, periodic %v: point %d is in %d windows", size, n, shifted, periodic, i, k)
						}
					}
				}
			}
		}
	}
	for _, c := range []struct {
		n, size           int
		shifted, periodic bool
		want              string
	}{
		{12, 4, false, true, "[0 4 8]"}, {12, 4, true, true, "[2 6 10]"}, {12, 4, true, false, "[0 2 6 10]"},
		{13, 4, false, false, "[0 3 6 9]"}, {5, 8, true, true, "[0]"}, {4, 1, true, false, "[0 1 2 3]"},
	} {
		if got := fmt.Sprint(WindowStarts(c.n, c.size, c.shifted, c.periodic)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
