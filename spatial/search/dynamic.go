package search

import (
	"slices"

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
	layers      []int  // of a single part: the layers that it is about,
	choice      []int  // and their spreads
}

// then is one run after the other.
func (a *label) then(b *label) label {
	return label{p: a.p + b.p, q: max(b.p+a.q, b.q+a.r), r: a.r + b.r, memory: a.memory + b.memory, left: a, right: b}
}

// least tells whether nothing can make b better than a.
func (a *label) least(b *label) bool {
	return a.p <= b.p && a.q <= b.q && a.r <= b.r && a.memory <= b.memory
}

// choose writes down the choices that led to a label.
func (a *label) choose(to []int) {
	if a.left != nil {
		a.left.choose(to)
		a.right.choose(to)
	}
	for i, v := range a.layers {
		to[v] = a.choice[i]
	}
}

// run is consecutive parts of the step with their labels, for every choice of the layers
// at its border: those that parts outside of it read too.
type run struct {
	layers []int // ascending
	labels [][]*label
	lo, hi int // parts
}

// dynamic finds the best plan of a mesh: no label beyond the bounds is followed.
type dynamic struct {
	*pricer
	choices     [][]spread
	first, last []int // parts that a layer takes part in
	step        cluster.Time
	memory      int64
}

// size is the number of choices of some layers.
func (d *dynamic) size(layers []int) int {
	n := 1
	for _, v := range layers {
		n *= len(d.choices[v])
	}
	return n
}

// single is the run of one part, which costs so much for each choice of its layers.
func (d *dynamic) single(at int, layers []int, price func(choice []int) cost) run {
	r := run{layers: layers, lo: at, hi: at}
	for i := range d.size(layers) {
		choice := make([]int, len(layers))
		for k := len(layers) - 1; k >= 0; k-- {
			choice[k] = i % len(d.choices[layers[k]])
			i /= len(d.choices[layers[k]])
		}
		c := price(choice)
		if !d.m.HideGradients {
			c.backward, c.reduce = c.backward+c.reduce, 0
		}
		b := &label{p: c.forward + c.backward, q: c.forward + c.backward + c.reduce, r: c.forward + c.reduce, layers: layers, choice: choice}
		if d.memory > 0 {
			b.memory = c.memory
		}
		r.labels = append(r.labels, []*label{b})
	}
	return r
}

// parts are the runs of single parts, in the order of the forward pass: a layer's own one
// before those of its operands, so that its gradients are ready behind all of them.
func (d *dynamic) parts() []run {
	var all []run
	for v, l := range d.n.Layers {
		all = append(all, d.single(len(all), []int{v}, func(c []int) cost { return d.layer(v, d.choices[v][c[0]]) }))
		for i, e := range l.From {
			if e.From == Input {
				all = append(all, d.single(len(all), []int{v}, func(c []int) cost { return d.edge(v, i, nil, d.choices[v][c[0]]) }))
			} else {
				all = append(all, d.single(len(all), []int{e.From, v}, func(c []int) cost { return d.edge(v, i, d.choices[e.From][c[0]], d.choices[v][c[1]]) }))
			}
		}
	}
	return all
}

// border is the layers of two neighbouring runs, and those that stay when they are one.
func (d *dynamic) border(a, b run) (union, stay []int) {
	union = append(slices.Clone(a.layers), b.layers...)
	slices.Sort(union)
	union = slices.Compact(union)
	for _, v := range union {
		if d.first[v] < a.lo || d.last[v] > b.hi {
			stay = append(stay, v)
		}
	}
	return union, stay
}

// join makes one run of two neighbours.
func (d *dynamic) join(a, b run) run {
	union, stay := d.border(a, b)
	out := run{layers: stay, lo: a.lo, hi: b.hi, labels: make([][]*label, d.size(stay))}
	choice := make([]int, len(d.n.Layers))
	index := func(layers []int) int {
		i := 0
		for _, v := range layers {
			i = i*len(d.choices[v]) + choice[v]
		}
		return i
	}
	for i := range d.size(union) {
		for k := len(union) - 1; k >= 0; k-- {
			choice[union[k]] = i % len(d.choices[union[k]])
			i /= len(d.choices[union[k]])
		}
		to := &out.labels[index(stay)]
		for _, x := range a.labels[index(a.layers)] {
			for _, y := range b.labels[index(b.layers)] {
				d.keep(to, x.then(y))
			}
		}
	}
	return out
}

// keep adds a label to those of which none is worse than another in everything.
func (d *dynamic) keep(labels *[]*label, l label) {
	if max(l.p, l.q) > d.step || d.memory > 0 && l.memory > d.memory {
		return
	}
	for _, other := range *labels {
		if other.least(&l) {
			return
		}
	}
	*labels = slices.DeleteFunc(*labels, func(other *label) bool { return l.least(other) })
	*labels = append(*labels, &l)
}

// best is a plan of a mesh that takes least time among those that fit, if one takes no
// longer than a bound without the optimiser.
func (p *pricer) best(bound cluster.Time) (Plan, bool) {
	d := &dynamic{pricer: p, choices: p.choices(), step: bound}
	if p.m.Memory > 0 {
		if d.memory = p.m.Memory - p.fixedMemory(); d.memory <= 0 {
			return Plan{}, false
		}
	}
	runs := d.parts()
	d.first, d.last = make([]int, len(p.n.Layers)), make([]int, len(p.n.Layers))
	for v := range d.first {
		d.first[v] = -1
	}
	for i, r := range runs {
		for _, v := range r.layers {
			if d.first[v] < 0 {
				d.first[v] = i
			}
			d.last[v] = i
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
	choice := make([]int, len(p.n.Layers))
	best.choose(choice)
	to := make([]spread, len(choice))
	for v, i := range choice {
		to[v] = d.choices[v][i]
	}
	return p.plan(to), true
}
