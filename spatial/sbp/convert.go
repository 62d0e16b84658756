package sbp

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Converter finds the cheapest conversion between two signatures, and caches the
// results.
//
// Concurrency: one goroutine uses it at a time.
//
// Source: Yuan et al. 2021, arXiv:2110.15032, section 3 (conversions and their bytes).
type Converter struct {
	Mesh spatial.Mesh
	Link Link
	// Merge allows axes that all change from P to B to do so in one group of ranks.
	// All other axes change one by one. For gathers that is no loss: from the inner
	// to the outer axis they send no more bytes than one group would, in fewer
	// rounds.
	Merge bool
	Unit  int // bytes per element; 0 means 1

	steps map[string]Cost
	paths map[string]Path
}

// Path is a sequence of conversions of one tensor.
type Path struct {
	Mesh  spatial.Mesh
	Shape graph.Shape
	Steps []Step
	Cost  Cost
}

// Step is a conversion along one mesh axis, or along several that are merged.
type Step struct{ From, To Signature }

// changed returns the mesh axes that change.
func (s Step) changed() []int {
	var axes []int
	for a := range s.From {
		if s.From[a] != s.To[a] {
			axes = append(axes, a)
		}
	}
	return axes
}

// isAllReduce reports whether the step is an all-reduce: from P to B on all axes
// that change.
func (s Step) isAllReduce() bool {
	return !slices.ContainsFunc(s.changed(), func(a int) bool { return s.From[a] != P || s.To[a] != B })
}

// Path returns the cheapest sequence of steps for a tensor of a shape: by time,
// then by bytes of all ranks. Ties are resolved deterministically.
//
// If no other axis splits the dimensions that a step changes, its cost is that of
// the package's table. Changing the outer of two nested splits moves only what
// ranks do not hold yet.
//
// Errors: ErrSignature.
func (k *Converter) Path(shape graph.Shape, from, to Signature) (Path, error) {
	for _, s := range []Signature{from, to} {
		if err := s.check(k.Mesh, shape); err != nil {
			return Path{}, err
		}
	}
	key := fmt.Sprint(shape, from, to)
	if p, ok := k.paths[key]; ok {
		return p, nil
	}
	p := k.search(shape, from, to)
	if k.paths == nil {
		k.paths = map[string]Path{}
	}
	k.paths[key] = p
	return p, nil
}

// search tries all orders of changing axes. best[set] is the cheapest way to change
// the axes of a set.
//
// Cost: O(3^axes) steps.
func (k *Converter) search(shape graph.Shape, from, to Signature) Path {
	var whole uint
	for _, a := range (Step{from, to}).changed() {
		whole |= 1 << a
	}
	mixed := func(set uint) Signature {
		s := slices.Clone(from)
		for a := range s {
			if set>>a&1 == 1 {
				s[a] = to[a]
			}
		}
		return s
	}
	best := map[uint]Path{0: {Mesh: k.Mesh, Shape: shape}}
	for set := uint(1); set <= whole; set++ {
		if set&^whole != 0 {
			continue
		}
		for next := set; next > 0; next = (next - 1) & set { // axes that the last step changes
			step := Step{mixed(set &^ next), mixed(set)}
			if len(step.changed()) > 1 && !(k.Merge && step.isAllReduce()) {
				continue
			}
			before := best[set&^next]
			cost := before.Cost.Add(k.step(shape, step))
			if old, ok := best[set]; !ok || k.cheaper(cost, old.Cost) {
				best[set] = Path{k.Mesh, shape, append(slices.Clip(before.Steps), step), cost}
			}
		}
	}
	return best[whole]
}

// cheaper compares costs by time, then by bytes of all ranks.
func (k *Converter) cheaper(a, b Cost) bool {
	if s, t := k.Link.Time(a), k.Link.Time(b); s != t {
		return s < t
	}
	return a.Total < b.Total
}

// step returns the cost of one step.
func (k *Converter) step(shape graph.Shape, s Step) Cost {
	key := fmt.Sprint(shape, s)
	if c, ok := k.steps[key]; ok {
		return c
	}
	var c Cost
	for r := range k.Mesh.Size() {
		group, transfers := s.exchanges(k.Mesh, shape, r)
		if group[0] != r {
			continue
		}
		var own Cost
		for _, t := range transfers {
			own = own.Add(t.cost(max(k.Unit, 1)))
		}
		c.Total += own.Total
		c.Sent, c.Rounds = max(c.Sent, own.Sent), max(c.Rounds, own.Rounds)
	}
	for _, a := range s.changed() {
		if s.To[a] == P {
			c.Summands++
		}
	}
	if k.steps == nil {
		k.steps = map[string]Cost{}
	}
	k.steps[key] = c
	return c
}
