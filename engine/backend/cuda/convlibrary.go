package cuda

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// ConvLibrary prepares convolutions: cuDNN, or a fake in tests.
type ConvLibrary interface {
	// Version returns the version of the library; names of plans are valid for one
	// version.
	Version() string
	// Plans returns plans of a convolution, the best guess first; none if the library does
	// not support it.
	Plans(c cudnn.Convolution, l cudnn.Limits) []ConvPlan
	// Plan returns the plan of a name from Plans, in this or another process; nil if there
	// is none.
	Plan(c cudnn.Convolution, name string) ConvPlan
	// CachePlan makes Plan faster for this plan, in other processes too.
	CachePlan(c cudnn.Convolution, p ConvPlan)
}

// ConvPlan is a plan of a convolution.
type ConvPlan interface {
	Name() string
	Workspace() int64 // bytes
	Fused() bool      // reports whether it includes bias and ReLU
	Run(o cudnn.Operands) error
	Close() error
}

// UseLibrary makes convolutions that are prepared afterwards choose among our own
// kernels and the plans of a library; nil uses our own only.
func (b *Backend) UseLibrary(l ConvLibrary) { b.library = l }

// CuDNN returns cuDNN of a version on a device as a ConvLibrary. Kernels that cuDNN
// compiles for a plan are stored in cache, for devices of this name and compute
// capability.
func CuDNN(h *cudnn.Handle, version string, p device.Properties, cache nvrtc.Cache) ConvLibrary {
	return vendor{h, version, fmt.Sprintf("%s, sm_%d", p.Name, p.Architecture), cache}
}

// vendor is cuDNN. Convolutions that it does not support run our own kernel.
type vendor struct {
	h       *cudnn.Handle
	version string
	device  string
	cache   nvrtc.Cache
}

// Version returns the version of cuDNN.
func (v vendor) Version() string { return v.version }

// Plans returns the plans that cuDNN proposes.
func (v vendor) Plans(c cudnn.Convolution, l cudnn.Limits) []ConvPlan {
	plans, err := v.h.Plans(c, l)
	if err != nil {
		return nil
	}
	all := make([]ConvPlan, len(plans))
	for i, p := range plans {
		all[i] = p
	}
	return all
}

// key returns the cache key of a compiled plan.
func (v vendor) key(c cudnn.Convolution, name string) []string {
	return []string{"cuDNN " + v.version, v.device, fmt.Sprintf("%#v", c), name}
}

// Plan restores the plan from the cache, or makes it from its name.
func (v vendor) Plan(c cudnn.Convolution, name string) ConvPlan {
	if text, ok := v.cache.Get(v.key(c, name)...); ok {
		if p, err := v.h.Restore(c, name, text); err == nil {
			return p
		}
	}
	p, err := v.h.Plan(c, name)
	if err != nil {
		return nil
	}
	return p
}

// CachePlan stores plans with compiled kernels; others are made as fast from their
// name.
func (v vendor) CachePlan(c cudnn.Convolution, p ConvPlan) {
	plan, ok := p.(*cudnn.Plan)
	if !ok || !plan.Compiled() { // made as soon from its name
		return
	}
	if text, err := plan.Save(); err == nil { // else it is compiled again
		v.cache.Put(text, v.key(c, plan.Name())...)
	}
}

// libraryLimits limits the plans that are tried: making one may take half a second.
var libraryLimits = cudnn.Limits{Workspace: 1 << 30, MaxPlans: 2}

// libraryTypes maps types of CUDA programs to those of cuDNN.
var libraryTypes = map[string]cudnn.Type{"float": cudnn.Float32, "bf16": cudnn.BFloat16, "f16": cudnn.Float16}

// libraryPadding returns how an axis is padded for a library: with zeros by the
// library, or, if it is periodic, by a copy of the field with wrap extra points on
// either side. ok is false if neither is possible.
func libraryPadding(p op.Pad, axis, pad int) (zeros, wrap int, ok bool) {
	if !p.Periodic || pad == 0 {
		return pad, 0, pad >= 0
	}
	return 0, pad, pad > 0 && axis == 2 // the last axis, whose neighbours are adjacent in memory
}

// librarySteps describes what convolutions of a library have in common: an input that
// may have to be concatenated and padded, and the geometry.
type librarySteps struct {
	c      cudnn.Convolution
	values string
	parts  []backend.Tensor
	// wrapPad is the number of points copied to either side of a periodic last axis.
	wrapPad int
}

// lanes returns the channels and padded channels of the first part, and the channels of
// the second.
func (s *librarySteps) lanes() (c0, l0, c1 int) {
	c0 = s.parts[0].Shape[1]
	if len(s.parts) > 1 {
		c1 = s.parts[1].Shape[1]
	}
	return c0, graph.ChannelsLast.PaddedChannels(c0), c1
}

