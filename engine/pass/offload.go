package pass

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// writeOffloads writes the steps of an order that fits the limit. First it
// searches the neighbours of the order for a faster one. Then it places the
// starts and ends of copies so that kernels wait least.
func (p *orderModel) writeOffloads(u *Unit, order []int, resident, limit int) {
	a := p.improve(p.measured(order), limit)
	steps, end := p.fitSteps(a, limit)
	u.Graph, u.Sequence = p.emit(steps)
	assignMemory(u)
	var ideal float64
	for _, id := range p.distinctOps(a.order) {
		ideal += p.links.time[id]
	}
	n, flops := p.repeats(a.order)
	bytes := func(elements int) int64 { return int64(elements) * int64(u.ElemBytes) }
	u.Recomputed = Recomputation{Operations: n, FLOPs: flops, SavedBytes: bytes(resident - u.Memory.ArenaSize), Slowdown: end / ideal}
	for _, s := range steps {
		if s.kind == beginOffload {
			u.Recomputed.Offloaded++
			u.Recomputed.OffloadedBytes += bytes(p.size[s.op])
		}
	}
	kept := 0
	for id := range p.g.Nodes {
		if p.forward[id] && p.recomputable[id] && p.size[id] > 0 {
			kept++
		}
	}
	freed := map[int]bool{}
	seen := map[int]bool{}
	for _, id := range a.order {
		if r := p.opOf[id]; seen[r] {
			freed[r] = true
		} else {
			seen[r] = true
		}
	}
	u.Graph.Notes = append(u.Graph.Notes, fmt.Sprintf(
		"the arena is %.1f MiB smaller, for a limit of %.1f MiB: of %d results of the forward pass %d are kept, %d (%.1f MiB) are offloaded to %s at %.1f and %.1f GB/s, %d operations, %.3f GFLOP, are recomputed; predicted %.3f ms per run, %.3f ms with all kept (%.2f)",
		float64(u.Recomputed.SavedBytes)/(1<<20), floorMiB(u.MemoryLimit), kept, kept-len(freed), u.Recomputed.Offloaded, float64(u.Recomputed.OffloadedBytes)/(1<<20), u.LinksTo,
		p.links.toHost*float64(u.ElemBytes)/1e9, p.links.fromHost*float64(u.ElemBytes)/1e9, n, float64(flops)/1e9, 1e3*end, 1e3*ideal, u.Recomputed.Slowdown))
}

