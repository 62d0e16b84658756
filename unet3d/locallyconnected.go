package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// LocallyConnected describes a locally connected layer: every point of the grid has weights of its own,
//
//	y = scale · ( b + Σ_c Σ_t W[c,t] · x[c, point + t] )
//
// with W and b zero at first, and one scale per level, 1 at first. Alone, or behind the fields of
// a BiasUNet, it gives what is to be added to a forecast.
//
// Beyond the poles there are zeros. (The published layer repeats the rows at the ends there,
// which gives two weights of a point the same factor, and no function that zeros do not give.)
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
type LocallyConnected struct {
	Out      int  // output channels; 0 means 1
	Size     int  // side of the windows in latitude and longitude, odd; 0 means 1
	Periodic bool // longitudes wrap around
}

// Build extends the graph by the layer, and by how rough its weights are.
//
// Roughness is the mean absolute difference of weights of neighbouring points,
//
//	( Σ_k ( mean |ΔlatW[k]| + mean |ΔlonW[k]| ) + mean |Δlat b| + mean |Δlon b| ) / ( 2K + 2 )
//
// over the K positions k of a window. The last and the first longitude are neighbours on a
// globe, the poles are not. It counts only if it is added to the loss.
//
// Shape: x [N C D H W] → y [N Out D H W]; roughness is one number.
// Gradient: at zero weights the scale has none, as it multiplies them.
// Memory: Out·(C·Size²+1) fields of parameters.
// Errors: in the builder: ErrShape for an even Size or an axis of one point that has no neighbours.
func (l LocallyConnected) Build(b *graph.Builder, name string, x graph.Value) (y, roughness graph.Value) {
	l.Out, l.Size = max(l.Out, 1), max(l.Size, 1)
	a := op.LocalConv{Size: [3]int{1, l.Size, l.Size}, Pad: op.Same(1, l.Size, l.Size)}
	if l.Periodic {
		a.Pad = op.SameGlobal(1, l.Size, l.Size)
	}
	filter, err := a.Filter(x.Shape(), l.Out)
	if l.Size%2 == 0 || min(x.Dim(3), x.Dim(4)) < 2 {
		err = fmt.Errorf("windows of %d, which is to be odd, on %v: %w", l.Size, x.Shape(), graph.ErrShape)
	}
	if err != nil {
		return b.Fail("local", err), graph.Value{}
	}
	w := b.Param(name+".weight", filter, graph.Zeros())
	bias := b.Param(name+".bias", graph.Shape{1, l.Out, filter[2], filter[3], filter[4]}, graph.Zeros())
	scale := b.Param(name+".scale", graph.Shape{1, l.Out, filter[2], 1, 1}, graph.Ones())
	y = op.Mul(b, op.Add(b, op.Conv3DLocal(b, x, w, a), bias), scale)

	// The mean over all of W is the mean over k of those of W[k].
	k := float64(l.Size * l.Size)
	roughness = op.Add(b, op.Scale(b, l.meanDifference(b, w), k/(2*k+2)), op.Scale(b, l.meanDifference(b, bias), 1/(2*k+2)))
	return y, roughness
}

// meanDifference is the mean absolute difference of neighbours in latitude plus that in longitude.
func (l LocallyConnected) meanDifference(b *graph.Builder, v graph.Value) graph.Value {
	step := func(axis int, around bool) graph.Value {
		n := v.Dim(axis)
		from, to := op.Slice(b, v, axis, 0, n-1), op.Slice(b, v, axis, 1, n)
		if around {
			from, to = v, op.Concat(b, axis, to, op.Slice(b, v, axis, 0, 1))
		}
		return op.Mean(b, op.Abs(b, op.Sub(b, to, from)))
	}
	return op.Add(b, step(3, false), step(4, l.Periodic))
}
