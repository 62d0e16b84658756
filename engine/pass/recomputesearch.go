package pass

import (
	"cmp"
	"math"
	"slices"
)

// chain says what is done about operands that are gone when a result is computed
// again: they are computed again too, or kept until then.
type chain uint8

const (
	chainAll   chain = iota // compute all of them again
	chainCheap              // only those whose time is that of their memory traffic
	chainNone               // keep all of them
	chains
)

// giveUp computes result id again right before place q of the order of a, with
// what it needs by the rule given. The order is written to the memory of to.
// choice tells whether any operand was gone, so that another rule would have
// done otherwise.
func (p *program) giveUp(a *plan, id, q int, rule chain, to []int) (order []int, choice bool) {
	latest := p.now
	for t, id := range a.order[:q] {
		latest[p.of[id]] = t
	}
	order = append(to[:0], a.order[:q]...)
	var need func(id int)
	need = func(id int) {
		for _, r := range p.reads[id] {
			if a.last[latest[r]] >= q || slices.Contains(order[q:], r) || p.fetchedIn(order[q:], r) || !p.again[r] {
				continue
			}
			choice = true
			if rule == chainAll || rule == chainCheap && p.cheap[r] {
				need(r)
			}
		}
		order = append(order, id)
	}
	need(id)
	return p.tidy(append(order, a.order[q:]...)), choice
}

// step gives up one of the results that are alive and not needed at the peak of
// a, until it is needed next: that which lowers the peak for the least time per
// element. Results below a 256th of the peak are looked at only if no larger one
// helps. It returns nil if none does: the end of the path.
func (p *program) step(a *plan) *plan {
	for _, size := range []int{a.peak / 256, 0} {
		if b := p.stepOf(a, size); b != nil {
			return b
		}
	}
	return nil
}

// stepOf is step among results of at least so many elements.
func (p *program) stepOf(a *plan, size int) *plan {
	best, next := &plan{}, &plan{}
	found, bestScore := false, 0.0
	consider := func() {
		p.measure(next)
		if next.less(a) {
			if score := (next.cost - a.cost) / float64(lower(a, next)); !found || score < bestScore {
				found, bestScore = true, score
				best, next = next, best
			}
		}
	}
	for t := a.at - 1; t >= 0; t-- {
		id := p.of[a.order[t]]
		if a.last[t] <= a.at || p.size[id] < size || !p.again[id] || slices.Contains(p.reads[a.order[a.at]], id) {
			continue
		}
		q := a.at + 1
		for !slices.Contains(p.reads[a.order[q]], id) {
			q++
		}
		for rule := range chains {
			var choice bool
			next.order, choice = p.giveUp(a, id, q, rule, next.order)
			consider()
			if !choice {
				break
			}
		}
		if p.links != nil {
			next.order = p.away(a, id, q, next.order)
			consider()
		}
	}
	if !found {
		return nil
	}
	return best
}

// lower measures how much less memory b needs than a at and near the peak of a:
// the elements above nine tenths of it, summed over the operations. Steps that
// lower only the very peak would be chosen again and again otherwise.
func lower(a, b *plan) int {
	line := a.peak / 10 * 9
	above := func(a *plan) (sum int) {
		for _, l := range a.live {
			sum += max(0, l-line)
		}
		return sum
	}
	return max(1, above(a)-above(b))
}

// keepAgain takes back repeats, dear ones first, as long as what is left fits.
func (p *program) keepAgain(a *plan, fits func(b *plan) bool) *plan {
	next := &plan{}
	for dear := math.Inf(1); ; {
		var places []int
		for t, id := range a.order {
			if a.again[t] && p.cost[id] <= dear {
				places = append(places, t)
			}
		}
		slices.SortStableFunc(places, func(s, t int) int { return cmp.Compare(p.cost[a.order[t]], p.cost[a.order[s]]) })
		taken := false
		for _, t := range places {
			dear = p.cost[a.order[t]]
			next.order = p.tidy(append(append(next.order[:0], a.order[:t]...), a.order[t+1:]...))
			p.measure(next)
			if fits(next) {
				a, next, taken = next, &plan{}, true
				break
			}
		}
		if !taken {
			return a
		}
	}
}
