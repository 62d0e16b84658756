package search

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// label is the effect of a run of consecutive parts of a step on the clock. Let y
// be the time at which everything before the run would end if nothing followed, and
// z the time of the forward passes and gradient sums before it. The run changes
// them to
//
//	y' = max(p + y, q + z)
//	z' = r + z
//
// This is a product of matrices in the (max, +) algebra, so runs can be combined in
// any grouping. A step takes max(p, q) of the whole run: the end of the backward
// pass or of the queue of gradient sums. It is the recursion c = max(c, ready) +
// time, read from the front of the network.
//
// For a single part with times f, b and g of forward pass, backward pass and
// gradient sum:
//
//	p = f + b,  q = f + b + g,  r = f + g
//
// p is the time without waiting for sums. q and r describe the queue of sums: the
// sum of this part starts when its gradient is ready (q), or when the sums of later
// parts have ended (r).
type label struct {
	p, q, r     cluster.Time
	memory      int64  // bytes per rank
	left, right *label // runs that it combines; nil for a single part
	stages      []int  // of a single part: the stages that determine its cost
	choice      []int  // and their selected splits
}

// concat combines two consecutive runs.
func (a *label) concat(b *label) label {
	return label{p: a.p + b.p, q: max(b.p+a.q, b.q+a.r), r: a.r + b.r, memory: a.memory + b.memory, left: a, right: b}
}

// dominates reports whether a dominates b: it is no worse in any component.
func (a *label) dominates(b *label) bool {
	return a.p <= b.p && a.q <= b.q && a.r <= b.r && a.memory <= b.memory
}

// writeChoices writes the choices of a label to to, by stage.
func (a *label) writeChoices(to []int) {
	if a.left != nil {
		a.left.writeChoices(to)
		a.right.writeChoices(to)
	}
	for i, s := range a.stages {
		to[s] = a.choice[i]
	}
}

// run is a range of consecutive parts with their labels, for every choice of its
// border stages, which are those that parts outside the run also depend on.
type run struct {
	stages []int      // border stages
	labels [][]*label // Pareto-optimal labels, by combination of choices
	lo, hi int        // first and last part
}

// dynamicProgram is the dynamic programme for one mesh. It discards labels above
// its bounds.
//
// The state of a run of parts is the choice of its border stages, those that parts
// outside the run also depend on. For each state it keeps the Pareto front of
// labels (p, q, r and memory). Joining two neighbouring runs combines their labels
// and eliminates the stages that are no longer at the border. costModel.best always
// joins the pair with the fewest combinations. A U-Net is thus joined from its
// deepest stage outwards, and the border stays at a few stages.
//
// Cost: Σ over joins of Π choices of the stages involved × the lengths of the
// Pareto fronts.
type dynamicProgram struct {
	*costModel
	choices     [][]stageSplit // by stage
	first, last []int          // first and last part that depends on a stage
	step        cluster.Time   // upper bound of the time without the optimiser
	memory      int64          // bytes; 0 is no limit
}

// stepPart is one part of a step, and the distinct stages that its cost depends on.
type stepPart struct {
	stages []int
	cost   func(to []stageSplit) cost
}

// parts returns the parts of a step in the order of the forward pass. The part of a
// layer itself comes before those of its operands, so that its gradients are ready
// after all of them in the backward pass.
func (p *costModel) parts() []stepPart {
	var all []stepPart
	for v, l := range p.n.Layers {
		own := p.cuts.stage(l.Out)
		all = append(all, stepPart{[]int{own}, func(to []stageSplit) cost { return p.layerCost(v, to[0]) }})
		for i, e := range l.From {
			from := p.cuts.stage(e.Shape)
			if from == own {
				all = append(all, stepPart{[]int{own}, func(to []stageSplit) cost { return p.edgeCost(v, i, to[0], to[0]) }})
			} else {
				all = append(all, stepPart{[]int{from, own}, func(to []stageSplit) cost { return p.edgeCost(v, i, to[0], to[1]) }})
			}
		}
	}
	return all
}

// size returns the number of combinations of choices of some stages.
func (d *dynamicProgram) size(stages []int) int {
	n := 1
	for _, s := range stages {
		n *= len(d.choices[s])
	}
	return n
}