// newLibrarySteps describes a convolution of parts for a library; ok is false if the
// library cannot compute it.
func (b *Backend) newLibrarySteps(parts []backend.Tensor, filter [3]int, a op.Conv, pads [3]int, results int) (s librarySteps, ok bool) {
	values, plain, ok := supportedFields(parts...)
	if !ok || plain || b.library == nil || len(parts) > 2 || a.Mask != "" {
		return s, false
	}
	f := fieldOf(parts[0].Shape)
	s = librarySteps{values: values, parts: parts, c: cudnn.Convolution{N: f.N, Out: graph.ChannelsLast.PaddedChannels(results), Size: f.S, Filter: filter,
		Stride: a.Stride, Dilation: a.Dilation, Type: libraryTypes[values]}}
	s.c.TF32 = s.c.Type == cudnn.Float32 && b.tf32
	for _, p := range parts {
		s.c.In += graph.ChannelsLast.PaddedChannels(p.Shape[1])
	}
	for i := range 3 {
		zeros, wrap, fits := libraryPadding(a.Pad[i], i, pads[i])
		ok = ok && fits
		s.c.Pad[i] = zeros
		if wrap > 0 {
			s.wrapPad = wrap
			s.c.Size[i] += 2 * wrap
		}
	}
	return s, ok
}

// needsCopy reports whether the library needs a copy of the input.
func (s *librarySteps) needsCopy() bool { return s.wrapPad > 0 || len(s.parts) > 1 }

// fieldElems returns the scratch of that copy, in float32 elements.
func (s *librarySteps) fieldElems() int64 {
	if !s.needsCopy() {
		return 0
	}
	return int64(s.c.N) * int64(s.c.Size[0]*s.c.Size[1]) * int64(s.c.Size[2]) * int64(s.c.In) * int64(valueBytes(s.values)) / elem
}

// field adds the call that makes the copy, and returns the address of the input for the
// library.
func (s *librarySteps) field(w *work, copied device.Pointer) device.Pointer {
	if !s.needsCopy() {
		return at(s.parts[0])
	}
	const unit = 8
	second, units1 := at(s.parts[0]), 0
	if len(s.parts) > 1 {
		second, units1 = at(s.parts[1]), graph.ChannelsLast.PaddedChannels(s.parts[1].Shape[1])/unit
	}
	f := fieldOf(s.parts[0].Shape)
	rows, wide := int64(f.N*f.S[0])*int64(f.S[1]), int64(f.S[2]+2*s.wrapPad)
	w.call(kernels.ConvLibrary(s.values, false), "pad_periodic", gridFor(rows*wide*int64(s.c.In/unit)),
		at(s.parts[0]), second, copied, int32(f.Lanes/unit), int32(units1), rows, int32(f.S[2]), int32(s.wrapPad))
	return copied
}

// taps returns the number of taps of the filter.
func (s *librarySteps) taps() int { return s.c.Filter[0] * s.c.Filter[1] * s.c.Filter[2] }

// libraryConvs returns the variants of a library for a convolution or its adjoint.
//
// The adjoint of a convolution with stride 1 is a convolution with the reversed filter
// and padding (k−1)·dilation − pad; with other strides there is none. A float16 or
// bfloat16 sum with an addend is excluded, because it would be rounded twice.
func (b *Backend) libraryConvs(q backend.Request, c convolution) (none libraryVariants) {
	filter := c.filter.Shape
	size := [3]int{filter[2], filter[3], filter[4]}
	a := convOf(q.Attrs)
	var pads [3]int
	for i := range 3 {
		pads[i] = a.Pad[i].Size
		if !c.adjoint {
			continue
		}
		// The padding complementary to that of the forward pass. A periodic axis must keep
		// its size.
		reach := (size[i] - 1) * max(a.Dilation[i], 1)
		if max(a.Stride[i], 1) != 1 || a.Pad[i].Periodic && 2*a.Pad[i].Size != reach {
			return none
		}
		pads[i] = reach - pads[i]
	}
	s, ok := b.newLibrarySteps(c.parts, size, a, pads, c.out.Shape[1])
	if !ok {
		return none
	}
	s.c.Bias, s.c.BiasFloat32, s.c.ReLU = c.bias != nil, c.bias != nil, c.relu
	if s.c.Result() != fieldOf(c.out.Shape).S {
		return none
	}
	if c.plus != nil && s.c.Type != cudnn.Float32 { // the sum would be rounded twice
		return none
	}
	return libraryVariants{b, s.c, func(p ConvPlan) variant { return b.libraryConv(c, s, p) }}
}

