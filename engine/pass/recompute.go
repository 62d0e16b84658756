package pass

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Recomputation sums up the recomputation and offloading of a plan, per run.
type Recomputation struct {
	Operations int   // recomputed operations
	FLOPs      int64 // of the recomputed operations
	// SavedBytes is the reduction of the arena in bytes. Slowdown is the factor
	// on the run time, by the cost model.
	SavedBytes int64
	Slowdown   float64
	// Offloaded is the number of results that are offloaded to host memory, and
	// OffloadedBytes their size in bytes. The slowdown includes the time spent
	// waiting for copies.
	Offloaded      int
	OffloadedBytes int64
}

// MemoryLimitError reports that no plan fits a memory limit.
type MemoryLimitError struct {
	Limit int64 // bytes
	// bytes of arena and workspaces: the least limit for which Compile succeeds
	Smallest int64
}

// Error names the needed and the allowed size.
func (e *MemoryLimitError) Error() string {
	return fmt.Sprintf("memory limit too small: need %d bytes, limit %d", e.Smallest, e.Limit)
}

// recompute makes the arena fit the memory limit, less the workspaces that
// kernels need at least. It changes nothing if there is no limit or the arena
// fits. Otherwise it frees results of the forward pass that the backward pass
// reads, and recomputes them directly before they are read. The same operations
// run on the same operands, so no bit changes.
//
// The results are chosen by a search along several paths. Each path starts with
// an order of execution that either keeps all results or applies a block plan
// with the actions keep, recompute and swap. It then frees one result after the
// other: the one that lowers the peak at the least time. A path ends when its
// arena fits. Of the ends, the one with the least recomputation wins, after
// repetitions that the limit does not require are removed. The paths do not
// depend on the limit, so the smallest arena on all paths is the smallest limit
// that succeeds.
//
// If the device has copy engines, results may also be offloaded to host memory
// (links.go). Paths are then followed for several weights of the copy time,
// ends are compared by simulated run time, and the best one is improved by
// local changes (offload.go).
//
// Errors: exit.NoDevice with the smallest limit, around *MemoryLimitError.
// Source: Wahib et al. 2020, arXiv:2008.11421 (blocks); Chen et al. 2016,
// arXiv:1604.06174 (recomputation).
func recompute(u *Unit) error {
	if u.MemoryLimit <= 0 {
		return nil
	}
	_, scratch, err := leastScratch(u)
	if err != nil {
		return err
	}
	limit := int(max(u.MemoryLimit-scratch, 0) / int64(u.ElemBytes))
	p := newOrderModel(u)
	resident := p.arena(u.Sequence)
	if resident <= limit {
		return nil
	}
	if u.Links != nil {
		by, err := u.Links()
		if err != nil {
			return err
		}
		if by.ToHost > 0 && by.FromHost > 0 {
			p.enableCopies(u, by)
		}
	}
	order, smallest := p.searchPaths(initialOrders(u), limit)
	bytes := func(elements int) int64 { return int64(elements) * int64(u.ElemBytes) }
	if order == nil {
		least := bytes(smallest) + scratch
		means := "recomputation"
		if p.links != nil {
			means = "recomputation and offloading"
		}
		need := exit.Error{Code: exit.NoDevice,
			What: fmt.Sprintf("the plan needs at least %d MiB of memory, the limit is %.1f MiB", ceilMiB(least), floorMiB(u.MemoryLimit)),
			Why: fmt.Sprintf("it needs %d MiB with all results kept; %s cannot reduce it further",
				ceilMiB(bytes(resident)+scratch), means),
			Fix: fmt.Sprintf("raise the memory limit to %d MiB, or use a smaller batch or a smaller crop of the field", ceilMiB(least)),
			Err: &MemoryLimitError{u.MemoryLimit, least}}
		return &need
	}
	if p.links != nil {
		p.writeOffloads(u, order, resident, limit)
		return nil
	}
	f, before := p.measured(order), p.measured(u.Sequence)
	n, flops := p.repeats(order)
	u.Recomputed = Recomputation{Operations: n, FLOPs: flops, SavedBytes: bytes(resident - p.arena(order)), Slowdown: f.cost / before.cost}
	u.Graph, u.Sequence = p.write(order)
	u.Graph.Notes = append(u.Graph.Notes, fmt.Sprintf(
		"the arena is %.1f MiB smaller, for a limit of %.1f MiB: %d operations, %.3f GFLOP, are recomputed (%.1f %% of the run time, predicted)",
		float64(u.Recomputed.SavedBytes)/(1<<20), floorMiB(u.MemoryLimit), n, float64(flops)/1e9, 100*(u.Recomputed.Slowdown-1)))
	return nil
}

