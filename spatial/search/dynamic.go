package search

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// label is what a run of consecutive parts of a step does to the clock. With y the time at
// which all before it would end if nothing followed, and z the forward passes and sums of
// gradients before it, both become
//
//	y' = max(p + y, q + z)    z' = r + z
//
// so runs are put together like products of matrices, in any grouping, and a step takes
// max(p, q) of the whole: the end of the backward pass, or of the queue of gradients. It is
// the recursion c = max(c, ready) + time, read from the front of the network.
type label struct {
	p, q, r     cluster.Time
	memory      int64
	left, right *label // of which it is made
	stages      []int  // of a single part: the stages that it is about,
	choice      []int  // and their spreads
}

// concat is one run after the other.
func (a *label) concat(b *label) label {
	return label{p: a.p + b.p, q: max(b.p+a.q, b.q+a.r), r: a.r + b.r, memory: a.memory + b.memory, left: a, right: b}
}

// dominates tells whether nothing can make b better than a.
func (a *label) dominates(b *label) bool {
	return a.p <= b.p && a.q <= b.q && a.r <= b.r && a.memory <= b.memory
}

// writeChoices writes down the choices that led to a label.
func (a *label) writeChoices(to []int) {
	if a.left != nil {
		a.left.writeChoices(to)
		a.right.writeChoices(to)
	}
	for i, s := range a.stages {
		to[s] = a.choice[i]
	}
}

// run is consecutive parts of the step with their labels, for every choice of the stages
// at its border: those that parts outside of it are about too.
type run struct {
	stages []int
	labels [][]*label
	lo, hi int // parts
}

// dynamicProgram finds the best plan of a mesh: no label beyond the bounds is followed.
type dynamicProgram struct {
	*costModel
	choices     [][]stageSplit // by stage
	first, last []int          // parts that are about a stage
	step        cluster.Time
	memory      int64 // 0: no limit
}

// stepPart is one part of a step, and the stages on whose spreads its cost depends, each once.
type stepPart struct {
	stages []int
	cost   func(to []stageSplit) cost
}

// parts are those of a step in the order of the forward pass: a layer's own one before those
// of its operands, so that its gradients are ready behind all of them.
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

// size is the number of choices of some stages.
func (d *dynamicProgram) size(stages []int) int {
	n := 1
	for _, s := range stages {
		n *= len(d.choices[s])
	}
	return n
}

// each calls f with every choice of some stages, the last one fastest.
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

// single is the run of one part.
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

// prune leaves out spreads of stages with which a step takes longer than the bound, whatever
// the others are, also of runs about one stage: time is what each takes at least. It tells
// whether every stage has one left.
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

// removeWhere is a list without those at some indices.
func removeWhere[T any](list []T, left func(i int) bool) (kept []T) {
	for i, v := range list {
		if !left(i) {
			kept = append(kept, v)
		}
	}
	return kept
}

// computeTimes is the time of computing with each spread of each stage.
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

// costedRuns are the runs of all parts, without spreads that are too slow. Those about one stage
// are priced first, by stages with few spreads, so that what follows has fewer.
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
		for k := range exact { // computing for fields of other stages is in parts about both
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

// border is the stages of two neighbouring runs, and those that stay when they are one.
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

// join makes one run of two neighbours.
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

// addLabel adds a label to those of which none is worse than another in everything.
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

// best is a plan of a mesh that takes least time among those that fit, if one takes no
// longer than a bound without the optimiser.
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
