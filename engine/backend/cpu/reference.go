//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// scalarLoop returns a kernel that evaluates the scalar formula of an elementwise
// operation for every element, with broadcasting.
func scalarLoop(q backend.Request) backend.Kernel {
	l := op.NewLoop(q.Out.Shape, q.InShapes())
	s, p := q.Op.Scalar, q.Op.Scalar.P(q.Attrs)
	in := make([][]float32, len(q.In))
	for i, t := range q.In {
		in[i] = t.F32
	}
	out := q.Out.F32
	return backend.Kernel{Name: "formula", Run: func() error {
		op.Apply(l, s, p, in, out)
		return nil
	}}
}

// reference returns a kernel that runs the reference kernel over float64 copies of its
// operands. The copies are allocated once, when the kernel is prepared.
//
// Cost: two conversions of every operand and result in each run, one thread.
func reference(q backend.Request) backend.Kernel {
	c := graph.Call{InShape: q.InShapes(), Out: make([]float64, len(q.Out.F32)), OutShape: q.Out.Shape, Seed: q.Seed}
	for _, t := range q.In {
		c.In = append(c.In, make([]float64, len(t.F32)))
	}
	return backend.Kernel{Name: "ref", Run: func() error {
		for i, t := range q.In {
			for j, v := range t.F32 {
				c.In[i][j] = float64(v)
			}
		}
		if q.Step != nil {
			c.Step = *q.Step
		}
		q.Op.Ref(c, q.Attrs)
		for j, v := range c.Out {
			q.Out.F32[j] = float32(v)
		}
		return nil
	}}
}
