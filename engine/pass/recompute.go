package pass

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Recomputation sums up what is computed a second time in every run to save memory.
type Recomputation struct {
	Operations int
	FLOPs      int64
	// SavedBytes is the bytes by which the arena is smaller for it, Slower the factor
	// on the time of a run by the model of costs.
	SavedBytes int64
	Slowdown   float64
	// Offloaded is how many results lie in the program's memory for a while, and OffloadedBytes how much
	// that is, over links of a device; Slower counts what is waited for.
	Offloaded      int
	OffloadedBytes int64
}

// MemoryLimitError says that no plan was found that fits a limit of the memory.
type MemoryLimitError struct {
	Limit    int64 // bytes
	Smallest int64 // bytes, of arena and scratch: the least limit for which Compile succeeds
}

// Error names both.
func (e *MemoryLimitError) Error() string {
	return fmt.Sprintf("%d bytes are needed, %d allowed", e.Smallest, e.Limit)
}

// recompute makes the arena fit the limit of the memory, less the scratch that the
// kernels cannot do without, if there is a limit and the order of execution does
// not fit as it is: results of the forward pass that the
// backward pass reads are given up and computed again right before they are
// read, by the same operations on the same operands, so the bits are the same.
//
// Which ones is searched for along several paths. Each begins with an order of
// execution that either keeps all or carries out a plan of package offload for its
// blocks, letters K and R (and S where there are links to swap over), then gives up
// one result after the other: always the one that lowers the peak for the least
// time. A path ends when its arena fits; of the ends the one that computes least
// again is taken, after taking back what the limit does not need. No path depends
// on the limit, so the smallest arena on all of them is the smallest limit that
// succeeds.
//
// Over the links of a device results may also be copied to the program's memory and back
// (links.go). Paths are then followed for several weights of the time of these copies, ends
// are compared by the time that engines of kernels and of copies in each direction need,
// and the best is improved by small changes (offload.go).
//
// Errors: exit.NoDevice with that smallest limit, and *MemoryLimitError inside.
//
// Source: Wahib et al. 2020, arXiv:2008.11421, for the blocks; Chen et al. 2016,
// arXiv:1604.06174, for recomputation.
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
		toHost, fromHost, err := u.Links()
		if err != nil {
			return err
		}
		if toHost > 0 && fromHost > 0 {
			p.enableCopies(u, toHost, fromHost)
		}
	}
	order, smallest := p.searchPaths(initialOrders(u), limit)
	bytes := func(elements int) int64 { return int64(elements) * int64(u.ElemBytes) }
	if order == nil {
		least := bytes(smallest) + scratch
		whatever := "is computed again"
		if p.links != nil {
			whatever = "leaves or is computed again"
		}
		need := exit.Error{Code: exit.NoDevice,
			What: fmt.Sprintf("the plan needs at least %d MiB of memory, the limit is %.1f MiB", ceilMiB(least), floorMiB(u.MemoryLimit)),
			Why: fmt.Sprintf("with all results kept it needs %d MiB; no smaller plan was found, whatever %s",
				ceilMiB(bytes(resident)+scratch), whatever),
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
		"the arena is %.1f MiB smaller for a limit of %.1f MiB: %d operations, %.3f GFLOP, are computed again (%.1f %% of the time of a run, predicted)",
		float64(u.Recomputed.SavedBytes)/(1<<20), floorMiB(u.MemoryLimit), n, float64(flops)/1e9, 100*(u.Recomputed.Slowdown-1)))
	return nil
}

// ceilMiB is the whole number of MiB that holds so many bytes.
func ceilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// floorMiB is so many bytes in MiB, rounded down to one decimal.
func floorMiB(bytes int64) float64 { return math.Floor(float64(bytes)/(1<<20)*10) / 10 }

// initialOrders lists the orders of execution at which the paths begin, the one in
// use first.
func initialOrders(u *Unit) [][]int {
	given := givenOrder(u.Graph)
	return [][]int{u.Sequence, given, greedyOrder(u.Graph, len(given))}
}

// arena is the size of the arena with an order, in elements.
func (p *orderModel) arena(order []int) int { return p.arenaOf(p.blockingSteps(order)) }

// arenaOf is arena of steps.
func (p *orderModel) arenaOf(steps []step) int {
	u := &Unit{Device: Device{ElemBytes: 1, ExternalGrads: p.externalGrads}, Options: Options{DonateInputs: p.donateInputs}}
	u.Graph, u.Sequence = p.emit(steps)
	assignMemory(u)
	return u.Memory.ArenaSize
}

// searchPaths follows all paths and gives the order with the least time whose arena
// fits the limit, nil if there is none, and the smallest arena that it saw.
func (p *orderModel) searchPaths(starts [][]int, limit int) (best []int, smallest int) {
	smallest = math.MaxInt
	fastest := math.Inf(1)
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
	for i, w := range copyWeights {
		if i == 2 && ends == nil {
			break
		}
		p.setCopyWeight(w)
		paths()
	}
	return p.fastest(ends, limit), smallest
}

// followPath follows one path up to the first order whose arena fits, and takes back
// what the limit does not need; nil if the path ends before. least is the smallest
// arena on the way.
func (p *orderModel) followPath(order []int, limit int) (end *measuredOrder, least int) {
	least = math.MaxInt
	var lowest *measuredOrder // of those that no arena was made for
	for a := p.measured(order); a != nil; {
		if p.links != nil && a.peak > limit { // paths are many: only their ends count
			if lowest == nil || a.peak < lowest.peak {
				lowest = a
			}
		} else if a.peak < least || a.peak <= limit { // no arena is smaller than the peak
			size := p.arena(a.order)
			least = min(least, size)
			if size <= limit {
				return p.dropRepeats(a, func(b *measuredOrder) bool { return b.peak <= limit && p.arena(b.order) <= limit }), least
			}
		}
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
