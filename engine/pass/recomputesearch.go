package pass

import (
	"cmp"
	"math"
	"slices"
)

// operandRule says what is done about operands that are gone when a result is computed
// again: they are computed again too, or kept until then.
type operandRule uint8

const (
	recomputeAll   operandRule = iota // compute all of them again
	recomputeCheap                    // only those whose time is that of their memory traffic
	keepOperands                      // keep all of them
	numOperandRules
)

// recomputeAt computes result id again right before place q of the order of a, with
// what it needs by the rule given. The order is written to the memory of to.
// choice tells whether any operand was gone, so that another rule would have
// done otherwise.
func (p *orderModel) recomputeAt(a *measuredOrder, id, q int, rule operandRule, to []int) (order []int, choice bool) {
	latest := p.now
	for t, id := range a.order[:q] {
		latest[p.opOf[id]] = t
	}
	order = append(to[:0], a.order[:q]...)
	var need func(id int)
	need = func(id int) {
		for _, r := range p.reads[id] {
			if a.last[latest[r]] >= q || slices.Contains(order[q:], r) || p.isFetched(order[q:], r) || !p.recomputable[r] {
				continue
			}
			choice = true
			if rule == recomputeAll || rule == recomputeCheap && p.cheap[r] {
				need(r)
			}
		}
		order = append(order, id)
	}
	need(id)
	return p.tidy(append(order, a.order[q:]...)), choice
}

// lowerPeak gives up one of the results that are alive and not needed at the peak of
// a, until it is needed next: that which lowers the peak for the least time per
// element. Results below a 256th of the peak are looked at only if no larger one
// helps. It returns nil if none does: the end of the path.
func (p *orderModel) lowerPeak(a *measuredOrder) *measuredOrder {
	for _, size := range []int{a.peak / 256, 0} {
		if b := p.lowerPeakBy(a, size); b != nil {
			return b
		}
	}
	return nil
}

// lowerPeakBy is step among results of at least so many elements.
func (p *orderModel) lowerPeakBy(a *measuredOrder, size int) *measuredOrder {
	best, next := &measuredOrder{}, &measuredOrder{}
	found, bestScore := false, 0.0
	consider := func() {
		p.measure(next)
		if next.less(a) {
			if score := (next.cost - a.cost) / float64(peakReduction(a, next)); !found || score < bestScore {
				found, bestScore = true, score
				best, next = next, best
			}
		}
	}
	for t := a.peakAt - 1; t >= 0; t-- {
		id := p.opOf[a.order[t]]
		if a.last[t] <= a.peakAt || p.size[id] < size || !p.recomputable[id] || slices.Contains(p.reads[a.order[a.peakAt]], id) {
			continue
		}
		q := a.peakAt + 1
		for !slices.Contains(p.reads[a.order[q]], id) {
			q++
		}
		for rule := range numOperandRules {
			var choice bool
			next.order, choice = p.recomputeAt(a, id, q, rule, next.order)
			consider()
			if !choice {
				break
			}
		}
		if p.links != nil {
			next.order = p.fetchAt(a, id, q, next.order)
			consider()
		}
	}
	if !found {
		return nil
	}
	return best
}

// peakReduction measures how much less memory b needs than a at and near the peak of a:
// the elements above nine tenths of it, summed over the operations. Steps that
// lower only the very peak would be chosen again and again otherwise.
func peakReduction(a, b *measuredOrder) int {
	line := a.peak / 10 * 9
	above := func(a *measuredOrder) (sum int) {
		for _, l := range a.live {
			sum += max(0, l-line)
		}
		return sum
	}
	return max(1, above(a)-above(b))
}

// dropRepeats takes back repeats, dear ones first, as long as what is left fits.
func (p *orderModel) dropRepeats(a *measuredOrder, fits func(b *measuredOrder) bool) *measuredOrder {
	next := &measuredOrder{}
	for dear := math.Inf(1); ; {
		var places []int
		for t, id := range a.order {
			if a.repeated[t] && p.cost[id] <= dear {
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
				a, next, taken = next, &measuredOrder{}, true
				break
			}
		}
		if !taken {
			return a
		}
	}
}
