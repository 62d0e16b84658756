//go:build cgo && linux

package cpu

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// frames are those of the fields that a convolution reads.
type frames struct {
	of     [4]int
	values [2]kern.Stored
}

// unframed is the request for the operation within framed, its framed operands described
// with their frames, of which they have the inner memory. Any other request stays as it is.
func unframed(q backend.Request) (backend.Request, frames) {
	a, ok := q.Attrs.(op.Framed)
	if !ok {
		return q, frames{}
	}
	f := frames{of: [4]int{a.Frame.North, a.Frame.South, a.Frame.West, a.Frame.East}}
	own := len(q.In) - len(a.Operands)
	inner := q
	inner.Op, inner.Attrs, inner.In = a.Op, a.Attrs, slices.Clone(q.In[:own])
	for k, i := range a.Operands {
		f.values[k] = fieldOf(q.In[own+k])
		inner.In[i].Shape = a.Frame.Around(q.In[i].Shape)
	}
	return inner, f
}

// framedForm is the form in which a convolution reads a source in a frame.
func framedForm(name string) (blocked, bool) {
	forms := blockedConvs[name]
	i := slices.IndexFunc(forms, func(f blocked) bool { return f.wino })
	if i < 0 {
		return blocked{}, false
	}
	return forms[i], true
}

// framedWay serves Winograd's products with all parts of their source in frames.
func framedWay(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.Way, bool) {
	a := attrs.(op.Framed)
	form, ok := framedForm(a.Op.Name)
	if !ok {
		return backend.Way{}, false
	}
	shapes := a.Inner(in)
	way, ok := form.way(b, a.Attrs, shapes, out)
	q := backend.Request{Op: a.Op, Attrs: a.Attrs, In: tensors(shapes...), Out: backend.Tensor{Shape: out}}
	if ok = ok && slices.Equal(a.Operands, a.Op.Conv.Sources(len(shapes))); ok {
		p, _ := b.winoPassOf(q)
		p.Frame = [4]int{a.Frame.North, a.Frame.South, a.Frame.West, a.Frame.East}
		ok = kern.ServesWino(p.WinoSpec)
	}
	for range a.Operands {
		way.In = append(way.In, graph.Blocked)
	}
	return way, ok
}

func framedKernel(b *Backend, q backend.Request) (backend.Kernel, error) {
	form, _ := framedForm(q.Attrs.(op.Framed).Op.Name)
	return form.prepare(b, q)
}