// each calls f with every combination of choices of some stages; the last stage
// varies fastest.
func (d *dynamicProgram) each(stages []int, f func(choice []int)) {
	for i := range d.size(stages) {
		choice := make([]int, len(stages))
		for k := len(stages) - 1; k >= 0; k-- {
			choice[k] = i % len(d.choices[stages[k]])
			i /= len(d.choices[stages[k]])
		}
		f(choice)
	}
}

// single returns the run of one part.
func (d *dynamicProgram) single(at int, p stepPart) run {
	r := run{stages: p.stages, lo: at, hi: at}
	d.each(p.stages, func(choice []int) {
		to := make([]stageSplit, len(choice))
		for k, s := range p.stages {
			to[k] = d.choices[s][choice[k]]
		}
		c := p.cost(to)
		if !d.m.OverlapGradients {
			c.backward, c.reduce = c.backward+c.reduce, 0
		}
		b := &label{p: c.forward + c.backward, q: c.forward + c.backward + c.reduce, r: c.forward + c.reduce, stages: p.stages, choice: choice}
		if d.memory > 0 {
			b.memory = c.memory
		}
		r.labels = append(r.labels, []*label{b})
	})
	return r
}

// prune prunes the choices of stages with which a step exceeds the bound whatever
// the others are. time holds a lower bound for each choice. With m(s) the minimum
// over the choices of stage s, choice i is dropped if
//
//	Σ m(t) over t ≠ s + time[s][i] > bound
//
// Runs of a single stage are updated. It reports whether every stage has a choice
// left.
func (d *dynamicProgram) prune(time [][]cluster.Time, runs []run) bool {
	var all cluster.Time
	least := make([]cluster.Time, len(time))
	for s := range time {
		least[s] = slices.Min(time[s])
		all += least[s]
	}
	if all > d.step {
		return false
	}
	for s := range time {
		slow := func(i int) bool { return all-least[s]+time[s][i] > d.step }
		d.choices[s] = removeWhere(d.choices[s], slow)
		for i, r := range runs {
			if len(r.stages) == 1 && r.stages[0] == s {
				runs[i].labels = removeWhere(r.labels, slow)
				for at, b := range runs[i].labels {
					b[0].choice = []int{at}
				}
			}
		}
		time[s] = removeWhere(time[s], slow)
	}
	return true
}

// removeWhere returns the elements of a list whose indices left does not select.
func removeWhere[T any](list []T, left func(i int) bool) (kept []T) {
	for i, v := range list {
		if !left(i) {
			kept = append(kept, v)
		}
	}
	return kept
}

// computeTimes returns the computing time of each choice of each stage, a lower
// bound of its cost.
func (d *dynamicProgram) computeTimes() [][]cluster.Time {
	time := make([][]cluster.Time, len(d.choices))
	for s, choices := range d.choices {
		time[s] = make([]cluster.Time, len(choices))
	}
	for v := range d.n.Layers {
		l := &d.n.Layers[v]
		add := func(s graph.Shape, of func(to stageSplit) cluster.Time) {
			at := d.cuts.stage(s)
			for i, to := range d.choices[at] {
				time[at][i] += of(to)
			}
		}
		w := d.windowedEdge(v)
		if w == noAxis {
			add(l.Out, func(to stageSplit) cluster.Time { return d.layerCost(v, to).compute })
			continue
		}
		e := &l.From[w]
		add(l.Out, func(to stageSplit) cluster.Time {
			forward, filter, backward := d.workTime(l, e, d.cuts.layout(d.mesh, to, l.result()))
			return forward + filter + backward
		})
		add(e.Shape, func(to stageSplit) cluster.Time { return d.dataTime(l, e, d.cuts.layout(d.mesh, to, e.operand())) })
	}
	return time
}

