//go:build cgo && linux

package cpu

import (
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// unaryKernels names the kernel of each elementwise function of one operand.
var unaryKernels = map[string]kern.Unary{
	"relu": kern.ReLU, "exp": kern.Exp, "log": kern.Log, "sqrt": kern.Sqrt, "square": kern.Square, "abs": kern.Abs,
	"softplus": kern.Softplus, "sigmoid": kern.Sigmoid, "tanh": kern.Tanh, "erf": kern.Erf,
}

// unary serves elementwise functions of one operand.
func unary(b *Backend, q backend.Request) (backend.Kernel, error) {
	f, x, y := unaryKernels[q.Op.Name], q.In[0].F32, q.Out.F32
	return kernel("unary", func() { b.pool.Unary(f, y, x) })
}

// unaryGrad serves their gradients; the operand is the one the formula reads,
// x or y. A gradient that is one number for all elements is written out first.
func unaryGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	f := unaryKernels[strings.TrimSuffix(q.Op.Name, "_grad")]
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

// binaryKernels names the kernel of each elementwise function of two operands,
// and the one with exchanged operands.
var binaryKernels = map[string][2]kern.Binary{
	"add": {kern.Add, kern.Add}, "sub": {kern.Sub, kern.RSub}, "mul": {kern.Mul, kern.Mul}, "div": {kern.Div, kern.RDiv},
}

// binary serves elementwise functions of two operands of which at least one
// has the shape of the result, with up to three merged axes.
func binary(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, out := q.In[0].F32, q.In[1].F32, q.Out.F32
	f := binaryKernels[q.Op.Name]
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

// threeAxes fits the merged axes of a loop and the steps of operand k into the
// three that kernels know.
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

// stretch serves broadcast.
func stretch(b *Backend, q backend.Request) (backend.Kernel, error) {
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

// scale serves p·x.
func scale(b *Backend, q backend.Request) (backend.Kernel, error) {
	p, x, y := float32(q.Attrs.(float64)), q.In[0].F32, q.Out.F32
	return kernel("affine", func() { b.pool.Affine(y, x, p, 0) })
}

// addScalar serves x + p.
func addScalar(b *Backend, q backend.Request) (backend.Kernel, error) {
	p, x, y := float32(q.Attrs.(float64)), q.In[0].F32, q.Out.F32
	return kernel("affine", func() { b.pool.Affine(y, x, 1, p) })
}

// crps serves the Gaussian CRPS and its derivatives, if nothing is stretched.
func crps(b *Backend, q backend.Request) (backend.Kernel, error) {
	mu, sigma, y, out := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	if len(mu) != len(out) || len(sigma) != len(out) || len(y) != len(out) {
		return backend.Kernel{}, nil
	}
	switch q.Op.Name {
	case "gaussian_crps":
		return kernel("crps", func() { b.pool.GaussianCRPS(out, nil, nil, nil, mu, sigma, y) })
	case "gaussian_crps_dmu":
		return kernel("crps", func() { b.pool.GaussianCRPS(nil, out, nil, nil, mu, sigma, y) })
	}
	return kernel("crps", func() { b.pool.GaussianCRPS(nil, nil, out, nil, mu, sigma, y) })
}

// drops gives what a dropout drops in the step that runs.
func drops(q backend.Request) func() kern.Drops {
	a := q.Attrs.(op.Drop)
	return func() kern.Drops {
		var step uint64
		if q.Step != nil {
			step = *q.Step
		}
		return kern.Drops{Key: a.Key(q.Seed, step), Below: a.Below(), Keep: float32(1 / (1 - a.P))}
	}
}

// dropped serves dropout.
func dropped(b *Backend, q backend.Request) (backend.Kernel, error) {
	d, x, y := drops(q), q.In[0].F32, q.Out.F32
	return kernel("dropout", func() { b.pool.Dropout(y, x, d()) })
}
