package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// LocallyConnected is a locally connected layer: a convolution whose weights differ between grid
// points,
//
//	y = scale · ( b + Σ_c Σ_t W[c,t] · x[c, point + t] )
//
// W and b are initialised with 0, and scale, one number per channel and level, with 1. The output
// is a correction of a forecast. The input is the forecast, or the output of a BiasUNet.
//
// Points beyond the poles are 0. (The published layer repeats the rows at the poles. This gives two
// weights of a point the same factor, and the layer represents the same functions.)
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
type LocallyConnected struct {
	Out      int  // output channels; 0 means 1
	Size     int  // window size in latitude and longitude, odd; 0 means 1
	Periodic bool // longitudes are periodic
}

// Build extends the graph by the layer, and by the roughness of its weights. Roughness is the mean
// absolute difference between the weights of neighbouring points,
//
//	( Σ_k ( mean |ΔlatW[k]| + mean |ΔlonW[k]| ) + mean |Δlat b| + mean |Δlon b| ) / ( 2K + 2 )
//
// over the K positions k of a window. With Periodic the first and the last longitude are
// neighbours. The caller may add roughness to the loss as a regularisation.
//
// Shape: x [N C D H W] → y [N Out D H W]; roughness is a scalar.
// Gradient: scale has none as long as the weights are 0, as it multiplies them.
// Memory: Out·(C·Size²+1) fields of parameters.
// Errors: in the builder: ErrShape for an even Size, and for an axis of one point.
func (l LocallyConnected) Build(b *graph.Builder, name string, x graph.Value) (y, roughness graph.Value) {
	l.Out, l.Size = max(l.Out, 1), max(l.Size, 1)
	a := op.LocalConv{Size: [3]int{1, l.Size, l.Size}, Pad: op.Same(1, l.Size, l.Size)}
	if l.Periodic {
		a.Pad = op.SameGlobal(1, l.Size, l.Size)
	}
	filter, err := a.Filter(x.Shape(), l.Out)
	if l.Size%2 == 0 || min(x.Dim(3), x.Dim(4)) < 2 {
		err = fmt.Errorf("window size %d on input %v, want an odd size and at least 2 points: %w", l.Size, x.Shape(), graph.ErrShape)
	}
	if err != nil {
		return b.Fail("local", err), graph.Value{}
	}
	w := b.ParamOf(graph.Local, name+".weight", filter, graph.Zeros())
	bias := b.ParamOf(graph.Local, name+".bias", graph.Shape{1, l.Out, filter[2], filter[3], filter[4]}, graph.Zeros())
	scale := b.ParamOf(graph.Scale, name+".scale", graph.Shape{1, l.Out, filter[2], 1, 1}, graph.Ones())
	y = op.Mul(b, op.Add(b, op.Conv3DLocal(b, x, w, a), bias), scale)

	// The mean over W is the mean over k of the means of W[k].
	k := float64(l.Size * l.Size)
	roughness = op.Add(b, op.Scale(b, l.meanDifference(b, w), k/(2*k+2)), op.Scale(b, l.meanDifference(b, bias), 1/(2*k+2)))
	return y, roughness
}

// meanDifference is the mean absolute difference between neighbours in latitude plus that in
// longitude.
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