// ceilMiB converts bytes to MiB, rounded up.
func ceilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// floorMiB converts bytes to MiB, rounded down to one decimal.
func floorMiB(bytes int64) float64 { return math.Floor(float64(bytes)/(1<<20)*10) / 10 }

// initialOrders lists the orders of execution at which the paths start: that of
// the schedule first.
func initialOrders(u *Unit) [][]int {
	given := givenOrder(u.Graph)
	return [][]int{u.Sequence, given, greedyOrder(u.Graph, len(given))}
}

// arena is the size of the arena for an order, in elements.
func (p *orderModel) arena(order []int) int { return p.arenaOf(p.blockingSteps(order)) }

// arenaOf is arena for steps.
func (p *orderModel) arenaOf(steps []step) int {
	u := &Unit{Device: Device{ElemBytes: 1, ExternalGrads: p.externalGrads}, Options: Options{DonateInputs: p.donateInputs}}
	u.Graph, u.Sequence = p.emit(steps)
	assignMemory(u)
	return u.Memory.ArenaSize
}

// searchPaths follows all paths. It returns the fastest order whose arena fits
// the limit, or nil, and the smallest arena that it met.
func (p *orderModel) searchPaths(starts [][]int, limit int) (best []int, smallest int) {
	smallest = math.MaxInt
	fastest := math.Inf(1)
	// Different schedules and block plans often give the same initial order,
	// which is followed once.
	var begin [][]int
	seen := map[string]bool{}
	for _, start := range starts {
		for _, from := range p.blockOrders(start) {
			if key := fmt.Sprint(from); !seen[key] {
				seen[key] = true
				begin = append(begin, from)
			}
		}
	}
	var ends []*measuredOrder
	paths := func() {
		for _, from := range begin {
			end, least := p.followPath(from, limit)
			smallest = min(smallest, least)
			if end == nil {
				continue
			}
			ends = append(ends, end)
			if end.cost < fastest {
				best, fastest = end.order, end.cost
			}
		}
	}
	if p.links == nil {
		paths()
		return best, smallest
	}
	// The first two weights are the extremes. If neither gives an order that
	// fits, the weights between them will not.
	for i, w := range copyWeights {
		if i == 2 && ends == nil {
			break
		}
		p.setCopyWeight(w)
		paths()
	}
	return p.fastest(ends, limit), smallest
}

// followPath follows one path to the first order whose arena fits, and removes
// repetitions that the limit does not require. end is nil if the path ends
// before. least is the smallest arena on the path.
func (p *orderModel) followPath(order []int, limit int) (end *measuredOrder, least int) {
	least = math.MaxInt
	var lowest *measuredOrder // the order with the lowest peak whose arena was not computed
	for a := p.measured(order); a != nil; {
		if p.links != nil && a.peak > limit { // with many paths, only the arenas of their ends are computed
			if lowest == nil || a.peak < lowest.peak {
				lowest = a
			}
		} else if a.peak < least || a.peak <= limit { // the peak is a lower bound of the arena
			size := p.arena(a.order)
			least = min(least, size)
			if size <= limit {
				return p.dropRepeats(a, func(b *measuredOrder) bool { return b.peak <= limit && p.arena(b.order) <= limit }), least
			}
		}
		// A step may make earlier repetitions superfluous. Dropping them here
		// keeps paths short.
		next := p.lowerPeak(a)
		if next != nil {
			next = p.dropRepeats(next, func(b *measuredOrder) bool { return !next.less(b) })
		}
		a = next
	}
	if lowest != nil {
		least = min(least, p.arena(lowest.order))
	}
	return nil, least
}
