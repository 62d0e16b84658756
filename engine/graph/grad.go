package graph

import "fmt"

// AddFunc adds two values of the same shape. Package op provides it, since
// package graph defines no operations.
type AddFunc func(b *Builder, x, y Value) Value

// Gradients extends the graph by the gradients of the scalar loss with respect
// to the values wrt: reverse accumulation, from the loss to its operands, in
// operations of the same graph. The result has one Value per element of wrt. It
// is invalid where the loss does not depend on the element.
//
// Errors: recorded in b, if an operation between wrt and the loss has no
// gradient. The error states the reason.
func Gradients(b *Builder, loss Value, wrt []Value, add AddFunc) []Value {
	if b.err != nil || !loss.Valid() {
		return make([]Value, len(wrt))
	}
	one := make([]float32, loss.Shape().Size())
	for i := range one {
		one[i] = 1
	}
	return Pullback(b, []Value{loss}, []Value{b.Const("", loss.Shape(), one)}, wrt, add)
}

// Pullback extends the graph by the gradients of Σ outs[k]·grads[k] with respect
// to the values wrt, for given gradients of the values outs: the product of a
// vector and the Jacobian. If the loss depends on a part of a graph only
// through outs, these are its gradients.
//
// Gradients of a value that is read several times are added from the last
// reader to the first, after that of outs. A graph that is differentiated in
// parts thus has the sums of the whole.
//
// Shape: grads[k] as outs[k]; the result as wrt, or invalid as for Gradients.
// Errors: as Gradients.
// Source: Griewank and Walther 2008, Evaluating Derivatives, 2nd ed., section
// 3.2.
func Pullback(b *Builder, outs, grads, wrt []Value, add AddFunc) []Value {
	out := make([]Value, len(wrt))
	if b.err != nil || len(outs) == 0 {
		return out
	}
	targets := make([]int, 0, len(wrt))
	for _, v := range wrt {
		if !v.Valid() {
			return out
		}
		targets = append(targets, v.id)
	}
	last := 0
	roots := make([]int, len(outs))
	for k, v := range outs {
		if !v.Shape().Equal(grads[k].Shape()) {
			b.Fail("pullback", fmt.Errorf("gradient %d has shape %v, its value has %v: %w", k+1, grads[k].Shape(), v.Shape(), ErrShape))
			return out
		}
		roots[k], last = v.id, max(last, v.id)
	}
	g := b.g
	active := g.dependents(targets, last)
	need := g.Needed(roots)
	grad := make([]Value, last+1)
	for k, v := range outs {
		if grad[v.id].Valid() {
			grad[v.id] = add(b, grad[v.id], grads[k])
		} else {
			grad[v.id] = grads[k]
		}
	}
	for i := last; i >= 0; i-- {
		n := g.Nodes[i]
		if !grad[i].Valid() || !active[i] || !need[i] || n.Kind != KindOp {
			continue
		}
		if n.Op.Grad == nil {
			b.Fail(n.Op.Name, fmt.Errorf("no gradient is defined: %s", n.Op.NoGrad))
			return out
		}
		in := make([]Value, len(n.In))
		for j, id := range n.In {
			in[j] = Value{b, id}
		}
		first := len(g.Nodes)
		ds := n.Op.Grad(b, in, Value{b, i}, grad[i], n.Attrs)
		if b.err != nil {
			return out
		}
		for j, d := range ds {
			id := n.In[j]
			if !d.Valid() || !active[id] {
				continue
			}
			if !d.Shape().Equal(g.Nodes[id].Shape) {
				b.Fail(n.Op.Name, fmt.Errorf("gradient of operand %d has shape %v, the operand has %v: %w",
					j+1, d.Shape(), g.Nodes[id].Shape, ErrShape))
				return out
			}
			if grad[id].Valid() {
				d = add(b, grad[id], d)
			}
			grad[id] = d
		}
		for _, nd := range g.Nodes[first:] {
			nd.At = n.At
		}
	}
	for i, v := range wrt {
		if v.id <= last {
			out[i] = grad[v.id]
		}
	}
	return out
}

// dependents marks the nodes up to index last that depend on one of the
// targets.
func (g *Graph) dependents(targets []int, last int) []bool {
	hit := make([]bool, last+1)
	for _, id := range targets {
		if id <= last {
			hit[id] = true
		}
	}
	for i := range hit {
		for _, id := range g.Nodes[i].In {
			hit[i] = hit[i] || hit[id]
		}
	}
	return hit
}

// AddGradients extends g by the gradients of its loss with respect to all
// parameters, and records them in g.Grads. Parameters that do not affect the
// loss get none.
func (g *Graph) AddGradients(add AddFunc) error {
	return g.AddScaledGradients(func(_ *Builder, loss Value) Value { return loss }, add)
}

// AddScaledGradients is AddGradients for a scaled loss: scale returns the value
// that is differentiated, such as a multiple of the loss. Loss scaling keeps
// small gradients above the underflow of float16.
func (g *Graph) AddScaledGradients(scale func(b *Builder, loss Value) Value, add AddFunc) error {
	b := Extend(g)
	loss := scale(b, Value{b, g.Loss})
	var params []Value
	for _, n := range g.Nodes {
		if n.Kind == KindParam {
			params = append(params, Value{b, n.ID})
		}
	}
	for i, d := range Gradients(b, loss, params, add) {
		if d.Valid() {
			g.Grads = append(g.Grads, Grad{params[i].id, d.id})
		}
	}
	return b.err
}
