package pass

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// offload writes the steps of an order that fits the limit, after a search among its
// neighbours for one that takes less time, with copies that begin and end where they wait
// least.
func (p *program) offload(u *Unit, order []int, resident, limit int) {
	a := p.improve(p.plan(order), limit)
	steps, end := p.within(a, limit)
	u.Graph, u.Sequence = p.emit(steps)
	layOut(u)
	var ideal float64
	for _, id := range p.lastOf(a.order) {
		ideal += p.links.time[id]
	}
	n, flops := p.repeats(a.order)
	bytes := func(elements int) int64 { return int64(elements) * int64(u.ElemBytes) }
	u.Again = Again{Operations: n, FLOPs: flops, Saved: bytes(resident - u.Memory.ArenaSize), Slower: end / ideal}
	for _, s := range steps {
		if s.do == beginOffload {
			u.Again.Away++
			u.Again.AwayBytes += bytes(p.size[s.of])
		}
	}
	kept := 0
	for id := range p.g.Nodes {
		if p.forward[id] && p.again[id] && p.size[id] > 0 {
			kept++
		}
	}
	gone := map[int]bool{}
	seen := map[int]bool{}
	for _, id := range a.order {
		if r := p.of[id]; seen[r] {
			gone[r] = true
		} else {
			seen[r] = true
		}
	}
	u.Graph.Notes = append(u.Graph.Notes, fmt.Sprintf(
		"the arena is %.1f MiB smaller for a limit of %.1f MiB: of %d results of the forward pass %d are kept, %d (%.1f MiB) leave for the program's memory over links of %.1f and %.1f GB/s, %d operations, %.3f GFLOP, are computed again; predicted %.3f ms a run, %.3f ms with all kept (%.2f)",
		float64(u.Again.Saved)/(1<<20), floorMiB(u.MemoryLimit), kept, kept-len(gone), u.Again.Away, float64(u.Again.AwayBytes)/(1<<20),
		p.links.toHost*float64(u.ElemBytes)/1e9, p.links.fromHost*float64(u.ElemBytes)/1e9, n, float64(flops)/1e9, 1e3*end, 1e3*ideal, u.Again.Slower))
}

