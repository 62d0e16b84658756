package sbp

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Converter finds the cheapest way from one signature to another, and keeps what it
// found. One goroutine uses it at a time.
type Converter struct {
	Mesh spatial.Mesh
	Link Link
	// Merge lets axes that all go from P to B do so as one group of ranks. Otherwise axes
	// change one by one, as splits always do: to gather them so, from the inner to the
	// outer, sends no more than one group would, in fewer rounds.
	Merge bool
	Unit  int // bytes of an element; 0 means 1

	steps map[string]Cost
	paths map[string]Path
}

// Path is a sequence of conversions.
type Path struct {
	Mesh  spatial.Mesh
	Shape graph.Shape
	Steps []Step
	Cost  Cost
}

// Step is a conversion of one axis of the mesh, or of several that are merged.
type Step struct{ From, To Signature }

// changed lists the axes that change.
func (s Step) changed() []int {
	var axes []int
	for a := range s.From {
		if s.From[a] != s.To[a] {
			axes = append(axes, a)
		}
	}
	return axes
}

// isAllReduce tells whether the step is an all-reduce: from P to B on the axes that change.
func (s Step) isAllReduce() bool {
	return !slices.ContainsFunc(s.changed(), func(a int) bool { return s.From[a] != P || s.To[a] != B })
}

// Path is the cheapest sequence of steps for a tensor of a shape: in time, then in
// bytes of all ranks; of equals always the same.
//
// A step costs what it moves. Where no other axis splits the dimensions that it
// changes, that is the table of the package; a change of the outer one of two nested
// splits moves what the ranks do not hold yet.
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

// search tries all orders: best[set] is the cheapest way to change the axes of a set.
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
		for next := set; next > 0; next = (next - 1) & set { // what the last step changes
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

func (k *Converter) cheaper(a, b Cost) bool {
	if s, t := k.Link.Time(a), k.Link.Time(b); s != t {
		return s < t
	}
	return a.Total < b.Total
}

// step is the cost of one step.
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
