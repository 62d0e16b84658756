//go:build cgo && linux

package conv

import (
	"errors"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
)

// form is an implementation of the passes. build fails if it does not support the
// shape.
type form struct {
	name    string
	library string // library that it needs; "" if none
	wino    bool
	build   func(Spec, Pass, Options) (runner, error)
}

// forms lists the forms in the order in which they are benchmarked. Of equally fast
// ones the first is chosen.
var forms = []form{
	{"own", "", false, ownKernel},
	{"d3", "oneDNN", false, oneDNN(false, dnnl.Any, dnnl.Direct)},
	{"f2", "oneDNN", false, oneDNN(true, dnnl.Any, dnnl.Direct)},
	{"d3cl", "oneDNN", false, oneDNN(false, dnnl.ChannelsLast, dnnl.Direct)},
	{"f2cl", "oneDNN", false, oneDNN(true, dnnl.ChannelsLast, dnnl.Direct)},
	{"f2wino", "oneDNN", true, oneDNN(true, dnnl.Any, dnnl.Winograd)},
}

// ownKernel prepares the kernel of package kern. The gradient with respect to the input
// has no periodic depth there.
func ownKernel(s Spec, pass Pass, o Options) (runner, error) {
	if pass == BackwardData && s.Pad[0].Mode == kern.Periodic {
		return nil, kern.ErrUnsupported
	}
	return kern.NewConv(o.Pool, kernSpec(s), kern.ConvPass(pass), o.Bias, o.ReLU)
}

// kernSpec describes a convolution for package kern.
func kernSpec(s Spec) kern.ConvSpec {
	return kern.ConvSpec{N: s.N, Cin: s.Cin, Cout: s.Cout, In: s.In, Out: s.Out(), Kernel: s.Kernel,
		Stride: s.Stride, Dilation: s.Dilation, Pad: s.Pad}
}

// errFold is the error of a folded form that would mostly multiply zeros.
var errFold = errors.New("folding the depth would multiply mostly zeros")

// oneDNN returns the build function of a form of oneDNN. Periodic axes are padded
// explicitly, in scratch, because oneDNN pads with zeros only. With fold the depth axis
// becomes part of the channels.
func oneDNN(fold bool, layout dnnl.Layout, alg dnnl.Algorithm) func(Spec, Pass, Options) (runner, error) {
	return func(s Spec, pass Pass, o Options) (runner, error) {
		l := &oneDNNConv{pool: o.Pool, pass: pass, spec: s}
		sh := dnnl.Shape{N: s.N, Cin: s.Cin, Cout: s.Cout}
		var pads [3]kern.Padding // of periodic axes, which are padded explicitly
		for i := range 3 {
			in, lo, hi := s.In[i], s.Pad[i].Lo, s.Pad[i].Hi
			if s.Pad[i].Mode == kern.Periodic && lo+hi > 0 {
				pads[i] = s.Pad[i]
				in, lo, hi = in+lo+hi, 0, 0
				l.padded = true
			}
			sh.In = append(sh.In, in)
			sh.PadLo, sh.PadHi = append(sh.PadLo, lo), append(sh.PadHi, hi)
			sh.Kernel = append(sh.Kernel, s.Kernel[i])
			sh.Stride, sh.Dilation = append(sh.Stride, s.Stride[i]), append(sh.Dilation, s.Dilation[i])
		}
		l.pads = pads
		if l.padded {
			l.srcLen = s.N * s.Cin * sh.In[0] * sh.In[1] * sh.In[2]
		}
		bias := o.Bias && pass != BackwardData
		l.bias = bias
		if fold {
			out := s.Out()
			l.fold = kern.Fold{Cout: s.Cout, Cin: s.Cin, KD: s.Kernel[0], KHW: s.Kernel[1] * s.Kernel[2],
				DIn: sh.In[0], DOut: out[0], Stride: s.Stride[0], Dil: s.Dilation[0], Lo: sh.PadLo[0]}
			if !isFoldingUseful(l.fold) {
				return nil, errFold
			}
			l.filterLen = s.FilterLen() / s.Kernel[0] * out[0] * sh.In[0]
			if bias {
				l.biasLen = s.Cout * out[0]
			}
			sh = dnnl.Shape{N: s.N, Cin: s.Cin * sh.In[0], Cout: s.Cout * out[0], In: sh.In[1:], Kernel: sh.Kernel[1:],
				Stride: sh.Stride[1:], Dilation: sh.Dilation[1:], PadLo: sh.PadLo[1:], PadHi: sh.PadHi[1:]}
		}
		p, err := dnnl.NewPass(sh, dnnl.Options{
			Direction: dnnl.Direction(pass), Layout: layout, Algorithm: alg, Bias: bias,
			Inference: o.Inference, Threads: threads(o.Pool, pass),
		})
		if err != nil {
			return nil, err
		}
		l.inner = p
		l.relu = o.ReLU && pass == Forward
		l.naive = kern.NewNaiveConv(o.Pool, kernSpec(s), kern.ConvPass(pass), bias, l.relu)
		return l, nil
	}
}

