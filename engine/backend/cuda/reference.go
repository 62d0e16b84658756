package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// reference returns a kernel that runs the reference kernel of an operation on the
// host, for plain values. ok is false for other layouts.
//
// Cost: it copies all operands and the result, and waits for the device.
func (b *Backend) reference(q backend.Request) (backend.Kernel, bool, error) {
	if isLast(q) || b.dryRun {
		return backend.Kernel{}, b.dryRun, nil
	}
	c := graph.Call{InShape: q.InShapes(), Out: make([]float64, q.Out.Shape.Size()), OutShape: q.Out.Shape, Seed: q.Seed}
	var in [][]float32
	for _, t := range q.In {
		x, err := b.AllocHost(t.Shape.Size())
		if err != nil {
			return backend.Kernel{}, false, err
		}
		in = append(in, x)
		c.In = append(c.In, make([]float64, len(x)))
	}
	out, err := b.AllocHost(len(c.Out))
	if err != nil {
		return backend.Kernel{}, false, err
	}
	run := func() error {
		for i, t := range q.In {
			if err := b.Copy(in[i], t.F32); err != nil {
				return err
			}
		}
		if err := b.Wait(); err != nil {
			return err
		}
		for i, x := range in {
			for j, v := range x {
				c.In[i][j] = float64(v)
			}
		}
		if q.Step != nil {
			c.Step = *q.Step
		}
		q.Op.Ref(c, q.Attrs)
		for j, v := range c.Out {
			out[j] = float32(v)
		}
		return b.Copy(q.Out.F32, out)
	}
	return backend.Kernel{Name: "on the processor", Run: run, Blocking: true, Close: func() {
		for _, x := range append(in, out) {
			_ = b.Free(x) // its own
		}
	}}, true, nil
}
