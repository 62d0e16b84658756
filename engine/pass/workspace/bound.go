package workspace

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// knapsackItem is a configuration as an item of the knapsack problem of Divide.
type knapsackItem struct {
	time   time.Duration
	weight int64
	pieces int
}

// hullStep is an edge of the lower convex hull of the items of a kernel: time
// saved for additional weight.
type hullStep struct {
	saved  time.Duration
	weight int64
	kernel int
}

// steeper orders steps by time saved per weight, the best first, in exact
// 128-bit arithmetic.
func steeper(a, b hullStep) int {
	ah, al := bits.Mul64(uint64(a.saved), uint64(b.weight))
	bh, bl := bits.Mul64(uint64(b.saved), uint64(a.weight))
	return cmp.Or(cmp.Compare(bh, ah), cmp.Compare(bl, al))
}

// hull returns the time of the fastest item without weight, and the steps of
// the convex hull from there. Items ascend in weight and descend in time; the
// first has weight 0.
func hull(items []knapsackItem, kernel int) (start time.Duration, steps []hullStep) {
	start = items[0].time
	for i := 1; i < len(items); i++ {
		s := hullStep{items[i-1].time - items[i].time, items[i].weight - items[i-1].weight, kernel}
		if items[i].weight == 0 {
			start = items[i].time
			continue
		}
		for n := len(steps); n > 0 && steeper(s, steps[n-1]) < 0; n-- {
			s.saved += steps[n-1].saved
			s.weight += steps[n-1].weight
			steps = steps[:n-1]
		}
		steps = append(steps, s)
	}
	return start, steps
}

// relaxation is the linear relaxation of the knapsack problem, where kernels
// may take fractions of a step. The steepest steps are taken first. Its optimum
// is a lower bound of the time.
type relaxation struct {
	start  time.Duration   // time without any weight
	steps  []hullStep      // steepest first
	saved  []time.Duration // time saved by the first n steps
	weight []int64         // weight of the first n steps
}

// relax builds the relaxation for the items of all kernels.
func relax(kernels [][]knapsackItem) *relaxation {
	r := &relaxation{}
	for k, items := range kernels {
		start, steps := hull(items, k)
		r.start += start
		r.steps = append(r.steps, steps...)
	}
	slices.SortStableFunc(r.steps, steeper)
	r.saved, r.weight = make([]time.Duration, len(r.steps)+1), make([]int64, len(r.steps)+1)
	for n, s := range r.steps {
		r.saved[n+1], r.weight[n+1] = r.saved[n]+s.saved, r.weight[n]+s.weight
	}
	return r
}

// bound is a lower bound of the time of any division of room.
func (r *relaxation) bound(room int64) time.Duration {
	n := sort.Search(len(r.steps), func(n int) bool { return r.weight[n+1] > room })
	t := r.start - r.saved[n]
	if n < len(r.steps) { // a fraction of the next step; times are integers, so the saving is rounded down
		s := r.steps[n]
		high, low := bits.Mul64(uint64(s.saved), uint64(room-r.weight[n]))
		part, _ := bits.Div64(high, low, uint64(s.weight))
		t -= time.Duration(part)
	}
	return t
}

// greedy is the time of a feasible division of room: the steepest steps that
// fit. Steps of one kernel build on each other and are in that order.
func (r *relaxation) greedy(room int64) time.Duration {
	t := r.start
	stuck := map[int]bool{}
	for _, s := range r.steps {
		if stuck[s.kernel] || s.weight > room {
			stuck[s.kernel] = true
			continue
		}
		t -= s.saved
		room -= s.weight
	}
	return t
}
