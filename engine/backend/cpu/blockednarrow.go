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

// narrowSpec describes a convolution of x with w for kern.Narrow. ok is false if package
// kern does not support it.
func narrowSpec(x, w graph.Shape, a op.Conv) (kern.NarrowSpec, bool) {
	if !field5(x) {
		return kern.NarrowSpec{}, false
	}
	s := kern.NarrowSpec{X: blockedShape(x), K: w[0], KD: w[2], Side: w[3], Wrap: a.Pad[2].Periodic}
	s.Pad = [2]int{a.Pad[1].Size, a.Pad[2].Size}
	ok := w[3] == w[4] && w[1] == x[1] && a.Pad[0].Size == w[2]/2
	for i := range 3 {
		ok = ok && a.Stride[i] == 1 && a.Dilation[i] == 1 && (i == 2 || !a.Pad[i].Periodic || w[i+2] == 1)
	}
	return s, ok && kern.SupportsNarrow(s)
}

// narrowLayouts returns the option in which the listed operands are blocked and the
// result has layout out. The cost is that of accessing the blocked field x, once to
// read and once to write.
func narrowLayouts(x graph.Shape, blocked []int, operands int, out graph.Layout) backend.LayoutOption {
	w := backend.LayoutOption{In: make([]graph.Layout, operands), Out: out, Cost: 2 * bytes(graph.Blocked, x) / memoryRate}
	for _, i := range blocked {
		w.In[i] = graph.Blocked
	}
	return w
}

// narrowForwardLayouts is the rule of the forward pass: one blocked input, a plain
// result.
func narrowForwardLayouts(_ *Backend, attrs any, in []graph.Shape, _ graph.Shape) (backend.LayoutOption, bool) {
	parts, w, a := forwardOperands(attrs, in)
	if len(parts) > 1 {
		return backend.LayoutOption{}, false
	}
	_, ok := narrowSpec(parts[0], w, a.Conv)
	return narrowLayouts(parts[0], []int{0}, len(in), graph.Plain), ok
}

// prepareNarrow prepares the three passes and reserves their scratch.
//
// Errors: kern.ErrUnsupported.
func (b *Backend) prepareNarrow(x, w graph.Shape, a op.Conv, relu bool) (*kern.Narrow, error) {
	s, _ := narrowSpec(x, w, a)
	s.ReLU = relu
	t, err := kern.NewNarrow(b.pool, s)
	if err == nil {
		b.needScratch(t.ScratchLen())
	}
	return t, err
}

// narrowForward prepares y = ReLU(conv(x, w) + b); bias and ReLU are optional.
func narrowForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	_, _, a := forwardOperands(q.Attrs, q.InShapes())
	t, err := b.prepareNarrow(q.In[0].Shape, q.In[1].Shape, a.Conv, a.ReLU)
	if err != nil {
		return backend.Kernel{}, err
	}
	x, w, y := fieldOf(q.In[0]), q.In[1].F32, q.Out.F32
	var bias []float32
	if len(q.In) > 2 {
		bias = q.In[2].F32
	}
	return kernel("narrow", func() { t.Forward(y, x, w, bias, b.scratch) })
}

// narrowDataLayouts is the rule of the gradient with respect to all channels of the
// input, without addend.
func narrowDataLayouts(_ *Backend, attrs any, in []graph.Shape, _ graph.Shape) (backend.LayoutOption, bool) {
	a := dataAttrs(attrs)
	_, ok := narrowSpec(a.To, in[0], a.Conv)
	var gate []int
	if a.HasGate {
		gate = []int{2}
	}
	return narrowLayouts(a.To, gate, len(in), graph.Blocked), ok && !a.HasAddend
}

// narrowData prepares the gradient with respect to the input, with an optional gate as
// winoData.
func narrowData(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := dataAttrs(q.Attrs)
	t, err := b.prepareNarrow(a.To, q.In[0].Shape, a.Conv, false)
	if err != nil {
		return backend.Kernel{}, err
	}
	w, dy, dx := q.In[0].F32, q.In[1].F32, fieldOf(q.Out)
	var gate kern.Stored
	if a.HasGate {
		gate = fieldOf(q.In[2])
	}
	return kernel("narrow", func() { t.Data(dx, dy, w, gate, b.scratch) })
}

// narrowFilterLayouts is the rule of the gradient of the filter.
func narrowFilterLayouts(_ *Backend, attrs any, in []graph.Shape, _ graph.Shape) (backend.LayoutOption, bool) {
	a := attrs.(op.ConvGrad)
	if len(in) > 2 {
		return backend.LayoutOption{}, false
	}
	_, ok := narrowSpec(in[0], a.To, a.Conv)
	return narrowLayouts(in[0], []int{0}, 2, graph.Plain), ok
}

// narrowFilter prepares the gradient of the filter.
func narrowFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.ConvGrad)
	t, err := b.prepareNarrow(q.In[0].Shape, a.To, a.Conv, false)
	if err != nil {
		return backend.Kernel{}, err
	}
	x, dy, dw := fieldOf(q.In[0]), q.In[1].F32, q.Out.F32
	return kernel("narrow", func() { t.Filter(dw, x, dy, b.scratch) })
}
