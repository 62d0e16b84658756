package workspace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// MiB is the usual unit of Divide.
const MiB = 1 << 20

// Division gives every kernel a configuration and a workspace of its own.
type Division struct {
	Configs []Config      // by kernel
	Time    time.Duration // sum of the times
	Bytes   int64         // sum of the workspaces
	// Bound is a lower bound of the time of any division within the limit. Time
	// − Bound is the largest possible loss by rounding to units, 0 if unit was
	// 1.
	Bound time.Duration
}

// Divide chooses a configuration of each kernel so that the sum of the times is
// minimal while the workspaces sum to at most limit bytes (WD). This is a
// multiple-choice knapsack problem. It is solved by merging the fronts of the
// kernels one by one, keeping only non-dominated sums.
//
// The workspace of a kernel above its smallest one is rounded up to whole units
// of unit bytes; 1 is exact. So a solution exists whenever the limit permits
// one. A coarse unit only makes it slower, by at most Time − Bound.
//
// Errors: *exit.Error: exit.Usage around ErrLimit if the smallest workspaces
// exceed the limit, with their sum; exit.Bug for a unit below 1; exit.BadData
// as Front, or if times or workspaces overflow.
// Cost: O(Σ front · min(limit/unit, number of distinct sums)). Distinct sums
// could multiply with each kernel, but the bound of the relaxation leaves few:
// 66 kernels with some 15 configurations each take milliseconds.
func Divide(kernels []Kernel, limit, unit int64) (Division, error) {
	if unit < 1 {
		return Division{}, &exit.Error{Code: exit.Bug, What: "workspaces are divided in units of at least one byte",
			Why: fmt.Sprintf("the unit is %d", unit), Fix: "report this"}
	}
	fronts := make([][]Config, len(kernels))
	var least, most int64
	var slowest time.Duration
	for i, k := range kernels {
		f, err := k.Front()
		if err != nil {
			return Division{}, err
		}
		fronts[i] = f
		last := f[len(f)-1].Bytes
		if f[0].Time > math.MaxInt64-slowest || last > math.MaxInt64-most {
			return Division{}, &exit.Error{Code: exit.BadData, What: "times or workspaces are too large to sum", At: k.Name,
				Why: fmt.Sprintf("time %d ns, workspace %d bytes", int64(f[0].Time), last), Fix: "delete the timing table and measure again"}
		}
		slowest += f[0].Time
		most += last
		least += f[0].Bytes
	}
	if least > limit {
		return Division{}, limitError(fmt.Sprintf("%d kernels", len(kernels)), limit, least)
	}
	room := (limit - least) / unit
	d := Division{Configs: merge(fronts, room, func(extra int64) int64 { return extra/unit + min(extra%unit, 1) })}
	for _, c := range d.Configs {
		d.Time += c.Time
		d.Bytes += c.Bytes
	}
	d.Bound = d.Time
	if unit > 1 { // rounding down permits every feasible division, and more
		d.Bound = 0
		for _, c := range merge(fronts, room, func(extra int64) int64 { return extra / unit }) {
			d.Bound += c.Time
		}
	}
	return d, nil
}

// sum is a choice for the last kernels of a list.
type sum struct {
	knapsackItem
	choice int // index of the configuration of the first of these kernels
	rest   int // index of the sum of the other kernels
}

// merge chooses one configuration from each front, with minimal time and a
// total weight of at most room. weigh converts the workspace of a
// configuration, above that of the first in its front, to weight. Kernels are
// merged from last to first, so that among equal sums the choice of the first
// kernel decides. Sums are dropped if they are dominated, or if no choice for
// the earlier kernels can make them faster than a known division.
func merge(fronts [][]Config, room int64, weigh func(extra int64) int64) []Config {
	items := make([][]knapsackItem, len(fronts))
	for i, f := range fronts {
		for _, c := range f {
			items[i] = append(items[i], knapsackItem{c.Time, weigh(c.Bytes - f[0].Bytes), c.Count()})
		}
	}
	known := relax(items).greedy(room)
	layers := make([][]sum, len(fronts)+1)
	layers[len(fronts)] = []sum{{}}
	for i := len(fronts) - 1; i >= 0; i-- {
		before := relax(items[:i])
		var all []sum
		for j, c := range items[i] {
			for r, s := range layers[i+1] {
				left := room - c.weight - s.weight
				if left < 0 {
					break // weights ascend
				}
				if s.time+c.time+before.bound(left) <= known {
					all = append(all, sum{knapsackItem{s.time + c.time, s.weight + c.weight, s.pieces + c.pieces}, j, r})
				}
			}
		}
		slices.SortFunc(all, func(a, b sum) int {
			return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.time, b.time),
				cmp.Compare(a.pieces, b.pieces), cmp.Compare(a.choice, b.choice))
		})
		kept := all[:0]
		for _, s := range all {
			if len(kept) == 0 || s.time < kept[len(kept)-1].time {
				kept = append(kept, s)
			}
		}
		layers[i] = kept
	}
	at := len(layers[0]) - 1 // index of the fastest sum
	var chosen []Config
	for i, f := range fronts {
		s := layers[i][at]
		chosen = append(chosen, f[s.choice])
		at = s.rest
	}
	return chosen
}