// costedRuns returns the runs of all parts after pruning. Parts of a single stage
// are evaluated first, by ascending number of choices, so that fewer choices remain
// for the others.
func (d *dynamicProgram) costedRuns() ([]run, bool) {
	time := d.computeTimes()
	parts := d.parts()
	runs := make([]run, len(parts))
	stages := make([]int, len(d.choices))
	for s := range stages {
		stages[s] = s
	}
	slices.SortStableFunc(stages, func(s, t int) int { return cmp.Compare(len(d.choices[s]), len(d.choices[t])) })
	for _, s := range stages {
		if !d.prune(time, runs) {
			return nil, false
		}
		exact := make([]cluster.Time, len(d.choices[s]))
		for i, p := range parts {
			if len(p.stages) == 1 && p.stages[0] == s {
				runs[i] = d.single(i, p)
				for k, b := range runs[i].labels {
					exact[k] += b[0].p
				}
			}
		}
		for k := range exact { // computing for fields of other stages belongs to parts that depend on both
			time[s][k] = max(time[s][k], exact[k])
		}
	}
	if !d.prune(time, runs) {
		return nil, false
	}
	for i, p := range parts {
		if len(p.stages) > 1 {
			runs[i] = d.single(i, p)
		}
	}
	return runs, true
}

// border returns the stages of two neighbouring runs, and those that remain border
// stages when the runs are joined.
func (d *dynamicProgram) border(a, b run) (union, stay []int) {
	union = append(slices.Clone(a.stages), b.stages...)
	slices.Sort(union)
	union = slices.Compact(union)
	for _, s := range union {
		if d.first[s] < a.lo || d.last[s] > b.hi {
			stay = append(stay, s)
		}
	}
	return union, stay
}

// join joins two neighbouring runs. For each choice of the stages of both, it
// combines every label of the first with every label of the second, and keeps the
// Pareto front for the remaining border stages.
func (d *dynamicProgram) join(a, b run) run {
	union, stay := d.border(a, b)
	out := run{stages: stay, lo: a.lo, hi: b.hi, labels: make([][]*label, d.size(stay))}
	at := make([]int, len(d.choices)) // by stage
	index := func(stages []int) int {
		i := 0
		for _, s := range stages {
			i = i*len(d.choices[s]) + at[s]
		}
		return i
	}
	d.each(union, func(choice []int) {
		for k, s := range union {
			at[s] = choice[k]
		}
		to := &out.labels[index(stay)]
		for _, x := range a.labels[index(a.stages)] {
			for _, y := range b.labels[index(b.stages)] {
				d.addLabel(to, x.concat(y))
			}
		}
	})
	return out
}

// addLabel adds a label to a Pareto front: it drops dominated labels and those
// above the bounds.
func (d *dynamicProgram) addLabel(labels *[]*label, l label) {
	if max(l.p, l.q) > d.step || d.memory > 0 && l.memory > d.memory {
		return
	}
	for _, other := range *labels {
		if other.dominates(&l) {
			return
		}
	}
	*labels = slices.DeleteFunc(*labels, func(other *label) bool { return l.dominates(other) })
	*labels = append(*labels, &l)
}

// best returns the fastest plan of a mesh that fits into memory; ok is false if
// none takes at most bound without the optimiser, whose time does not depend on the
// splits.
func (p *costModel) best(bound cluster.Time) (Plan, bool) {
	d := &dynamicProgram{costModel: p, choices: p.cuts.choices(p.mesh), step: bound}
	if p.m.Memory > 0 {
		if d.memory = p.m.Memory - p.fixedMemory(); d.memory <= 0 {
			return Plan{}, false
		}
	}
	runs, ok := d.costedRuns()
	if !ok {
		return Plan{}, false
	}
	d.first, d.last = make([]int, len(d.choices)), make([]int, len(d.choices))
	for s := range d.first {
		d.first[s] = -1
	}
	for i, r := range runs {
		for _, s := range r.stages {
			if d.first[s] < 0 {
				d.first[s] = i
			}
			d.last[s] = i
		}
	}
	for len(runs) > 1 {
		at, least := 0, 0
		for i := range len(runs) - 1 {
			union, _ := d.border(runs[i], runs[i+1])
			if n := d.size(union); i == 0 || n < least {
				at, least = i, n
			}
		}
		runs[at] = d.join(runs[at], runs[at+1])
		runs = slices.Delete(runs, at+1, at+2)
	}
	var best *label
	for _, l := range runs[0].labels[0] {
		if best == nil || max(l.p, l.q) < max(best.p, best.q) {
			best = l
		}
	}
	if best == nil {
		return Plan{}, false
	}
	choice := make([]int, len(d.choices))
	best.writeChoices(choice)
	to := make([]stageSplit, len(choice))
	for s, i := range choice {
		to[s] = d.choices[s][i]
	}
	return p.plan(to), true
}
