//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Convolutions with a few result channels read a blocked field and give a plain
// one, and their gradients the other way round: the last layer of a network.

// thinSpec describes a convolution of x with w for the kernels of few channels,
// if they serve it.
func thinSpec(x, w graph.Shape, a op.Conv) (kern.ThinSpec, bool) {
	if !field5(x) {
		return kern.ThinSpec{}, false
	}
	s := kern.ThinSpec{X: blockedShape(x), K: w[0], KD: w[2], Side: w[3], Wrap: a.Pad[2].Periodic}
	s.Pad = [2]int{a.Pad[1].Size, a.Pad[2].Size}
	ok := w[3] == w[4] && w[1] == x[1] && a.Pad[0].Size == w[2]/2
	for i := range 3 {
		ok = ok && a.Stride[i] == 1 && a.Dilation[i] == 1 && (i == 2 || !a.Pad[i].Periodic || w[i+2] == 1)
	}
	return s, ok && kern.SupportsThin(s)
}

// thinLayouts is the way of an operation that reads the first blocked operands and
// gives a blocked or plain result; the blocked field x is read or written once.
func thinLayouts(x graph.Shape, blocked []int, operands int, out graph.Layout) backend.LayoutOption {
	w := backend.LayoutOption{In: make([]graph.Layout, operands), Out: out, Cost: 2 * bytes(graph.Blocked, x) / memoryRate}
	for _, i := range blocked {
		w.In[i] = graph.Blocked
	}
	return w
}

func thinForwardLayouts(_ *Backend, attrs any, in []graph.Shape, _ graph.Shape) (backend.LayoutOption, bool) {
	parts, w, a := forwardOperands(attrs, in)
	if len(parts) > 1 {
		return backend.LayoutOption{}, false
	}
	_, ok := thinSpec(parts[0], w, a.Conv)
	return thinLayouts(parts[0], []int{0}, len(in), graph.Plain), ok
}

// prepareThin prepares the kernels and their scratch.
func (b *Backend) prepareThin(x, w graph.Shape, a op.Conv, relu bool) (*kern.Thin, error) {
	s, _ := thinSpec(x, w, a)
	s.ReLU = relu
	t, err := kern.NewThin(b.pool, s)
	if err == nil {
		b.needScratch(t.ScratchLen())
	}
	return t, err
}

func thinForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	_, _, a := forwardOperands(q.Attrs, q.InShapes())
	t, err := b.prepareThin(q.In[0].Shape, q.In[1].Shape, a.Conv, a.ReLU)
	if err != nil {
		return backend.Kernel{}, err
	}
	x, w, y := fieldOf(q.In[0]), q.In[1].F32, q.Out.F32
	var bias []float32
	if len(q.In) > 2 {
		bias = q.In[2].F32
	}
	return kernel("thin", func() { t.Forward(y, x, w, bias, b.scratch) })
}

// thinDataLayouts serves all channels of the source, without an addend.
func thinDataLayouts(_ *Backend, attrs any, in []graph.Shape, _ graph.Shape) (backend.LayoutOption, bool) {
	a := dataAttrs(attrs)
	_, ok := thinSpec(a.To, in[0], a.Conv)
	var gate []int
	if a.HasGate {
		gate = []int{2}
	}
	return thinLayouts(a.To, gate, len(in), graph.Blocked), ok && !a.HasAddend
}

func thinData(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := dataAttrs(q.Attrs)
	t, err := b.prepareThin(a.To, q.In[0].Shape, a.Conv, false)
	if err != nil {
		return backend.Kernel{}, err
	}
	w, dy, dx := q.In[0].F32, q.In[1].F32, fieldOf(q.Out)
	var gate kern.Stored
	if a.HasGate {
		gate = fieldOf(q.In[2])
	}
	return kernel("thin", func() { t.Data(dx, dy, w, gate, b.scratch) })
}

func thinFilterLayouts(_ *Backend, attrs any, in []graph.Shape, _ graph.Shape) (backend.LayoutOption, bool) {
	a := attrs.(op.ConvGrad)
	if len(in) > 2 {
		return backend.LayoutOption{}, false
	}
	_, ok := thinSpec(in[0], a.To, a.Conv)
	return thinLayouts(in[0], []int{0}, 2, graph.Plain), ok
}

func thinFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.ConvGrad)
	t, err := b.prepareThin(q.In[0].Shape, a.To, a.Conv, false)
	if err != nil {
		return backend.Kernel{}, err
	}
	x, dy, dw := fieldOf(q.In[0]), q.In[1].F32, q.Out.F32
	return kernel("thin", func() { t.Filter(dw, x, dy, b.scratch) })
}