// distinctOps lists the operations of an order, each once.
func (p *orderModel) distinctOps(order []int) []int {
	var out []int
	seen := make([]bool, len(p.g.Nodes))
	for _, id := range order {
		if id == p.opOf[id] && !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// offloadCopy is the copy of a result to host memory.
type offloadCopy struct {
	id                 int     // node of the result
	computed, lastRead int     // positions that compute it, and read it last before it is fetched
	waited             int     // position before which the program waits for the end of the copy
	end                float64 // time in seconds
}

// engineTimes holds the times, in seconds, at which the engines are free: for
// kernels, and for copies in each direction.
type engineTimes struct{ now, toHost, fromHost float64 }

// fetchCopy is a position of an order that fetches a result.
type fetchCopy struct {
	id, at int
	start  int // position before which the copy starts
}

// copySlack is the safety factor on the predicted time of a copy, used where
// more slack costs no memory.
const copySlack = 1.25

// scheduleCopies places the copies of an order whose peak is at most memory
// elements, if all copies start and end at one position, and returns the steps
// with their time:
//
//   - A copy to host memory starts after the operation that computes the
//     result. Its end is awaited when it is expected, or when other values need
//     the memory.
//   - Memory for fetched results is allocated in the order in which they are
//     read, each as early as possible. The copy then starts as late as possible
//     without a delay.
//
// It computes an early schedule first. From the time at which each position
// runs it derives the latest start of each fetch that delays nothing, from the
// last fetch to the first. The later schedule is used unless it is slower.
//
// The rules agree with Simulate of the package for block plans.
func (p *orderModel) scheduleCopies(a *measuredOrder, memory int) (steps []step, end float64) {
	slack := make([]int, len(a.order))
	for t, live := range a.live {
		slack[t] = max(0, memory-live)
	}
	offloads := p.placeOffloads(a, slack)
	fetches := p.placeFetches(a, offloads, slack)
	steps = p.writeSteps(a.order, offloads, fetches)
	early, times := p.simulate(steps)
	// Start fetches later, as long as nothing waits for them.
	need := make([]float64, len(a.order)) // start time, by position
	t := 0
	for i, s := range steps {
		if s.kind == compute || s.kind == endFetch {
			need[t] = times[i]
			t++
		}
	}
	// Copies from the host run one after the other. So the latest start of a
	// fetch also respects the fetch after it.
	latest, next := math.Inf(1), len(a.order)
	for i := len(fetches) - 1; i >= 0; i-- {
		f := &fetches[i]
		length := float64(p.size[f.id]) / p.links.fromHost
		latest = min(latest, need[f.at]) - length
		for f.start < min(f.at, next) && need[f.start+1] <= latest-(copySlack-1)*length {
			f.start++
		}
		next = f.start
	}
	late := p.writeSteps(a.order, offloads, fetches)
	if end, _ := p.simulate(late); end <= early {
		return late, end
	}
	return steps, early
}

// placeOffloads chooses where the program waits for copies to host memory, and
// subtracts the memory that they hold until then from slack, the free elements
// by position. The oldest copy is awaited first, since the copy engine works in
// order. A copy is awaited in any case before its result is fetched.
func (p *orderModel) placeOffloads(a *measuredOrder, slack []int) []offloadCopy {
	fetched := slices.Clone(p.fetched(a.order))
	var offloads []offloadCopy
	var pending []int // indices of offloads, by the end of their copies
	var c engineTimes
	for t, id := range a.order {
		wait := func(k int) {
			l := &offloads[pending[k]]
			c.now, l.waited = max(c.now, l.end), t
			pending = slices.Delete(pending, k, k+1)
		}
		// Wait for copies that have ended by now, with a margin: this costs
		// nothing and frees their memory.
		for k := 0; k < len(pending); {
			l := &offloads[pending[k]]
			length := float64(p.size[l.id]) / p.links.toHost
			if l.lastRead < t && l.end+(copySlack-1)*length <= c.now || id == p.fetchNumber(l.id) {
				wait(k)
				continue
			}
			k++
		}
		// Wait for more copies while their memory is needed at this position.
		for {
			room, oldest := 0, -1
			for k, i := range pending {
				if offloads[i].lastRead < t {
					room += p.size[offloads[i].id]
					if oldest < 0 {
						oldest = k
					}
				}
			}
			if room <= slack[t] || oldest < 0 {
				slack[t] -= room
				break
			}
			wait(oldest)
		}
		c.now += p.links.time[id]
		if r := p.opOf[id]; r != id {
			c.now += float64(p.size[r]) * p.links.lost
		} else if fetched[id] {
			fetched[id] = false
			c.toHost = max(c.now, c.toHost) + float64(p.size[id])/p.links.toHost
			c.now += float64(p.size[id]) * p.links.lost
			offloads = append(offloads, offloadCopy{id: id, computed: t, lastRead: a.last[t], end: c.toHost})
			pending = append(pending, len(offloads)-1)
		}
	}
	return offloads
}

// placeFetches chooses where fetches start: each as early as there is memory,
// in the order in which they are read. A fetch never starts before its copy to
// the host has ended, nor before the previous fetch.
func (p *orderModel) placeFetches(a *measuredOrder, offloads []offloadCopy, slack []int) []fetchCopy {
	waited := map[int]int{}
	for _, l := range offloads {
		waited[l.id] = l.waited
	}
	var fetches []fetchCopy
	from := 0
	for t, id := range a.order {
		r := p.opOf[id]
		if r == id {
			continue
		}
		from = max(from, waited[r])
		// Move the start back as long as every position up to the read has
		// memory for the result.
		start := t
		for start > from && slack[start-1] >= p.size[r] {
			start--
			slack[start] -= p.size[r]
		}
		from = start
		fetches = append(fetches, fetchCopy{id: r, at: t, start: start})
	}
	return fetches
}

// writeSteps writes the steps of an order with its placed copies.
func (p *orderModel) writeSteps(order []int, offloads []offloadCopy, fetches []fetchCopy) []step {
	steps := make([]step, 0, len(order)+2*len(offloads)+len(fetches))
	offloaded, waits := make([]int, len(order)), make([][]int, len(order))
	for i := range offloaded {
		offloaded[i] = -1
	}
	for _, l := range offloads {
		offloaded[l.computed] = l.id
		waits[l.waited] = append(waits[l.waited], l.id)
	}
	for t, id := range order {
		for _, r := range waits[t] {
			steps = append(steps, step{endOffload, r})
		}
		for len(fetches) > 0 && fetches[0].start == t {
			steps = append(steps, step{beginFetch, fetches[0].id})
			fetches = fetches[1:]
		}
		if r := p.opOf[id]; r != id {
			steps = append(steps, step{endFetch, r})
			continue
		}
		steps = append(steps, step{compute, id})
		if offloaded[t] >= 0 {
			steps = append(steps, step{beginOffload, offloaded[t]})
		}
	}
	return steps
}

// simulate simulates steps on the engines, each of which works in order. It
// returns the end of the last kernel and the start of each step, in seconds.
func (p *orderModel) simulate(steps []step) (end float64, begins []float64) {
	var c engineTimes
	out, in := map[int]float64{}, map[int]float64{}
	begins = make([]float64, len(steps))
	for i, s := range steps {
		n := float64(p.size[s.op])
		switch s.kind {
		case beginOffload:
			c.toHost = max(c.now, c.toHost) + n/p.links.toHost
			out[s.op] = c.toHost
			c.now += n * p.links.lost
		case endOffload:
			c.now = max(c.now, out[s.op])
		case beginFetch:
			c.fromHost = max(c.now, c.fromHost) + n/p.links.fromHost
			in[s.op] = c.fromHost
			c.now += n * p.links.lost
		case endFetch:
			c.now = max(c.now, in[s.op])
		}
		begins[i] = c.now
		if s.kind == compute {
			c.now += p.links.time[s.op]
		}
	}
	return c.now, begins
}

// rated is the time of an order for comparisons: with the margin of its copies.
func (p *orderModel) rated(a *measuredOrder, end float64) float64 {
	if slices.Contains(p.fetched(a.order), true) {
		return end / (1 - p.links.margin)
	}
	return end
}

// fastest returns the order of the fastest plan within the limit, or nil if
// there are no plans.
func (p *orderModel) fastest(plans []*measuredOrder, limit int) (best []int) {
	type timed struct {
		*measuredOrder
		least float64 // time without fragmentation of the arena
	}
	var all []timed
	for _, a := range plans {
		_, end := p.scheduleCopies(a, limit)
		all = append(all, timed{a, p.rated(a, end)})
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.least, b.least) })
	fastest := math.Inf(1)
	for _, a := range all {
		if a.least >= fastest {
			break
		}
		_, end := p.fitSteps(a.measuredOrder, limit)
		if end = p.rated(a.measuredOrder, end); end < fastest {
			best, fastest = a.order, end
		}
	}
	return best
}

