package search

import "math"

// Start states which rank starts the exchange of a step (package partial).
type Start int

// The rules.
const (
	AllStart   Start = iota // all have to arrive: a synchronous sum
	FirstStart              // the first to arrive: eager-SGD, solo
	DrawnStart              // one drawn at random: eager-SGD, majority
	GroupStart              // the first of a group that changes in each step: WAGMA-SGD
	NoStart                 // none: local SGD exchanges every Period steps only
)

// LateExchange is an exchange of gradients or models that late units need not wait for. A unit is a group of ranks that compute a
// share of the batch together and wait for each other in every step.
type LateExchange struct {
	Start  Start
	Units  int
	Ranks  int // of a unit
	Group  int // units of an exchange, for GroupStart
	Period int // every Period-th exchange waits for all units
	// Unit: seconds. Compute is the mean time that a rank computes in a step, Wait what a unit waits for messages of its own,
	// Sum the time of an exchange, with its notices, which take Notice of it, and Global that of one that waits for all.
	Compute, Wait, Sum, Notice, Global float64
}

// LateStep returns the mean time of a step, in seconds, over Period steps. Units compute c in a step, drawn independently for
// each, and s is the time of an exchange. A unit that arrives at time A is delayed to x = max(A, m + s), where m is the arrival
// that starts the exchange. With L = x − (m + s), the time by which a unit is behind the front of all,
//
//	L(t+1) = max(0, L(t) + c − m′ − s),   front(t+1) = front(t) + mean of m + s
//
// (Lindley's recursion), where m is the least of the units' L + c (solo) or that of a unit drawn at random (majority) and m′ an
// independent draw of it. Groups that change have no common front: the times x themselves are followed. The last exchange of a
// period starts when all units have arrived:
//
//	T = (front + mean of the largest L + c of all units + s) / τ
//
// All units compute all steps (SkipStep has those that leave steps out). So steps/s ≤ τ / max over units of the time that a unit computes in
// τ steps, and without imbalance T = c + s.
//
// Source: Li et al. 2020, arXiv:1908.04207; Li et al. 2021, arXiv:2005.00124; Lindley 1952, doi:10.1017/S0305004100027638.
func (b Imbalance) LateStep(e LateExchange) float64 {
	n := e.Units * e.Ranks
	synchronous := e.Compute*b.SlowestOf(n) + e.Wait + e.Global
	period := max(1, e.Period)
	if e.Start == AllStart || period == 1 {
		return synchronous
	}
	if !b.IsKnown() || e.Compute <= 0 {
		return e.Compute + e.Wait + (float64(period-1)*e.sum()+e.Global)/float64(period)
	}
	g := b.on(n).units(e, period)
	front, last := g.followFront, period-1
	if e.Start == GroupStart || e.Start == NoStart {
		front = g.followGroups
	}
	s := e.sum() / e.Compute / g.cell
	at, arrivals := front(e, last, s)
	late := e.Compute*(g.base+g.cell*(at+largest(arrivals).mean())/float64(period)) + e.Wait + e.Global/float64(period)
	// Dependent draws of a measurement may be slower than independent ones; waiting for all is never faster.
	return min(late, e.Compute*b.SlowestOf(n)+e.Wait+(float64(period-1)*e.sum()+e.Global)/float64(period))
}

// sum is the time of an exchange that is not global.
func (e LateExchange) sum() float64 {
	if e.Start == NoStart {
		return 0
	}
	return e.Sum
}

// mostCells is the largest number of cells of the times of a whole period: the grid of longer ones is coarser.
const mostCells = 4096

// units returns the times of units, each the largest of its ranks, on a grid for the sums of a number of steps. Of the units as
// many have a persistently slow rank as there are such ranks.
func (g grid) units(e LateExchange, steps int) grid {
	var width int
	for _, d := range g.ranks {
		width = max(width, len(d.of.p))
	}
	// The sum of n draws is within some standard deviations of its mean; √n of the range of one has room for all that matters. Times of
	// groups also grow by up to an exchange in each step.
	cells := float64(width) * math.Min(float64(steps), 8*math.Sqrt(float64(steps)))
	if e.Start == GroupStart {
		cells += float64(steps) * e.sum() / e.Compute / g.cell
	}
	coarser := max(1, int(math.Ceil(cells/mostCells)))
	out := grid{base: g.base, cell: g.cell * float64(coarser)}
	all := g.ranks
	slow, rest := 0., all[len(all)-1]
	if len(all) > 1 {
		slow = min(all[0].count, float64(e.Units))
	}
	kind := func(count float64, of ...draws) {
		if count > 0 {
			out.ranks = append(out.ranks, draws{largest(of).coarser(coarser), count})
		}
	}
	if slow > 0 {
		kind(slow, draws{all[0].of, 1}, draws{rest.of, float64(e.Ranks - 1)})
	}
	kind(float64(e.Units)-slow, draws{rest.of, float64(e.Ranks)})
	return out
}

