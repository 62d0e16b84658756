package pass

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// writeOffloads writes the steps of an order that fits the limit, after a search among its
// neighbours for one that takes less time, with copies that begin and end where they wait
// least.
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
	gone := map[int]bool{}
	seen := map[int]bool{}
	for _, id := range a.order {
		if r := p.opOf[id]; seen[r] {
			gone[r] = true
		} else {
			seen[r] = true
		}
	}
	u.Graph.Notes = append(u.Graph.Notes, fmt.Sprintf(
		"the arena is %.1f MiB smaller for a limit of %.1f MiB: of %d results of the forward pass %d are kept, %d (%.1f MiB) leave for the program's memory over links of %.1f and %.1f GB/s, %d operations, %.3f GFLOP, are computed again; predicted %.3f ms a run, %.3f ms with all kept (%.2f)",
		float64(u.Recomputed.SavedBytes)/(1<<20), floorMiB(u.MemoryLimit), kept, kept-len(gone), u.Recomputed.Offloaded, float64(u.Recomputed.OffloadedBytes)/(1<<20),
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

// offloadCopy is a result that is copied to the program's memory.
type offloadCopy struct {
	id                 int
	computed, lastRead int // places that compute it, and read it last before it is fetched
	waited             int // place before which the copy has ended
	end                float64
}

// engineTimes are the engines: one that computes, one for each direction.
type engineTimes struct{ now, toHost, fromHost float64 }

// fetchCopy is a place of an order that fetches a result.
type fetchCopy struct {
	id, at int
	begun  int // place before which the copy begins
}

// copySlack is by how much longer a copy may take than it should before anything waits for it,
// where that costs no memory.
const copySlack = 1.25

// scheduleCopies places the copies of an order that needs no more than so many elements when all
// copies begin and end at once, and gives the time of its steps:
//
//   - A copy to the program's memory begins behind the operation that computes the result.
//     Its end is waited for once it has come, or when others need the room.
//   - Room for results that come back is given in the order in which they are read, each as
//     early as it is there; the copy then begins as late as that delays nothing.
//
// It follows the rules of offload.Simulate for blocks.
func (p *orderModel) scheduleCopies(a *measuredOrder, memory int) (steps []step, end float64) {
	slack := make([]int, len(a.order))
	for t, live := range a.live {
		slack[t] = max(0, memory-live)
	}
	leaves := p.placeOffloads(a, slack)
	arrivals := p.placeFetches(a, leaves, slack)
	steps = p.writeSteps(a.order, leaves, arrivals)
	early, times := p.simulate(steps)
	// later, as long as nothing waits for it
	need := make([]float64, len(a.order)) // when places begin
	t := 0
	for i, s := range steps {
		if s.kind == compute || s.kind == endFetch {
			need[t] = times[i]
			t++
		}
	}
	latest, next := math.Inf(1), len(a.order)
	for i := len(arrivals) - 1; i >= 0; i-- {
		f := &arrivals[i]
		length := float64(p.size[f.id]) / p.links.fromHost
		latest = min(latest, need[f.at]) - length
		for f.begun < min(f.at, next) && need[f.begun+1] <= latest-(copySlack-1)*length {
			f.begun++
		}
		next = f.begun
	}
	late := p.writeSteps(a.order, leaves, arrivals)
	if end, _ := p.simulate(late); end <= early {
		return late, end
	}
	return steps, early
}

// placeOffloads chooses where copies to the program's memory end, and takes the room that they
// hold until then from slack.
func (p *orderModel) placeOffloads(a *measuredOrder, slack []int) []offloadCopy {
	fetched := slices.Clone(p.fetched(a.order))
	var leaves []offloadCopy
	var pending []int // of leaves, by the end of their copies
	var c engineTimes
	for t, id := range a.order {
		wait := func(k int) {
			l := &leaves[pending[k]]
			c.now, l.waited = max(c.now, l.end), t
			pending = slices.Delete(pending, k, k+1)
		}
		for k := 0; k < len(pending); {
			l := &leaves[pending[k]]
			length := float64(p.size[l.id]) / p.links.toHost
			if l.lastRead < t && l.end+(copySlack-1)*length <= c.now || id == p.fetchNumber(l.id) {
				wait(k)
				continue
			}
			k++
		}
		for {
			room, oldest := 0, -1
			for k, i := range pending {
				if leaves[i].lastRead < t {
					room += p.size[leaves[i].id]
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
		if id == p.opOf[id] && fetched[id] {
			fetched[id] = false
			c.toHost = max(c.now, c.toHost) + float64(p.size[id])/p.links.toHost
			leaves = append(leaves, offloadCopy{id: id, computed: t, lastRead: a.last[t], end: c.toHost})
			pending = append(pending, len(leaves)-1)
		}
	}
	return leaves
}

// placeFetches chooses where copies back begin, each as early as there is room, in the order in
// which they are read.
func (p *orderModel) placeFetches(a *measuredOrder, leaves []offloadCopy, slack []int) []fetchCopy {
	joined := map[int]int{}
	for _, l := range leaves {
		joined[l.id] = l.waited
	}
	var arrivals []fetchCopy
	from := 0
	for t, id := range a.order {
		r := p.opOf[id]
		if r == id {
			continue
		}
		from = max(from, joined[r])
		begun := t
		for begun > from && slack[begun-1] >= p.size[r] {
			begun--
			slack[begun] -= p.size[r]
		}
		from = begun
		arrivals = append(arrivals, fetchCopy{id: r, at: t, begun: begun})
	}
	return arrivals
}

// writeSteps writes an order with the copies where they were placed.
func (p *orderModel) writeSteps(order []int, leaves []offloadCopy, arrivals []fetchCopy) []step {
	steps := make([]step, 0, len(order)+2*len(leaves)+len(arrivals))
	made, joined := make([]int, len(order)), make([][]int, len(order))
	for i := range made {
		made[i] = -1
	}
	for _, l := range leaves {
		made[l.computed] = l.id
		joined[l.waited] = append(joined[l.waited], l.id)
	}
	for t, id := range order {
		for _, r := range joined[t] {
			steps = append(steps, step{endOffload, r})
		}
		for len(arrivals) > 0 && arrivals[0].begun == t {
			steps = append(steps, step{beginFetch, arrivals[0].id})
			arrivals = arrivals[1:]
		}
		if r := p.opOf[id]; r != id {
			steps = append(steps, step{endFetch, r})
			continue
		}
		steps = append(steps, step{compute, id})
		if made[t] >= 0 {
			steps = append(steps, step{beginOffload, made[t]})
		}
	}
	return steps
}

// simulate runs steps on the engines, each in order, and gives the end of the last kernel
// and when each step begins.
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
		case endOffload:
			c.now = max(c.now, out[s.op])
		case beginFetch:
			c.fromHost = max(c.now, c.fromHost) + n/p.links.fromHost
			in[s.op] = c.fromHost
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

// fastest gives the order of the plan that takes least time within the limit, nil of none.
func (p *orderModel) fastest(plans []*measuredOrder, limit int) (best []int) {
	type timed struct {
		*measuredOrder
		least float64 // without holes in the arena
	}
	var all []timed
	for _, a := range plans {
		_, end := p.scheduleCopies(a, limit)
		all = append(all, timed{a, end})
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.least, b.least) })
	fastest := math.Inf(1)
	for _, a := range all {
		if a.least >= fastest {
			break
		}
		if _, end := p.fitSteps(a.measuredOrder, limit); end < fastest {
			best, fastest = a.order, end
		}
	}
	return best
}

// fitSteps gives steps of an order that fits the limit: the copies get what the arena has
// beyond the least, less what its holes take.
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

// improve looks for an order that takes less time and fits the limit: it keeps what is
// given up, or fetches what is computed again, or the other way round.
func (p *orderModel) improve(a *measuredOrder, limit int) *measuredOrder {
	steps, _ := p.fitSteps(a, limit)
	// what the holes of the arena take is much the same for neighbours
	memory := limit - max(0, p.arenaOf(steps)-p.peakOf(a, steps))
	_, end := p.scheduleCopies(a, memory)
	for better := true; better; {
		better = false
		for _, b := range p.neighbours(a) {
			if b.peak > memory || b.peak > limit {
				continue
			}
			_, e := p.scheduleCopies(b, memory)
			if e < end*(1-1e-3) && p.arena(b.order) <= limit {
				if _, real := p.fitSteps(b, limit); real < end*(1-1e-3) {
					a, end, better = b, real, true
					break
				}
			}
		}
	}
	return a
}

// peakOf is the most elements alive with these steps of an order.
func (p *orderModel) peakOf(a *measuredOrder, steps []step) int {
	u := &Unit{Device: Device{ElemBytes: 1, ExternalGrads: p.externalGrads}, Options: Options{DonateInputs: p.donateInputs}}
	u.Graph, u.Sequence = p.emit(steps)
	assignMemory(u)
	return max(a.peak, u.Memory.LowerBound)
}

// neighbours lists orders with one change.
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
