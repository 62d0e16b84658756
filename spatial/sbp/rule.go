package sbp

import (
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Rule is a valid combination of signatures of an operation: each rank computes its
// part from its own parts alone. The signature of a gradient may differ from that
// of its tensor; the gradient is converted where it is used.
type Rule struct {
	Name string      // rules of several axes are joined by " x "
	X    []Signature // operands
	W    Signature   // weights; empty without weights
	Y    Signature   // result
	DY   Signature   // gradient of the result, as the operation reads it
	DX   []Signature // gradients of the operands, as the operation computes them
	DW   Signature   // gradient of the weights, as the operation computes it
}

// Product returns the rule that applies r on the first axes of a mesh and s on the
// axes after them.
func (r Rule) Product(s Rule) Rule {
	out := Rule{
		Name: r.Name + " x " + s.Name,
		W:    slices.Concat(r.W, s.W),
		Y:    slices.Concat(r.Y, s.Y),
		DY:   slices.Concat(r.DY, s.DY),
		DW:   slices.Concat(r.DW, s.DW),
	}
	for k := range r.X {
		out.X = append(out.X, slices.Concat(r.X[k], s.X[k]))
		out.DX = append(out.DX, slices.Concat(r.DX[k], s.DX[k]))
	}
	return out
}

// Op is an operation: its tensors, its cost, and its rules on one mesh axis.
type Op struct {
	X         []graph.Shape
	W         graph.Shape // nil without weights
	Y         graph.Shape
	AxisRules []Rule // rules for one axis of a mesh
	// Work returns the floating-point operations of a rank, given the shapes of its
	// parts.
	Work func(x []graph.Shape, w, y graph.Shape) float64
	// Window is the neighbourhood in the first operand that an element of the
	// result reads, by dimension; Size 0 means the rank's own part. Nil without
	// windows.
	Window []graph.WindowAxis
}

// WithRules returns the operation with only the named rules.
func (o Op) WithRules(names ...string) Op {
	o.AxisRules = slices.DeleteFunc(slices.Clone(o.AxisRules), func(r Rule) bool { return !slices.Contains(names, r.Name) })
	return o
}

// Rules returns the products of the rules over the axes of a mesh, sorted by name,
// without those that leave a rank without a part of a tensor. On an axis of size 1
// all rules are equal, and only the first by name is used.
func (o Op) Rules(m spatial.Mesh) []Rule {
	rows := slices.Clone(o.AxisRules)
	slices.SortFunc(rows, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
	var out []Rule
	for i, axis := range m {
		choice := rows
		if axis.Size == 1 {
			choice = rows[:min(1, len(rows))]
		}
		if i == 0 {
			out = choice
			continue
		}
		var longer []Rule
		for _, r := range out {
			for _, s := range choice {
				longer = append(longer, r.Product(s))
			}
		}
		out = longer
	}
	return slices.DeleteFunc(slices.Clone(out), func(r Rule) bool { return !o.nonEmpty(m, r) })
}

// nonEmpty reports whether every rank holds a part of every tensor. The last rank
// has the smallest parts.
func (o Op) nonEmpty(m spatial.Mesh, r Rule) bool {
	last := m.Size() - 1
	some := func(shape graph.Shape, s Signature) bool {
		return len(s) == 0 || part(m, shape, s, last).Size() > 0
	}
	for k, x := range o.X {
		if !some(x, r.X[k]) || !some(x, r.DX[k]) {
			return false
		}
	}
	return some(o.W, r.W) && some(o.W, r.DW) && some(o.Y, r.Y) && some(o.Y, r.DY)
}

// unary returns a rule for one axis of an operation with one operand and no
// weights.
func unary(name string, x, y, dy, dx Placement) Rule {
	return Rule{Name: name, X: []Signature{{x}}, Y: Signature{y}, DY: Signature{dy}, DX: []Signature{{dx}}}
}

// weighted returns a rule for one axis of an operation with one operand and
// weights.
func weighted(name string, x, w, y, dy, dx, dw Placement) Rule {
	r := unary(name, x, y, dy, dx)
	r.W, r.DW = Signature{w}, Signature{dw}
	return r
}

// forOperands returns the rule of an operation that treats several operands like
// the first.
func (r Rule) forOperands(operands int) Rule {
	r.X, r.DX = slices.Repeat(r.X[:1], operands), slices.Repeat(r.DX[:1], operands)
	return r
}
