//go:build cgo && linux

package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/conv"
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

// prepareConv prepares one pass of a convolution: in the form that an earlier
// plan chose if there was one and this machine has it, else by rule or by
// timing.
func (b *Backend) prepareConv(s conv.Spec, pass conv.Pass, bias, relu bool) (*conv.Conv, string, error) {
	key := fmt.Sprintf("%s n%d %d-%d in%v k%v s%v d%v p%v", pass, s.N, s.Cin, s.Cout, s.In, s.Kernel, s.Stride, s.Dilation, s.Pad)
	o := conv.Options{Pool: b.pool, Bias: bias, ReLU: relu, Winograd: b.o.Winograd}
	known := b.choices[key]
	if known == "" {
		known = b.o.Choices[key]
	}
	forms := []string{""} // empty: by timing
	if b.o.ByRule {
		forms = rule(s, b.o.Winograd)
	}
	if known != "" {
		forms = slices.Insert(forms, 0, known)
	}
	var c *conv.Conv
	var err error
	for _, form := range forms {
		if o.Force = ""; form != "" {
			o.Force = pass.String() + "=" + form
		}
		if c, err = conv.PreparePass(s, pass, o); err == nil {
			break
		}
	}
	if err != nil {
		return nil, "", err
	}
	b.needScratch(c.ScratchLen())
	form := strings.TrimPrefix(c.Choice(), pass.String()+"=")
	b.choices[key] = form
	return c, form, nil
}

// rule lists the forms of a convolution, preferred ones first, as timings on
// processors with AVX-512 suggest: Winograd's products pay on larger fields,
// folding the depth for few levels, our own kernel for few channels.
func rule(s conv.Spec, winograd bool) []string {
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

// convForward serves conv3d and conv3d_fused.
func convForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	var a op.Conv
	var bias []float32
	relu := false
	switch t := q.Attrs.(type) {
	case op.Conv:
		a = t
	case op.Fused:
		a, relu, bias = t.Conv, t.ReLU, q.In[2].F32
	}
	c, form, err := b.prepareConv(convSpec(q.In[0].Shape, q.In[1].Shape, a), conv.Forward, bias != nil, relu)
	if err != nil {
		return backend.Kernel{}, err
	}
	x, w, y := q.In[0].F32, q.In[1].F32, q.Out.F32
	return convKernel(c, form, func() error { return c.Forward(y, x, w, bias, b.scratch) }), nil
}

// convData serves conv3d_grad_data: filter and dy to dx.
func convData(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.ConvGrad)
	c, form, err := b.prepareConv(convSpec(a.To, q.In[0].Shape, a.Conv), conv.BackwardData, false, false)
	if err != nil {
		return backend.Kernel{}, err
	}
	w, dy, dx := q.In[0].F32, q.In[1].F32, q.Out.F32
	return convKernel(c, form, func() error { return c.BackwardData(dx, dy, w, b.scratch) }), nil
}

// convFilter serves conv3d_grad_filter: x and dy to dw.
func convFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.ConvGrad)
	c, form, err := b.prepareConv(convSpec(q.In[0].Shape, a.To, a.Conv), conv.BackwardWeights, false, false)
	if err != nil {
		return backend.Kernel{}, err
	}
	x, dy, dw := q.In[0].F32, q.In[1].F32, q.Out.F32
	return convKernel(c, form, func() error { return c.BackwardWeights(dw, nil, x, dy, b.scratch) }), nil
}