// coarser returns the distribution on a grid with cells that are n times as large.
func (s spread) coarser(n int) spread {
	if n == 1 {
		return s
	}
	points, weights := make([]spread, 0, len(s.p)), make([]float64, 0, len(s.p))
	for k, p := range s.p {
		if p > 0 {
			points, weights = append(points, pointAt(float64(s.first+k)/float64(n))), append(weights, p)
		}
	}
	return mixed(points, weights)
}

// arrivalsFrom are the times at which units arrive at an exchange after they have computed, given those at which they begin.
func (g grid) arrivalsFrom(begins []spread) (arrivals []draws) {
	for i, d := range g.ranks {
		arrivals = append(arrivals, draws{begins[i].plus(d.of), d.count})
	}
	return arrivals
}

// followFront follows the lags of units behind their common front for a number of exchanges, each of s cells. It returns when the
// front has passed the last one, and the arrivals after it, behind the front, all in cells.
func (g grid) followFront(e LateExchange, steps int, s float64) (at float64, arrivals []draws) {
	lags := make([]spread, len(g.ranks))
	for i := range lags {
		lags[i] = pointAt(0)
	}
	for step := 0; ; step++ {
		arrivals = g.arrivalsFrom(lags)
		if step == steps {
			return at, arrivals
		}
		start, own := least(arrivals), 0.
		if e.Start == DrawnStart {
			start, own = drawn(arrivals), 1/float64(e.Units)
		}
		at += start.mean() + s
		behind := start.plus(pointAt(s)).negative()
		for i := range lags {
			lag := arrivals[i].of.plus(behind).positive()
			lags[i] = mixed([]spread{pointAt(0), lag}, []float64{own, 1 - own}).trimmed()
		}
	}
}

// drawn is the time of a unit that is drawn at random.
func drawn(all []draws) spread {
	var of []spread
	var weights []float64
	var sum float64
	for _, d := range all {
		of, weights, sum = append(of, d.of), append(weights, d.count), sum+d.count
	}
	for i := range weights {
		weights[i] /= sum
	}
	return mixed(of, weights)
}

// followGroups follows the times of units whose groups change, from the begin of a period. A unit that arrives at A in a group
// whose other units arrive at m or later continues at A + s if it is the first, else at max(A, m + s).
func (g grid) followGroups(e LateExchange, steps int, s float64) (at float64, arrivals []draws) {
	times := make([]spread, len(g.ranks))
	for i := range times {
		times[i] = pointAt(0)
	}
	for step := 0; ; step++ {
		arrivals = g.arrivalsFrom(times)
		if step == steps {
			return 0, arrivals
		}
		others := drawn(arrivals)
		for i := range times {
			if e.Start == NoStart || e.Group < 2 {
				times[i] = arrivals[i].of
				continue
			}
			first, low := least([]draws{{others, float64(e.Group - 1)}}), math.Floor(s)
			times[i] = mixed([]spread{delayed(arrivals[i].of, first, int(low)), delayed(arrivals[i].of, first, int(low)+1)}, []float64{low + 1 - s, s - low}).trimmed()
		}
	}
}

// delayed is the time at which a unit continues that arrives at a time a, if the first of the others of its group arrives at m and
// the exchange takes wait cells.
func delayed(a, m spread, wait int) spread {
	first := min(a.first, m.first)
	last := max(a.first+len(a.p), m.first+len(m.p)) + wait
	out := spread{first, make([]float64, last-first)}
	of := func(x spread, at int) float64 {
		if i := at - x.first; i >= 0 && i < len(x.p) {
			return x.p[i]
		}
		return 0
	}
	var sumA, sumM, sumBefore float64 // probabilities of a ≤ at−wait, m ≤ at−wait and a ≤ at−1
	for at := first; at < last; at++ {
		early := at - wait
		sumA += of(a, early)
		// It is the first: a = early, m > early.
		out.p[at-first] += of(a, early) * (1 - min(1, sumM+of(m, early)))
		sumM += of(m, early)
		// It waits for the first: m = early ≤ a < at.
		out.p[at-first] += of(m, early) * max(0, sumBefore-sumA+of(a, early))
		sumBefore += of(a, at)
		// It does not wait: a = at, m ≤ early.
		out.p[at-first] += of(a, at) * sumM
	}
	return out.trimmed()
}
