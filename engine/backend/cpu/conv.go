//go:build cgo && linux

package cpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/conv"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// convSpec describes the convolution of x with w for package conv.
func convSpec(x, w graph.Shape, a op.Conv) conv.Spec {
	s := conv.Spec{N: x[0], Cin: x[1], Cout: w[0], Stride: a.Stride, Dilation: a.Dilation}
	for i := range 3 {
		s.In[i], s.Kernel[i] = x[i+2], w[i+2]
		s.Pad[i] = kern.Padding{Lo: a.Pad[i].Size, Hi: a.Pad[i].Size}
		if a.Pad[i].Periodic {
			s.Pad[i].Mode = kern.Periodic
		}
	}
	return s
}

// prepareConv prepares one pass of a convolution on plain tensors and returns its form.
//
// The form is the one of an earlier plan (Options.Choices), if this machine has it.
// Otherwise it is the one in the timing table, the one of the heuristic, or the fastest
// of a benchmark. The kernel must not use the first front values of scratch.
//
// Errors: no form supports the pass; dnnl.ErrUnavailable if one of oneDNN's might.
func (b *Backend) prepareConv(s conv.Spec, pass conv.Pass, bias, relu bool, front int) (*conv.Conv, string, error) {
	key := fmt.Sprintf("%s n%d %d-%d in%v k%v s%v d%v p%v", pass, s.N, s.Cin, s.Cout, s.In, s.Kernel, s.Stride, s.Dilation, s.Pad)
	o := conv.Options{Pool: b.pool, Bias: bias, ReLU: relu, Winograd: b.options.Winograd}
	known := b.choices[key]
	if known == "" {
		known = b.options.Choices[key]
	}
	// Forms are tried in the order: earlier choice, timing table or heuristic, benchmark ("").
	forms := []string{""}
	timed := fmt.Sprintf("conv winograd %v %s", b.options.Winograd, key) // key in the timing table
	if b.options.UseHeuristics {
		forms = heuristicForms(s, b.options.Winograd)
	} else if e, ok := b.options.Timings.Lookup(timed); ok {
		forms = slices.Insert(forms, 0, e.Choice)
	}
	if known != "" {
		forms = slices.Insert(forms, 0, known)
	}
	var c *conv.Conv
	var refused error // last error; a missing oneDNN takes precedence
	for _, form := range forms {
		if o.Choice = ""; form != "" {
			o.Choice = pass.String() + "=" + form
		}
		var err error
		if c, err = conv.PreparePass(s, pass, o); err == nil {
			break
		}
		if !errors.Is(refused, dnnl.ErrUnavailable) {
			refused = err
		}
	}
	if c == nil {
		return nil, "", refused
	}
	if e, ok := c.Timings(pass); ok {
		b.options.Timings.Record(timed, e)
	}
	b.needScratch(front + c.ScratchLen())
	form := strings.TrimPrefix(c.Choice(), pass.String()+"=")
	b.choices[key] = form
	return c, form, nil
}

// heuristicForms returns the forms of a convolution in order of preference, without
// timing.
//
//   - Fewer than 8 channels on one side: our own kernel.
//   - 3×3 without stride and dilation on fields of at least 24×24: Winograd, if it is
//     permitted.
//   - At most 4 levels: folded depth, since many products of a 3-D filter meet padding.
//
// Timings on processors with AVX-512 suggest it.
func heuristicForms(s conv.Spec, winograd bool) []string {
	forms := []string{"f2", "d3", "own"}
	if s.In[0] > 4 {
		forms = []string{"d3", "f2", "own"}
	}
	square := s.Kernel[1] == 3 && s.Kernel[2] == 3 && s.Stride[1]*s.Stride[2] == 1 && s.Dilation[1]*s.Dilation[2] == 1
	switch {
	case min(s.Cin, s.Cout) < 8:
		forms = slices.Insert(forms, 0, "own")
	case winograd && square && min(s.In[1], s.In[2]) >= 24:
		forms = slices.Insert(forms, 0, "f2wino")
	}
	return forms
}

// convKernel wraps a prepared convolution.
func convKernel(c *conv.Conv, form string, run func() error) backend.Kernel {
	return backend.Kernel{Name: "conv " + form, Run: run, Close: func() { _ = c.Close() }}
}

