package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Link is one operation of a chain. Args are the numbers of its operands: first
// the operands of the chain, from 0, then the results of earlier links.
type Link struct {
	Op    *graph.Op
	Attrs any
	Args  []int
}

// Chain is a sequence of elementwise operations that share one result shape.
// The last link gives the result.
type Chain struct {
	Operands int // number of operands of the chain
	Links    []Link
}

// Limits of one chain, for kernels that hold its program in memory of fixed
// size.
const (
	MaxChain         = 32 // links
	MaxChainOperands = 16 // operands
)

// IsChainable reports whether o may be a link: an elementwise operation for
// which all backends have a loop. Powers, pinball losses and comparisons are
// excluded, and so is broadcast, since links broadcast their operands
// themselves.
func IsChainable(o *graph.Op) bool {
	return o.Scalar != nil && o != broadcast.Op && o != pow.op.Op && o != pow.grad.Op && o != pinball.Op && o != pinballSlope.Op && o != atLeast.Op
}

// name is the printed name of operand or result i.
func (c Chain) name(i int) string {
	if i < c.Operands {
		return fmt.Sprintf("x%d", i)
	}
	return fmt.Sprintf("t%d", i-c.Operands)
}

// String prints the links in order: t0=mul(x0,x1) t1=scale(t0,0.5) relu(t1).
func (c Chain) String() string {
	text := make([]string, len(c.Links))
	for k, l := range c.Links {
		args := make([]string, len(l.Args))
		for i, a := range l.Args {
			args[i] = c.name(a)
		}
		if a := graph.AttrText(l.Attrs); a != "" {
			args = append(args, a)
		}
		text[k] = fmt.Sprintf("%s(%s)", l.Op.Name, strings.Join(args, ","))
		if k < len(c.Links)-1 {
			text[k] = c.name(c.Operands+k) + "=" + text[k]
		}
	}
	return strings.Join(text, " ")
}

// shapes returns the shapes of operands and results by number. It checks that
// links read existing values and all have the shape of the result.
func (c Chain) shapes(in []Shape) ([]Shape, error) {
	if len(in) != c.Operands || c.Operands > MaxChainOperands || len(c.Links) == 0 || len(c.Links) > MaxChain {
		return nil, shapeError("%d operands for a chain of %d operands and %d links", len(in), c.Operands, len(c.Links))
	}
	all := slices.Clone(in)
	for k, l := range c.Links {
		from := make([]Shape, len(l.Args))
		for i, a := range l.Args {
			if a < 0 || a >= len(all) {
				return nil, shapeError("link %d reads value %d of %d", k, a, len(all))
			}
			from[i] = all[a]
		}
		s, err := l.Op.Shape(from, l.Attrs)
		if err != nil {
			return nil, fmt.Errorf("link %d, %s: %w", k, l.Op.Name, err)
		}
		if k > 0 && !s.Equal(all[c.Operands]) {
			return nil, shapeError("link %d has shape %v, the first has %v", k, s, all[c.Operands])
		}
		all = append(all, s)
	}
	return all, nil
}

// elementwiseChain evaluates a chain in one sweep over memory. Intermediate
// results stay in registers or in the cache.
var elementwiseChain = Define(Spec[Chain]{
	Name:   "elementwise_chain",
	Doc:    "Elementwise operations of one shape in one sweep over memory. Each reads broadcast operands or earlier results; the last one gives the result.",
	Source: "the operations of the chain; inserted by the pass fuse-chains",
	NoGrad: "inserted by the pass fuse-chains after gradients were added",
	Shape: func(in []Shape, a Chain) (Shape, error) {
		all, err := a.shapes(in)
		if err != nil {
			return nil, err
		}
		return all[len(all)-1].Clone(), nil
	},
	FLOPs: func(in []Shape, out Shape, a Chain) int64 {
		var sum int64 // elementwise operations count by their result
		for _, l := range a.Links {
			sum += l.Op.FLOPs(in, out, l.Attrs)
		}
		return sum
	},
	InPlace: func(int, Chain) bool { return true },
	Ref: func(c Call, a Chain) {
		values, shapes := slices.Clone(c.In), slices.Clone(c.InShape)
		for k, l := range a.Links {
			link := Call{Out: c.Out, OutShape: c.OutShape}
			if k < len(a.Links)-1 {
				link.Out = make([]float64, len(c.Out))
			}
			for _, i := range l.Args {
				link.In, link.InShape = append(link.In, values[i]), append(link.InShape, shapes[i])
			}
			l.Op.Ref(link, l.Attrs)
			values, shapes = append(values, link.Out), append(shapes, c.OutShape)
		}
	},
	Cases: chainCases(),
})