// fitSteps returns steps of an order that fit the limit. Copies get the memory
// above the peak of the order, less fragmentation of the arena.
func (p *orderModel) fitSteps(a *measuredOrder, limit int) ([]step, float64) {
	for memory := limit; ; {
		steps, end := p.scheduleCopies(a, memory)
		size := p.arenaOf(steps)
		if size <= limit {
			return steps, end
		}
		if memory <= a.peak {
			break
		}
		memory = max(a.peak, memory-max(size-limit, limit/128))
	}
	steps := p.blockingSteps(a.order)
	end, _ := p.simulate(steps)
	return steps, end
}

// improve searches locally for a faster order that fits the limit. A change
// keeps a freed result, or replaces recomputation by a fetch, or the reverse.
// The first change that saves more than a thousandth of the time is accepted,
// and the search starts again. Candidates are first rated by a schedule with
// the memory that fragmentation leaves; the arena is computed only for
// promising ones.
func (p *orderModel) improve(a *measuredOrder, limit int) *measuredOrder {
	steps, _ := p.fitSteps(a, limit)
	// Fragmentation of the arena is similar for neighbours.
	memory := limit - max(0, p.arenaOf(steps)-p.peakOf(a, steps))
	_, end := p.scheduleCopies(a, memory)
	end = p.rated(a, end)
	for better := true; better; {
		better = false
		for _, b := range p.neighbours(a) {
			if b.peak > memory || b.peak > limit {
				continue
			}
			_, e := p.scheduleCopies(b, memory)
			if p.rated(b, e) < end*(1-1e-3) && p.arena(b.order) <= limit {
				_, real := p.fitSteps(b, limit)
				if real = p.rated(b, real); real < end*(1-1e-3) {
					a, end, better = b, real, true
					break
				}
			}
		}
	}
	return a
}

// peakOf is the largest number of elements alive with these steps of an order.
func (p *orderModel) peakOf(a *measuredOrder, steps []step) int {
	u := &Unit{Device: Device{ElemBytes: 1, ExternalGrads: p.externalGrads}, Options: Options{DonateInputs: p.donateInputs}}
	u.Graph, u.Sequence = p.emit(steps)
	assignMemory(u)
	return max(a.peak, u.Memory.LowerBound)
}

// neighbours lists the orders that differ from a by one change.
func (p *orderModel) neighbours(a *measuredOrder) []*measuredOrder {
	var out []*measuredOrder
	add := func(order []int) { out = append(out, p.measured(order)) }
	for t, id := range a.order {
		if !a.repeated[t] {
			continue
		}
		without := append(slices.Clone(a.order[:t]), a.order[t+1:]...)
		add(p.tidy(slices.Clone(without)))
		r := p.opOf[id]
		b := p.measured(without)
		if r == id {
			add(p.fetchAt(b, r, t, nil))
			continue
		}
		for rule := range numOperandRules {
			order, choice := p.recomputeAt(b, r, t, rule, nil)
			add(order)
			if !choice {
				break
			}
		}
	}
	return out
}
