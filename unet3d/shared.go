package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// sharedParams creates each parameter once and returns the same value for the same name. Layers
// that a network applies to one lead after the other thus share their parameters.
type sharedParams struct {
	b      *graph.Builder
	params map[string]graph.Value
}

// newSharedParams returns an empty set of parameters.
func newSharedParams(b *graph.Builder) sharedParams { return sharedParams{b, map[string]graph.Value{}} }

// param returns the parameter of a name, and creates it on first use.
func (p sharedParams) param(role graph.Role, name string, shape graph.Shape, start graph.Init) graph.Value {
	v, ok := p.params[name]
	if !ok {
		v = p.b.ParamOf(role, name, shape, start)
		p.params[name] = v
	}
	return v
}

// conv is a convolution without bias on the same grid.
//
// Shape: x [N C D H W] → [N out D H W]; filter [out C d h w].
func (p sharedParams) conv(name string, x graph.Value, out int, size [3]int, periodic bool, start graph.Init) graph.Value {
	a := op.Conv{Pad: op.Same(size[:]...)}
	a.Pad[2].Periodic = periodic
	return op.Conv3D(p.b, x, p.param(graph.Weight, name+".weight", graph.Shape{out, x.Dim(1), size[0], size[1], size[2]}, start), a)
}

// bias adds one number to each channel.
func (p sharedParams) bias(name string, x graph.Value, start graph.Init) graph.Value {
	return op.Bias(p.b, x, p.param(graph.Bias, name+".bias", graph.Shape{x.Dim(1)}, start))
}

// linear is a linear layer with bias over the channels of a point; the filter is [out in 1 1 1].
func (p sharedParams) linear(name string, x graph.Value, out int, start graph.Init) graph.Value {
	return p.bias(name, p.conv(name, x, out, [3]int{1, 1, 1}, false, start), graph.Zeros())
}
