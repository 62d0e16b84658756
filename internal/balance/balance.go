// Package balance distributes items of known cost over ranks before the work, so that every rank computes the same
// distribution without messages. Free items go to the least loaded rank, the most expensive first; items that must stay
// in order are cut into blocks whose largest cost is the least possible.
//
// Costs are integers, such as bytes or fields, so that all ranks sort them in the same way. No distribution has a largest load
// below LowerBound.
//
// Source: Graham 1969, "Bounds on multiprocessing timing anomalies", doi:10.1137/0117039; Dell'Amico and Martello 1995, "Optimal
// scheduling of tasks on identical parallel processors", doi:10.1287/ijoc.7.2.191 (bounds); Pinar and Aykanat 2004, "Fast
// optimal load balancing algorithms for 1D partitioning", doi:10.1016/j.jpdc.2004.05.003.
package balance

import (
	"cmp"
	"math"
	"slices"
)

// Descending returns the indices of items by falling cost; of equal costs the lower index is first. A queue that
// workers take items from in this order ends at most one small item unevenly.
func Descending(costs []int64) []int {
	type item struct {
		cost  int64
		index int
	}
	items := make([]item, len(costs)) // sorting indices alone would read costs in random order
	for i, c := range costs {
		items[i] = item{c, i}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.index, b.index)) })
	order := make([]int, len(costs))
	for i, x := range items {
		order[i] = x.index
	}
	return order
}

// LongestFirst returns the rank of each item by the rule of the longest processing time: items by falling cost, each to
// the rank with the least load. Of equal loads the rank with the fewest items is taken, then the lowest, so that items
// without cost are spread too.
//
// The largest load is at most 4/3 − 1/(3·ranks) of the least possible one.
//
// Cost: O(m log m) for m items.
func LongestFirst(costs []int64, ranks int) []int {
	owner := make([]int, len(costs))
	heap := make([]load, ranks) // the least loaded first
	for r := range heap {
		heap[r].rank = r
	}
	for _, i := range Descending(costs) {
		x := &heap[0]
		owner[i] = x.rank
		x.cost, x.items = x.cost+costs[i], x.items+1
		sink(heap)
	}
	return owner
}

// load is the load of a rank.
type load struct {
	cost        int64
	items, rank int
}

// less orders ranks by load, number of items and number.
func (a load) less(b load) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
	}
	if a.items != b.items {
		return a.items < b.items
	}
	return a.rank < b.rank
}

// sink restores the order of a heap whose first element has grown.
func sink(heap []load) {
	for at := 0; ; {
		next := 2*at + 1
		if next >= len(heap) {
			return
		}
		if next+1 < len(heap) && heap[next+1].less(heap[next]) {
			next++
		}
		if !heap[next].less(heap[at]) {
			return
		}
		heap[at], heap[next] = heap[next], heap[at]
		at = next
	}
}

// Contiguous returns the bounds of parts blocks of consecutive items whose largest cost is the least possible: block k
// has the items cuts[k] to cuts[k+1]−1. Of several solutions it returns the lexicographically smallest cuts. Blocks may be
// empty.
//
// The least largest cost is found by bisection, where a bound is feasible if blocks that are filled up to it suffice.
//
// Cost: O(m log(sum of costs)) for m items.
func Contiguous(costs []int64, parts int) (cuts []int) {
	var sum, largest int64
	for _, c := range costs {
		sum += c
		largest = max(largest, c)
	}
	lo, hi := max(largest, (sum+int64(parts)-1)/int64(parts)), sum
	for lo < hi {
		mid := lo + (hi-lo)/2
		if fill(costs, mid, nil) <= parts {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	cuts = make([]int, parts+1)
	fill(costs, lo, cuts)
	return cuts
}

// fill fills blocks of at most a bound from the last item to the first and returns their number. It sets the bounds in
// cuts from its end, unless nil; filling from the end makes the first cuts smallest.
func fill(costs []int64, bound int64, cuts []int) (blocks int) {
	set := func(at int) {
		if cuts != nil {
			cuts[len(cuts)-1-blocks] = at
		}
	}
	set(len(costs))
	left := int64(0)
	for i, c := range slices.Backward(costs) {
		if blocks == 0 || c > left {
			if blocks > 0 {
				set(i + 1)
			}
			blocks++
			left = bound
		}
		left -= c
	}
	return blocks
}

// ContiguousCrossing is Contiguous for blocks that also cost what passes between them: crossing[i] is the cost of a bound before
// item i, which both of its blocks have. Those at the ends are free. Blocks are not empty.
//
// Cost: O(parts·m²) for m items, which must be at least parts.
// Source: dynamic programming over the last block, Pinar and Aykanat 2004, section 3.
func ContiguousCrossing(costs, crossing []int64, parts int) (cuts []int) {
	m := len(costs)
	before := make([]int64, m+1) // sum of the items before
	for i, c := range costs {
		before[i+1] = before[i] + c
	}
	block := func(i, j int) int64 {
		c := before[j] - before[i]
		if i > 0 {
			c += crossing[i]
		}
		if j < m {
			c += crossing[j]
		}
		return c
	}
	// best[k][i] is the least largest cost of k blocks of the items from i on.
	best := make([][]int64, parts+1)
	for k := 1; k <= parts; k++ {
		best[k] = make([]int64, m)
		for i := range m {
			best[k][i] = math.MaxInt64
			if k == 1 {
				best[k][i] = block(i, m)
				continue
			}
			for j := i + 1; j <= m-(k-1); j++ {
				best[k][i] = min(best[k][i], max(block(i, j), best[k-1][j]))
			}
		}
	}
	cuts = make([]int, 1, parts+1)
	for k := parts; k > 1; k-- {
		i := cuts[len(cuts)-1]
		j := i + 1
		for max(block(i, j), best[k-1][j]) > best[parts][0] {
			j++
		}
		cuts = append(cuts, j)
	}
	return append(cuts, m)
}