// libraryConv returns the variant of one plan. Steps of a run:
//
//   - copy the input, if it has two parts or periodic longitudes,
//   - convert the filter to the order of the library, reversed for an adjoint,
//   - pad the bias to the channels of the result,
//   - run the plan,
//   - apply addend and gate by a kernel of our own, and bias and ReLU that the plan leaves
//     out: then the sum is rounded to its type twice, as PyTorch does.
func (b *Backend) libraryConv(c convolution, s librarySteps, p ConvPlan) variant {
	var room scratchLayout
	bytes := int64(valueBytes(s.values))
	field := room.reserve(s.fieldElems())
	filter := room.reserve(int64(s.c.Out) * int64(s.taps()) * int64(s.c.In) * bytes / elem)
	bias := room.reserve(int64(s.c.Out))
	sum := 0
	if c.plus != nil { // whose memory may be that of the result
		sum = room.reserve(elems(c.out) * bytes / elem)
	}
	workspace := room.reserve((p.Workspace() + elem - 1) / elem)
	c0, l0, c1 := s.lanes()
	calls := func(w *work, mem []float32) {
		o := cudnn.Operands{X: s.field(w, start(mem[field:])), W: start(mem[filter:]), Y: at(c.out), Workspace: start(mem[workspace:])}
		w.call(kernels.ConvLibrary(s.values, c.adjoint), "filter", gridFor(int64(s.c.Out)*int64(s.taps())*int64(s.c.In)),
			at(c.filter), o.W, int32(c.out.Shape[1]), int32(s.c.Out), int32(c.filter.Shape[1]), int32(s.taps()), int32(c0), int32(l0), int32(c1), int32(s.c.In), int32(c.lo))
		if c.bias != nil { // in as many lanes as the result
			o.Bias = start(mem[bias:])
			n := c.bias.Shape.Size()
			w.do(func() error { return b.dev.Zero(o.Bias, elem*int64(s.c.Out)) })
			w.do(func() error { return b.dev.Copy(o.Bias, at(*c.bias), elem*int64(n)) })
		}
		if c.plus != nil {
			o.Y = start(mem[sum:])
		}
		w.do(func() error { return p.Run(o) })
		apart := (s.c.Bias || s.c.ReLU) && !p.Fused()
		if c.plus != nil || c.gate != nil || apart {
			eighths := elems(c.out) / 8
			place := func(t *backend.Tensor) device.Pointer {
				if t == nil {
					return nil
				}
				return at(*t)
			}
			bias, relu := device.Pointer(nil), int32(0)
			if apart {
				bias = o.Bias
				if s.c.ReLU {
					relu = 1
				}
			}
			w.call(kernels.ConvLibrary(s.values, false), "finish", gridFor(eighths), o.Y, bias, place(c.plus), place(c.gate), at(c.out), eighths, int32(s.c.Out/8), relu)
		}
	}
	return variant{scratch: room.n, calls: calls}
}

// libraryFilters returns the variants of a library for the gradient of a filter. The
// result of the library is float32 with padded channels; a kernel of our own converts
// it to the order of the filter.
func (b *Backend) libraryFilters(q backend.Request, a op.ConvGrad) (none libraryVariants) {
	parts, dy := q.In[:len(q.In)-1], q.In[len(q.In)-1]
	filter := q.Out.Shape
	size := [3]int{filter[2], filter[3], filter[4]}
	s, ok := b.newLibrarySteps(parts, size, a.Conv, [3]int{a.Pad[0].Size, a.Pad[1].Size, a.Pad[2].Size}, filter[0])
	if !ok || stored(dy) != s.values || s.c.Result() != fieldOf(dy.Shape).S {
		return none
	}
	s.c.Pass, s.c.FilterGradFloat32 = cudnn.FilterGrad, s.c.Type != cudnn.Float32
	c0, l0, _ := s.lanes()
	return libraryVariants{b, s.c, func(p ConvPlan) variant {
		var room scratchLayout
		field := room.reserve(s.fieldElems())
		grad := room.reserve(int64(s.c.Out) * int64(s.taps()) * int64(s.c.In))
		workspace := room.reserve((p.Workspace() + elem - 1) / elem)
		return variant{scratch: room.n, calls: func(w *work, mem []float32) {
			o := cudnn.Operands{X: s.field(w, start(mem[field:])), Y: at(dy), W: start(mem[grad:]), Workspace: start(mem[workspace:])}
			w.do(func() error { return p.Run(o) })
			w.call(kernels.ConvLibrary(s.values, false), "filter_grad", gridFor(int64(filter.Size())), o.W, at(q.Out),
				int32(filter[0]), int32(filter[1]), int32(s.taps()), int32(c0), int32(l0), int32(s.c.In))
		}}
	}}
}

// convOf returns the geometry in the attributes of a convolution.
func convOf(attrs any) op.Conv {
	switch a := attrs.(type) {
	case op.FusedConv:
		return a.Conv
	case op.FusedConvGrad:
		return a.Conv
	case op.ConvGrad:
		return a.Conv
	}
	return attrs.(op.Conv)
}