// chainCases are chains that occur in networks, and special cases of layouts:
// broadcast operands, results that are zero for zeros, more than one block.
func chainCases() []Case[Chain] {
	link := func(o *graph.Op, args ...int) Link { return Link{o, none{}, args} }
	with := func(o *graph.Op, p float64, args ...int) Link { return Link{o, p, args} }
	full, wide := Shape{2, 3, 5, 6, 7}, Shape{2, 19, 2, 9, 11}
	gate := Chain{4, []Link{
		link(sigmoid.op.Op, 0), link(mul.Op, 4, 1), link(tanh.op.Op, 2), link(sigmoid.op.Op, 3), link(mul.Op, 6, 7), link(add.Op, 5, 8),
	}}
	return []Case[Chain]{
		{Name: "an affine map of a sum, stretched", In: []Shape{full, {1, 3, 5, 1, 1}, {1, 3, 5, 6, 7}, {2, 1, 1, 1, 1}, {}}, A: Chain{5, []Link{
			link(mul.Op, 2, 3), link(add.Op, 0, 5), link(mul.Op, 6, 1), link(sub.Op, 4, 7), link(relu.op.Op, 8),
		}}},
		{Name: "a gate", In: []Shape{wide, wide, wide, wide}, A: gate},
		{Name: "a gate without axes", In: []Shape{{}, {}, {}, {}}, A: gate},
		{Name: "a line per channel", In: []Shape{wide, {1, 19, 1, 1, 1}, {1, 19, 1, 1, 1}, {}}, A: Chain{4, []Link{
			link(mul.Op, 0, 1), link(add.Op, 4, 2), with(scale.Op, -0.5, 5), link(mul.Op, 6, 3),
		}}},
		{Name: "longitudes stretched", In: []Shape{{2, 3, 5, 6, 1}, full}, A: Chain{2, []Link{
			with(addScalar.Op, 0.25, 1), link(sub.Op, 2, 0), link(square.op.Op, 3), link(abs.op.Op, 4),
		}}},
		// Strips of 512 elements start within a row, 16 values before its end.
		{Name: "channels stretched", In: []Shape{{3, 8, 2, 4, 6}, {3, 1, 2, 4, 6}}, A: Chain{2, []Link{
			link(sub.Op, 0, 1), link(square.op.Op, 2),
		}}},
		{Name: "scores", In: []Shape{full, full, full, full, {1, 1, 1, 1, 1}}, Low: 0.3, High: 2, A: Chain{5, []Link{
			link(gaussianCRPS.Op, 0, 1, 2), link(gaussianCRPSdMu.Op, 0, 1, 2), link(gaussianCRPSdSigma.Op, 0, 1, 2),
			link(mul.Op, 5, 3), link(sub.Op, 8, 6), link(add.Op, 9, 7), link(safeDiv.Op, 10, 4),
		}}},
		{Name: "functions", In: []Shape{full, full}, Low: 0.2, High: 2, A: Chain{2, []Link{
			link(exp.op.Op, 0), link(log.op.Op, 2), link(sqrt.op.Op, 3), link(softplus.op.Op, 4), link(erf.op.Op, 5), link(div.Op, 6, 1), link(div.Op, 1, 7),
		}}},
		{Name: "gradients", In: []Shape{full, full}, Low: 0.2, High: 0.9, A: Chain{2, []Link{
			link(relu.grad.Op, 0, 1), link(exp.grad.Op, 0, 2), link(log.grad.Op, 0, 3), link(sqrt.grad.Op, 0, 4), link(square.grad.Op, 0, 5),
			link(abs.grad.Op, 0, 6), link(softplus.grad.Op, 0, 7), link(sigmoid.grad.Op, 0, 8), link(tanh.grad.Op, 0, 9), link(erf.grad.Op, 0, 10),
		}}},
		{Name: "gradients behind a gate", In: []Shape{wide, wide, {}}, A: Chain{3, []Link{
			link(relu.grad.Op, 0, 1), link(tanh.grad.Op, 1, 3), link(mul.Op, 2, 4),
		}}},
	}
}

// ElementwiseChain appends a chain over the operands in. Only the pass
// fuse-chains calls it; networks use the operations themselves.
//
// Shape: operands that broadcast to the shape of the result.
// Memory: that of the result; intermediate results are not stored.
// Errors: ErrShape if links differ in shape or read missing values.
func ElementwiseChain(b *Builder, c Chain, in ...Value) Value {
	return elementwiseChain.add(b, c, in...)
}
