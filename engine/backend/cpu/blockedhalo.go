//go:build cgo && linux

package cpu

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// halos are the halos of the inputs of a convolution, which are separate tensors.
type halos struct {
	widths [4]int         // rows in the north and south, columns in the west and east
	values [2]kern.Stored // of up to two inputs
}

// withoutHalo returns the request for the operation inside with_halo, and the halos of
// its inputs. The inputs have the shape with halo but the memory of the interior. Other
// requests are returned unchanged.
func withoutHalo(q backend.Request) (backend.Request, halos) {
	a, ok := q.Attrs.(op.HaloOp)
	if !ok {
		return q, halos{}
	}
	f := halos{widths: [4]int{a.Halo.North, a.Halo.South, a.Halo.West, a.Halo.East}}
	own := len(q.In) - len(a.Operands)
	inner := q
	inner.Op, inner.Attrs, inner.In = a.Op, a.Attrs, slices.Clone(q.In[:own])
	for k, i := range a.Operands {
		f.values[k] = fieldOf(q.In[own+k])
		inner.In[i].Shape = a.Halo.PaddedShape(q.In[i].Shape)
	}
	return inner, f
}

// haloForm returns the form in which a convolution reads an input with a separate halo:
// Winograd's.
func haloForm(name string) (blockedForm, bool) {
	forms := blockedConvs[name]
	i := slices.IndexFunc(forms, func(f blockedForm) bool { return f.wino })
	if i < 0 {
		return blockedForm{}, false
	}
	return forms[i], true
}

// haloLayouts is the rule of with_halo: Winograd convolutions all of whose inputs have
// halos.
func haloLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a := attrs.(op.HaloOp)
	form, ok := haloForm(a.Op.Name)
	if !ok {
		return backend.LayoutOption{}, false
	}
	shapes := a.PaddedShapes(in)
	way, ok := form.layouts(b, a.Attrs, shapes, out)
	q := backend.Request{Op: a.Op, Attrs: a.Attrs, In: tensors(shapes...), Out: backend.Tensor{Shape: out}}
	if ok = ok && slices.Equal(a.Operands, a.Op.Conv.Sources(len(shapes))); ok {
		p, _ := b.winoPassOf(q)
		p.Halo = [4]int{a.Halo.North, a.Halo.South, a.Halo.West, a.Halo.East}
		ok = kern.SupportsWino(p.WinoSpec)
	}
	for range a.Operands {
		way.In = append(way.In, graph.Blocked)
	}
	return way, ok
}

// haloKernel prepares the convolution inside with_halo.
func haloKernel(b *Backend, q backend.Request) (backend.Kernel, error) {
	form, _ := haloForm(q.Attrs.(op.HaloOp).Op.Name)
	return form.prepare(b, q)
}
