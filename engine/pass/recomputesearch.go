package pass

import (
	"cmp"
	"math"
	"slices"
)

// operandRule is the rule for operands that are no longer in memory when a
// result is recomputed: recompute them too, or keep them until then.
type operandRule uint8

const (
	recomputeAll    operandRule = iota // recompute all of them
	recomputeCheap                     // recompute those whose time is bounded by memory traffic
	keepOperands                       // keep all of them
	numOperandRules                    // number of rules
)

// recomputeAt frees result id after its last use before position q of the order
// of a, and recomputes it at q, with its operands by the given rule. An operand
// is recomputed too if it is not in memory at q, neither from before nor within
// the recomputed chain. The order is written to the memory of to, and tidied:
// repetitions that become superfluous disappear. choice reports whether an
// operand had been freed, so that another rule would give another order.
func (p *orderModel) recomputeAt(a *measuredOrder, id, q int, rule operandRule, to []int) (order []int, choice bool) {
	// Position of the latest computation of each result before q.
	latest := p.now
	for t, id := range a.order[:q] {
		latest[p.opOf[id]] = t
	}
	order = append(to[:0], a.order[:q]...)
	var need func(id int)
	need = func(id int) {
		for _, r := range p.reads[id] {
			// In memory at q: read later anyway, recomputed or fetched for this
			// purpose, or never freed.
			if a.last[latest[r]] >= q || slices.Contains(order[q:], r) || p.isFetched(order[q:], r) || !p.recomputable[r] {
				continue
			}
			// A rule that does not recompute the operand leaves its last
			// computation before q in place. This extends its lifetime to q.
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

// lowerPeak frees one result that is alive but not needed at the peak of a,
// until its next use. It selects the one that lowers the peak at the least time
// per element. Results below 1/256 of the peak are tried only if no larger one
// helps. It returns nil if none helps: the path ends.
func (p *orderModel) lowerPeak(a *measuredOrder) *measuredOrder {
	for _, size := range []int{a.peak / 256, 0} {
		if b := p.lowerPeakBy(a, size); b != nil {
			return b
		}
	}
	return nil
}

// lowerPeakBy is lowerPeak for results of at least size elements. Candidates are
// results that are alive across the peak, are not read at it, and may be
// recomputed. For each one it tries the operand rules and, with copy engines, a
// fetch. The score is the additional time per element by which the memory near
// the peak falls.
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
	// Candidates were computed before the peak and are read after it.
	for t := a.peakAt - 1; t >= 0; t-- {
		id := p.opOf[a.order[t]]
		if a.last[t] <= a.peakAt || p.size[id] < size || !p.recomputable[id] || slices.Contains(p.reads[a.order[a.peakAt]], id) {
			continue
		}
		// The result is recomputed or fetched at its first reader after the
		// peak.
		q := a.peakAt + 1
		for !slices.Contains(p.reads[a.order[q]], id) {
			q++
		}
		// Without a freed operand all rules give the same order, so one
		// suffices.
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

// peakReduction measures how much less memory b needs than a at and near the
// peak of a: the elements above nine tenths of the peak, summed over
// operations. A measure of the peak alone would favour steps that lower it by
// little.
func peakReduction(a, b *measuredOrder) int {
	// Many operations near the peak need almost as much memory. A step that
	// lowers all of them is better than one that lowers a single one.
	line := a.peak / 10 * 9
	above := func(a *measuredOrder) (sum int) {
		for _, l := range a.live {
			sum += max(0, l-line)
		}
		return sum
	}
	return max(1, above(a)-above(b))
}

// dropRepeats removes repetitions, expensive ones first, as long as the
// remaining order fits. Later steps of a path often make earlier ones
// unnecessary. The search continues below the cost of the last removed
// repetition, so that every repetition is tried once per round.
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
		dropped := false
		for _, t := range places {
			dear = p.cost[a.order[t]]
			next.order = p.tidy(append(append(next.order[:0], a.order[:t]...), a.order[t+1:]...))
			p.measure(next)
			if fits(next) {
				a, next, dropped = next, &measuredOrder{}, true
				break
			}
		}
		if !dropped {
			return a
		}
	}
}
