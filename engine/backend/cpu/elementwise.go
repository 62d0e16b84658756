//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// elementwise lists the kernels of elementwise operations: prepare for the operation
// alone, nil if it has none, and link for the operation as part of a chain.
var elementwise = map[string]struct {
	prepare prepareRule
	link    func(attrs any) kern.ChainLink
}{
	"relu": {unary(kern.ReLU), unparametrisedLink(kern.ChainUnary(kern.ReLU))}, "relu_grad": {unaryGrad(kern.ReLU), unparametrisedLink(kern.ChainGrad(kern.ReLU))},
	"exp": {unary(kern.Exp), unparametrisedLink(kern.ChainUnary(kern.Exp))}, "exp_grad": {unaryGrad(kern.Exp), unparametrisedLink(kern.ChainGrad(kern.Exp))},
	"log": {unary(kern.Log), unparametrisedLink(kern.ChainUnary(kern.Log))}, "log_grad": {unaryGrad(kern.Log), unparametrisedLink(kern.ChainGrad(kern.Log))},
	"sqrt": {unary(kern.Sqrt), unparametrisedLink(kern.ChainUnary(kern.Sqrt))}, "sqrt_grad": {unaryGrad(kern.Sqrt), unparametrisedLink(kern.ChainGrad(kern.Sqrt))},
	"square": {unary(kern.Square), unparametrisedLink(kern.ChainUnary(kern.Square))}, "square_grad": {unaryGrad(kern.Square), unparametrisedLink(kern.ChainGrad(kern.Square))},
	"abs": {unary(kern.Abs), unparametrisedLink(kern.ChainUnary(kern.Abs))}, "abs_grad": {unaryGrad(kern.Abs), unparametrisedLink(kern.ChainGrad(kern.Abs))},
	"softplus": {unary(kern.Softplus), unparametrisedLink(kern.ChainUnary(kern.Softplus))}, "softplus_grad": {unaryGrad(kern.Softplus), unparametrisedLink(kern.ChainGrad(kern.Softplus))},
	"sigmoid": {unary(kern.Sigmoid), unparametrisedLink(kern.ChainUnary(kern.Sigmoid))}, "sigmoid_grad": {unaryGrad(kern.Sigmoid), unparametrisedLink(kern.ChainGrad(kern.Sigmoid))},
	"tanh": {unary(kern.Tanh), unparametrisedLink(kern.ChainUnary(kern.Tanh))}, "tanh_grad": {unaryGrad(kern.Tanh), unparametrisedLink(kern.ChainGrad(kern.Tanh))},
	"erf": {unary(kern.Erf), unparametrisedLink(kern.ChainUnary(kern.Erf))}, "erf_grad": {unaryGrad(kern.Erf), unparametrisedLink(kern.ChainGrad(kern.Erf))},
	"add":                  {binary(kern.Add, kern.Add), unparametrisedLink(kern.ChainBinary(kern.Add))},
	"sub":                  {binary(kern.Sub, kern.RSub), unparametrisedLink(kern.ChainBinary(kern.Sub))},
	"mul":                  {binary(kern.Mul, kern.Mul), unparametrisedLink(kern.ChainBinary(kern.Mul))},
	"div":                  {binary(kern.Div, kern.RDiv), unparametrisedLink(kern.ChainBinary(kern.Div))},
	"safe_div":             {nil, unparametrisedLink(kern.ChainSafeDiv)},
	"gaussian_crps":        {crps(0), unparametrisedLink(kern.ChainCRPS)},
	"gaussian_crps_dmu":    {crps(1), unparametrisedLink(kern.ChainCRPSdMu)},
	"gaussian_crps_dsigma": {crps(2), unparametrisedLink(kern.ChainCRPSdSigma)},
	"scale": {scale, func(attrs any) kern.ChainLink {
		return kern.ChainLink{F: kern.ChainAffine, Scale: float32(attrs.(float64))}
	}},
	"add_scalar": {addScalar, func(attrs any) kern.ChainLink {
		return kern.ChainLink{F: kern.ChainAffine, Scale: 1, Shift: float32(attrs.(float64))}
	}},
}

// unparametrisedLink returns the link of an operation without attributes.
func unparametrisedLink(f kern.ChainFunc) func(attrs any) kern.ChainLink {
	return func(any) kern.ChainLink { return kern.ChainLink{F: f} }
}

// unary returns the rule of y = f(x).
func unary(f kern.Unary) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		x, y := q.In[0].F32, q.Out.F32
		return kernel("unary", func() { b.pool.Unary(f, y, x) })
	}
}

// unaryGrad returns the rule of dx = dy·f′. The operand is the one that the formula of
// the derivative reads, x or y = f(x).
func unaryGrad(f kern.Unary) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return unaryGradKernel(b, q, f) }
}