// isFoldingUseful reports whether at least half of the folded filter is not zero. For
// depth 1 folding removes the filter levels that only meet padding.
func isFoldingUseful(f kern.Fold) bool {
	taps := 0
	for o := range f.DOut {
		for k := range f.KD {
			if i := o*f.Stride - f.Lo + k*f.Dil; i >= 0 && i < f.DIn {
				taps++
			}
		}
	}
	return 2*taps >= f.DIn*f.DOut && f.DIn <= 8
}

// oneDNNConv runs a primitive of oneDNN on a padded input, a folded filter, or both.
// Padded and folded tensors are at the start of its scratch.
type oneDNNConv struct {
	inner     runner // the primitive
	pool      *kern.Pool
	pass      Pass
	spec      Spec
	padded    bool            // the input is padded explicitly
	bias      bool            // the pass has a bias or its gradient
	pads      [3]kern.Padding // explicit padding of each axis
	fold      kern.Fold       // how depth becomes channels
	srcLen    int             // values of the padded input, 0 if not padded
	filterLen int             // values of the folded filter, 0 if not folded
	biasLen   int             // values of the repeated bias, 0 if not folded
	relu      bool            // apply ReLU to the result: that of oneDNN turns NaN into 0
	naive     *kern.NaiveConv // for results that are not finite: folded filters and transforms spread NaN
}

// ScratchLen includes the scratch of the primitive.
func (l *oneDNNConv) ScratchLen() int {
	return l.srcLen + l.filterLen + l.biasLen + l.inner.ScratchLen()
}

// Close frees the primitive.
func (l *oneDNNConv) Close() error { return l.inner.Close() }

// cut splits n values off the front of a scratch buffer.
func cut(scratch *[]float32, n int) []float32 {
	s := (*scratch)[:n:n]
	*scratch = (*scratch)[n:]
	return s
}

// Run pads or folds the operands, runs the primitive, reverses padding and folding of
// gradients, and applies ReLU. If the result is not finite everywhere, the pass runs again by
// the sum of its definition, so that NaN and infinities stay where they belong.
func (l *oneDNNConv) Run(src, filter, bias, dst, scratch []float32) error {
	if err := l.runPrimitive(src, filter, bias, dst, scratch); err != nil {
		return err
	}
	result := [...][]float32{Forward: dst, BackwardData: src, BackwardWeights: filter}[l.pass]
	if !l.pool.Finite(result, l.relu) {
		l.naive.Run(src, filter, bias, dst)
	}
	return nil
}

// runPrimitive is Run for finite results, without ReLU.
func (l *oneDNNConv) runPrimitive(src, filter, bias, dst, scratch []float32) error {
	x, w, b := src, filter, bias
	planes := l.spec.N * l.spec.Cin
	if l.padded {
		x = cut(&scratch, l.srcLen)
		if l.pass != BackwardData {
			l.pool.Pad(x, src, planes, l.spec.In, l.pads)
		}
	}
	repeat := kern.Dims{Outer: 1, Mid: l.spec.Cout, Inner: l.fold.DOut}
	if l.filterLen > 0 {
		w = cut(&scratch, l.filterLen)
		if l.pass != BackwardWeights {
			l.pool.FoldFilter(w, filter, l.fold)
		}
		if l.biasLen > 0 {
			b = cut(&scratch, l.biasLen)
			if l.pass == Forward {
				for i := range b {
					b[i] = bias[i/l.fold.DOut]
				}
			}
		}
	}
	if err := l.inner.Run(x, w, b, dst, scratch); err != nil {
		return err
	}
	if l.padded && l.pass == BackwardData {
		l.pool.PadGrad(src, x, planes, l.spec.In, l.pads)
	}
	if l.filterLen > 0 && l.pass == BackwardWeights {
		l.pool.FoldFilterGrad(filter, w, l.fold)
		if l.biasLen > 0 {
			l.pool.SumMid(bias, b, nil, repeat)
		}
	}
	return nil
}