// lastOf lists the operations of an order, each once.
func (p *program) lastOf(order []int) []int {
	var out []int
	seen := make([]bool, len(p.g.Nodes))
	for _, id := range order {
		if id == p.of[id] && !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// leave is a result that is copied to the program's memory.
type leave struct {
	id          int
	made, until int // places that compute it, and read it last before it is fetched
	joined      int // place before which the copy has ended
	end         float64
}

// clock are the engines: one that computes, one for each direction.
type clock struct{ now, toHost, fromHost float64 }

// arrival is a place of an order that fetches a result.
type arrival struct {
	id, at int
	begun  int // place before which the copy begins
}

// care is by how much longer a copy may take than it should before anything waits for it,
// where that costs no memory.
const care = 1.25

// timed places the copies of an order that needs no more than so many elements when all
// copies begin and end at once, and gives the time of its steps:
//
//   - A copy to the program's memory begins behind the operation that computes the result.
//     Its end is waited for once it has come, or when others need the room.
//   - Room for results that come back is given in the order in which they are read, each as
//     early as it is there; the copy then begins as late as that delays nothing.
//
// It follows the rules of karma.Simulate for blocks.
func (p *program) timed(a *plan, memory int) (steps []step, end float64) {
	slack := make([]int, len(a.order))
	for t, live := range a.live {
		slack[t] = max(0, memory-live)
	}
	leaves := p.depart(a, slack)
	arrivals := p.arrive(a, leaves, slack)
	steps = p.arrange(a.order, leaves, arrivals)
	early, times := p.replay(steps)
	// later, as long as nothing waits for it
	need := make([]float64, len(a.order)) // when places begin
	t := 0
	for i, s := range steps {
		if s.do == compute || s.do == endFetch {
			need[t] = times[i]
			t++
		}
	}
	latest, next := math.Inf(1), len(a.order)
	for i := len(arrivals) - 1; i >= 0; i-- {
		f := &arrivals[i]
		length := float64(p.size[f.id]) / p.links.fromHost
		latest = min(latest, need[f.at]) - length
		for f.begun < min(f.at, next) && need[f.begun+1] <= latest-(care-1)*length {
			f.begun++
		}
		next = f.begun
	}
	late := p.arrange(a.order, leaves, arrivals)
	if end, _ := p.replay(late); end <= early {
		return late, end
	}
	return steps, early
}

// depart chooses where copies to the program's memory end, and takes the room that they
// hold until then from slack.
func (p *program) depart(a *plan, slack []int) []leave {
	fetched := slices.Clone(p.fetched(a.order))
	var leaves []leave
	var pending []int // of leaves, by the end of their copies
	var c clock
	for t, id := range a.order {
		wait := func(k int) {
			l := &leaves[pending[k]]
			c.now, l.joined = max(c.now, l.end), t
			pending = slices.Delete(pending, k, k+1)
		}
		for k := 0; k < len(pending); {
			l := &leaves[pending[k]]
			length := float64(p.size[l.id]) / p.links.toHost
			if l.until < t && l.end+(care-1)*length <= c.now || id == p.fetch(l.id) {
				wait(k)
				continue
			}
			k++
		}
		for {
			room, oldest := 0, -1
			for k, i := range pending {
				if leaves[i].until < t {
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
		if id == p.of[id] && fetched[id] {
			fetched[id] = false
			c.toHost = max(c.now, c.toHost) + float64(p.size[id])/p.links.toHost
			leaves = append(leaves, leave{id: id, made: t, until: a.last[t], end: c.toHost})
			pending = append(pending, len(leaves)-1)
		}
	}
	return leaves
}

// arrive chooses where copies back begin, each as early as there is room, in the order in
// which they are read.
func (p *program) arrive(a *plan, leaves []leave, slack []int) []arrival {
	joined := map[int]int{}
	for _, l := range leaves {
		joined[l.id] = l.joined
	}
	var arrivals []arrival
	from := 0
	for t, id := range a.order {
		r := p.of[id]
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
		arrivals = append(arrivals, arrival{id: r, at: t, begun: begun})
	}
	return arrivals
}

// arrange writes an order with the copies where they were placed.
func (p *program) arrange(order []int, leaves []leave, arrivals []arrival) []step {
	steps := make([]step, 0, len(order)+2*len(leaves)+len(arrivals))
	made, joined := make([]int, len(order)), make([][]int, len(order))
	for i := range made {
		made[i] = -1
	}
	for _, l := range leaves {
		made[l.made] = l.id
		joined[l.joined] = append(joined[l.joined], l.id)
	}
	for t, id := range order {
		for _, r := range joined[t] {
			steps = append(steps, step{endOffload, r})
		}
		for len(arrivals) > 0 && arrivals[0].begun == t {
			steps = append(steps, step{beginFetch, arrivals[0].id})
			arrivals = arrivals[1:]
		}
		if r := p.of[id]; r != id {
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

// replay runs steps on the engines, each in order, and gives the end of the last kernel
// and when each step begins.
func (p *program) replay(steps []step) (end float64, begins []float64) {
	var c clock
	out, in := map[int]float64{}, map[int]float64{}
	begins = make([]float64, len(steps))
	for i, s := range steps {
		n := float64(p.size[s.of])
		switch s.do {
		case beginOffload:
			c.toHost = max(c.now, c.toHost) + n/p.links.toHost
			out[s.of] = c.toHost
		case endOffload:
			c.now = max(c.now, out[s.of])
		case beginFetch:
			c.fromHost = max(c.now, c.fromHost) + n/p.links.fromHost
			in[s.of] = c.fromHost
		case endFetch:
			c.now = max(c.now, in[s.of])
		}
		begins[i] = c.now
		if s.do == compute {
			c.now += p.links.time[s.of]
		}
	}
	return c.now, begins
}

// choose gives the order of the plan that takes least time within the limit, nil of none.
func (p *program) choose(plans []*plan, limit int) (best []int) {
	type timed struct {
		*plan
		least float64 // without holes in the arena
	}
	var all []timed
	for _, a := range plans {
		_, end := p.timed(a, limit)
		all = append(all, timed{a, end})
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.least, b.least) })
	fastest := math.Inf(1)
	for _, a := range all {
		if a.least >= fastest {
			break
		}
		if _, end := p.within(a.plan, limit); end < fastest {
			best, fastest = a.order, end
		}
	}
	return best
}

// within gives steps of an order that fits the limit: the copies get what the arena has
// beyond the least, less what its holes take.
func (p *program) within(a *plan, limit int) ([]step, float64) {
	for memory := limit; ; {
		steps, end := p.timed(a, memory)
		size := p.arenaOf(steps)
		if size <= limit {
			return steps, end
		}
		if memory <= a.peak {
			break
		}
		memory = max(a.peak, memory-max(size-limit, limit/128))
	}
	steps := p.atOnce(a.order)
	end, _ := p.replay(steps)
	return steps, end
}

// improve looks for an order that takes less time and fits the limit: it keeps what is
// given up, or fetches what is computed again, or the other way round.
func (p *program) improve(a *plan, limit int) *plan {
	steps, _ := p.within(a, limit)
	// what the holes of the arena take is much the same for neighbours
	memory := limit - max(0, p.arenaOf(steps)-p.peakOf(a, steps))
	_, end := p.timed(a, memory)
	for better := true; better; {
		better = false
		for _, b := range p.neighbours(a) {
			if b.peak > memory || b.peak > limit {
				continue
			}
			_, e := p.timed(b, memory)
			if e < end*(1-1e-3) && p.arena(b.order) <= limit {
				if _, real := p.within(b, limit); real < end*(1-1e-3) {
					a, end, better = b, real, true
					break
				}
			}
		}
	}
	return a
}

// peakOf is the most elements alive with these steps of an order.
func (p *program) peakOf(a *plan, steps []step) int {
	u := &Unit{Device: Device{ElemBytes: 1, Taken: p.taken}, Wanted: Wanted{Consume: p.consume}}
	u.Graph, u.Sequence = p.emit(steps)
	layOut(u)
	return max(a.peak, u.Memory.Lower)
}

// neighbours lists orders with one change.
func (p *program) neighbours(a *plan) []*plan {
	var out []*plan
	add := func(order []int) { out = append(out, p.plan(order)) }
	for t, id := range a.order {
		if !a.again[t] {
			continue
		}
		without := append(slices.Clone(a.order[:t]), a.order[t+1:]...)
		add(p.tidy(slices.Clone(without)))
		r := p.of[id]
		b := p.plan(without)
		if r == id {
			add(p.away(b, r, t, nil))
			continue
		}
		for rule := range chains {
			order, choice := p.giveUp(b, r, t, rule, nil)
			add(order)
			if !choice {
				break
			}
		}
	}
	return out
}
