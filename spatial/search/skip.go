package search

import (
	"math/rand/v2"
	"slices"
)

// Steps of all units together that SkipStep plays, and the fewest periods. With them the time of a step has a standard error of at
// most some tenths of a per cent.
const (
	playedSteps  = 200_000
	leastPeriods = 8
)

// SkipStep is LateStep of units that leave out the steps whose exchanges began without them (partial.EagerOptions.Skip), for the
// starts FirstStart, DrawnStart and GroupStart. It returns the mean time of a step, in seconds, and the share of the units' steps
// that are left out.
//
// A unit that can begin at time u would arrive at u + c, and the exchange of a step starts at m, the least such time of its group or that
// of a drawn unit. With n, the time of the notices,
//
//	u > m              the step is left out
//	u ≤ m < u + c − n  computed, and late: the unit continues at max(u + c, m + s)
//	u + c ≤ m + n      computed, and on time: it continues at m + s
//
// In the exchange of a period that waits for all, a unit that was on time arrives at u + c. One that was late takes part at u, and leaves
// the step out. So all wait only for computations that have begun.
//
// The lag of a unit and the start of an exchange decide together whether it computes, so times are not followed as distributions, as in
// LateStep, but played with draws, equal in each call: independent ones of Times, and without these as many late units in each step as
// there are in the mean. Groups are drawn anew in each step.
func (b Imbalance) SkipStep(e LateExchange) (seconds, leftOut float64) {
	if !b.IsKnown() || e.Compute <= 0 || e.Start == AllStart || e.Start == NoStart || e.Period <= 1 {
		return b.LateStep(e), 0
	}
	p := newSkipping(b, e)
	periods := max(leastPeriods, playedSteps/(e.Units*e.Period))
	skipped := 0
	for range periods {
		for range e.Period - 1 {
			skipped += p.exchange()
		}
		skipped += p.waitForAll()
	}
	steps := float64(periods * e.Period)
	return p.units[0].front / steps, float64(skipped) / (steps * float64(e.Units))
}

// skippingUnit is a unit that leaves steps out.
type skippingUnit struct {
	times *sampler
	front float64 // when its last exchange ended
	ready float64 // when it can begin a step: the front, or later
	late  bool    // for its last exchange
}

// skipping plays units that leave steps out. Times are in seconds.
type skipping struct {
	e        LateExchange
	random   *rand.Rand
	units    []skippingUnit
	order    []int     // of the units, drawn for a step: groups of one exchange follow each other
	counted  bool      // the units of a step are all different quantiles of their times
	computes []float64 // by unit, for how long it computes if it does
	arrivals []float64 // by unit, when it would arrive at the exchange of the step
}

// newSkipping returns units that are even at time 0.
func newSkipping(b Imbalance, e LateExchange) *skipping {
	p := &skipping{e: e, random: rand.New(rand.NewPCG(1, uint64(e.Units))), units: make([]skippingUnit, e.Units),
		computes: make([]float64, e.Units), arrivals: make([]float64, e.Units), counted: len(b.Times) == 0}
	g := b.on(e.Units*e.Ranks).units(e, 1)
	at := 0
	for i, d := range g.ranks {
		s := newSampler(d.of, e.Compute*g.base+e.Wait, e.Compute*g.cell)
		for end := at + int(d.count+0.5); at < e.Units && (at < end || i == len(g.ranks)-1); at++ {
			p.units[at].times = s
		}
	}
	for i := range p.units {
		p.order = append(p.order, i)
	}
	return p
}

// draw draws the times and the order of the units in a step.
func (p *skipping) draw() {
	shuffle := func() {
		p.random.Shuffle(len(p.order), func(i, j int) { p.order[i], p.order[j] = p.order[j], p.order[i] })
	}
	shuffle()
	for k, i := range p.order {
		at := p.random.Float64()
		if p.counted {
			at = (float64(k) + at) / float64(len(p.order))
		}
		p.computes[i] = p.units[i].times.quantile(at)
	}
	if p.e.Start == GroupStart {
		shuffle()
	}
}

// exchange plays a step whose exchanges do not wait for all, and returns the number of units that leave it out.
func (p *skipping) exchange() (skipped int) {
	p.draw()
	size := p.e.Units
	if p.e.Start == GroupStart {
		size = max(1, p.e.Group)
	}
	for group := range slices.Chunk(p.order, size) {
		skipped += p.exchangeOf(group)
	}
	return skipped
}

// exchangeOf plays the exchange of a group. It takes what a unit has when the notice of the start has arrived and the last exchange of the unit has ended.
func (p *skipping) exchangeOf(group []int) (skipped int) {
	start, taken := 0., 0.
	for k, i := range group {
		u := &p.units[i]
		p.arrivals[i] = u.ready + p.computes[i]
		if k == 0 || p.arrivals[i] < start {
			start = p.arrivals[i]
		}
	}
	if p.e.Start == DrawnStart {
		start = p.arrivals[group[p.random.IntN(len(group))]]
	}
	for _, i := range group {
		taken = max(taken, start+p.e.Notice, p.units[i].front)
	}
	end := taken + p.e.Sum - p.e.Notice
	for _, i := range group {
		u := &p.units[i]
		own := max(start+p.e.Notice, u.front)
		arrives := p.arrivals[i]
		if u.ready > own {
			skipped++
			arrives = u.ready
		}
		u.late = arrives > own
		u.front, u.ready = end, max(end, arrives)
	}
	return skipped
}

// waitForAll plays a step whose exchange waits for all units, and returns the number of those that leave it out.
func (p *skipping) waitForAll() (skipped int) {
	p.draw()
	end := 0.
	for i := range p.units {
		u := &p.units[i]
		if u.late {
			skipped++
		} else {
			u.ready += p.computes[i]
		}
		end = max(end, u.ready)
	}
	end += p.e.Global
	for i := range p.units {
		u := &p.units[i]
		u.front, u.ready, u.late = end, end, false
	}
	return skipped
}

// sampler has the quantiles of a spread.
type sampler struct {
	below       []float64 // distribution function
	first, cell float64
}

// newSampler has the quantiles of times of a spread on a grid that begins at base.
func newSampler(of spread, base, cell float64) *sampler {
	s := &sampler{first: base + float64(of.first)*cell, cell: cell}
	sum := 0.
	for _, p := range of.p {
		sum += p
		s.below = append(s.below, sum)
	}
	return s
}

// quantile returns the time below which a share of the draws are.
func (s *sampler) quantile(share float64) float64 {
	at, _ := slices.BinarySearch(s.below, share)
	return s.first + s.cell*float64(min(at, len(s.below)-1))
}