// joinParts returns a function that gives the input of a convolution: the only part, or
// the parts concatenated in the first front values of scratch. Plain tensors cannot be
// concatenated without a copy.
func (b *Backend) joinParts(parts []backend.Tensor) (shape graph.Shape, front int, join func() []float32) {
	shape = parts[0].Shape.Clone()
	if len(parts) == 1 {
		x := parts[0].F32
		return shape, 0, func() []float32 { return x }
	}
	for _, p := range parts[1:] {
		shape[1] += p.Shape[1]
	}
	n, rows, step := shape.Size(), shape[0], shape[1:].Size()
	return shape, n, func() []float32 {
		at := 0
		for _, p := range parts {
			run := p.Shape[1:].Size()
			b.pool.CopyRows(b.scratch[at:n], step, p.F32, run, rows, run)
			at += run
		}
		return b.scratch[:n]
	}
}

// convForward prepares conv3d and conv3d_fused on plain tensors.
//
//	y = ReLU(conv(x, w) + b)
func convForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	var a op.Conv
	var bias []float32
	relu, parts := false, q.In[:1]
	switch t := q.Attrs.(type) {
	case op.Conv:
		a = t
	case op.FusedConv:
		parts = q.In[:len(q.In)-2]
		a, relu, bias = t.Conv, t.ReLU, q.In[len(q.In)-1].F32
	}
	w := q.In[len(parts)]
	shape, front, join := b.joinParts(parts)
	c, form, err := b.prepareConv(convSpec(shape, w.Shape, a), conv.Forward, bias != nil, relu, front)
	if err != nil {
		return backend.Kernel{}, err
	}
	y := q.Out.F32
	return convKernel(c, form, func() error { return c.Forward(y, join(), w.F32, bias, b.scratch[front:]) }), nil
}

// convData prepares conv3d_grad_data and conv3d_fused_grad_data: the gradient with
// respect to some channels of the input, with optional addend and gate as winoData.
func convData(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, ok := q.Attrs.(op.FusedConvGrad)
	if !ok {
		a = op.FusedConvGrad{ConvGrad: q.Attrs.(op.ConvGrad)}
	}
	whole := q.In[0].Shape
	part := whole.Clone()
	part[1] = a.To[1]
	n, filter := 0, 0 // values at the start of scratch: dx before the addend, and part of the filter
	if len(q.In) > 2 {
		n = q.Out.Shape.Size()
	}
	if part[1] != whole[1] {
		filter = part.Size()
	}
	c, form, err := b.prepareConv(convSpec(a.To, part, a.Conv), conv.BackwardData, false, false, n+filter)
	if err != nil {
		return backend.Kernel{}, err
	}
	w, dy, dx := q.In[0].F32, q.In[1].F32, q.Out.F32
	var plus, gate []float32
	if a.HasAddend {
		plus = q.In[2].F32
	}
	if a.HasGate {
		gate = q.In[len(q.In)-1].F32
	}
	run, step := part[1:].Size(), whole[1:].Size()
	return convKernel(c, form, func() error {
		v, to := w, dx
		if filter > 0 {
			v = b.scratch[n : n+filter]
			b.pool.CopyRows(v, run, w[a.Lo*whole[2:].Size():], step, whole[0], run)
		}
		if n > 0 {
			to = b.scratch[:n]
		}
		if err := c.BackwardData(to, dy, v, b.scratch[n+filter:]); err != nil {
			return err
		}
		switch {
		case plus != nil && gate != nil:
			b.pool.Binary(kern.Add, to, to, plus)
			b.pool.UnaryGrad(kern.ReLU, dx, to, gate, gate)
		case plus != nil:
			b.pool.Binary(kern.Add, dx, to, plus)
		case gate != nil:
			b.pool.UnaryGrad(kern.ReLU, dx, to, gate, gate)
		}
		return nil
	}), nil
}

// convFilter prepares conv3d_grad_filter and conv3d_fused_grad_filter: the gradient of
// the filter.
func convFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.ConvGrad)
	parts := q.In[:len(q.In)-1]
	shape, front, join := b.joinParts(parts)
	c, form, err := b.prepareConv(convSpec(shape, a.To, a.Conv), conv.BackwardWeights, false, false, front)
	if err != nil {
		return backend.Kernel{}, err
	}
	dy, dw := q.In[len(parts)].F32, q.Out.F32
	return convKernel(c, form, func() error { return c.BackwardWeights(dw, nil, join(), dy, b.scratch[front:]) }), nil
}