// unaryGradKernel prepares a gradient. A dy of one element, as from a mean over all
// elements, is first expanded in scratch. Other broadcasts run the loop over the scalar
// formula.
func unaryGradKernel(b *Backend, q backend.Request, f kern.Unary) (backend.Kernel, error) {
	x, dy, dx := q.In[0].F32, q.In[1].F32, q.Out.F32
	switch {
	case len(x) != len(dx):
		return backend.Kernel{}, nil
	case len(dy) == len(dx):
		return kernel("unary_grad", func() { b.pool.UnaryGrad(f, dx, dy, x, x) })
	case len(dy) == 1:
		n := len(dx)
		b.needScratch(n)
		return kernel("unary_grad of one", func() {
			b.pool.Fill(b.scratch[:n], dy[0])
			b.pool.UnaryGrad(f, dx, b.scratch[:n], x, x)
		})
	}
	return backend.Kernel{}, nil
}

// binary returns the rule of a function of two operands. At least one must have the
// shape of the result; the other may be broadcast along up to three merged axes. turned
// is f with its operands exchanged.
func binary(f, turned kern.Binary) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		return binaryKernel(b, q, [2]kern.Binary{f, turned})
	}
}

// binaryKernel prepares a function of two operands; f holds the function and that with
// exchanged operands.
func binaryKernel(b *Backend, q backend.Request, f [2]kern.Binary) (backend.Kernel, error) {
	x, y, out := q.In[0].F32, q.In[1].F32, q.Out.F32
	l := op.NewLoop(q.Out.Shape, q.InShapes())
	if l.Flat(2) {
		return kernel("binary", func() { b.pool.Binary(f[0], out, x, y) })
	}
	code, small := f[0], 1
	if len(x) < len(out) {
		x, y, code, small = y, x, f[1], 0
	}
	d, s, ok := threeAxes(l, small)
	if !ok || len(x) != len(out) {
		return backend.Kernel{}, nil
	}
	return kernel("broadcast", func() { b.pool.Broadcast(code, out, x, y, d, s[0], s[1], s[2]) })
}

// threeAxes converts the merged axes of a loop and the strides of operand k to the
// three axes of package kern. ok is false if there are more, or if the innermost stride
// exceeds 1.
func threeAxes(l *op.Loop, k int) (d kern.Dims, steps [3]int, ok bool) {
	dims, st := l.Axes(k)
	if len(dims) > 3 {
		return d, steps, false
	}
	full := [3]int{1, 1, 1}
	copy(full[3-len(dims):], dims)
	copy(steps[3-len(st):], st)
	return kern.Dims{Outer: full[0], Mid: full[1], Inner: full[2]}, steps, steps[2] <= 1
}

// broadcast prepares broadcast: x repeated along its axes of size 1.
func broadcast(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, out := q.In[0].F32, q.Out.F32
	if len(x) == 1 {
		return kernel("fill", func() { b.pool.Fill(out, x[0]) })
	}
	d, s, ok := threeAxes(op.NewLoop(q.Out.Shape, q.InShapes()), 0)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("broadcast", func() {
		b.pool.Fill(out, 0)
		b.pool.Broadcast(kern.Add, out, out, x, d, s[0], s[1], s[2])
	})
}

// scale prepares scale: p·x.
func scale(b *Backend, q backend.Request) (backend.Kernel, error) {
	p, x, y := float32(q.Attrs.(float64)), q.In[0].F32, q.Out.F32
	return kernel("affine", func() { b.pool.Affine(y, x, p, 0) })
}

// addScalar prepares add_scalar: x + p.
func addScalar(b *Backend, q backend.Request) (backend.Kernel, error) {
	p, x, y := float32(q.Attrs.(float64)), q.In[0].F32, q.Out.F32
	return kernel("affine", func() { b.pool.Affine(y, x, 1, p) })
}

// crps returns the rule of gaussian_crps (part 0) and of its derivatives with respect
// to the mean (1) and the standard deviation (2). Operands that are broadcast run the
// loop over the scalar formula.
//
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1.
func crps(part int) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		mu, sigma, y, n := q.In[0].F32, q.In[1].F32, q.In[2].F32, len(q.Out.F32)
		if len(mu) != n || len(sigma) != n || len(y) != n {
			return backend.Kernel{}, nil
		}
		var out [3][]float32
		out[part] = q.Out.F32
		return kernel("crps", func() { b.pool.GaussianCRPS(out[0], out[1], out[2], nil, mu, sigma, y) })
	}
}

// dropoutSpec returns a function that gives the parameters of dropout for the current
// step. The random stream is keyed by seed, operation and step, so that a repeated step
// drops the same elements.
func dropoutSpec(q backend.Request) func() kern.DropoutSpec {
	a := q.Attrs.(op.DropoutParams)
	return func() kern.DropoutSpec {
		var step uint64
		if q.Step != nil {
			step = *q.Step
		}
		return kern.DropoutSpec{Key: a.Key(q.Seed, step), Threshold: a.Threshold(), Keep: float32(1 / (1 - a.P))}
	}
}

// dropout prepares dropout: 0 with probability p, else x/(1−p).
func dropout(b *Backend, q backend.Request) (backend.Kernel, error) {
	d, x, y := dropoutSpec(q), q.In[0].F32, q.Out.F32
	return kernel("dropout", func() { b.pool.Dropout(y, x, d()) })
}
