package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// firstInt8 is the first architecture with the instruction of convint8.cu,
// mma.m16n8k32 of eight bits.
const firstInt8 = 80

// maxInt8Density is the share of kept blocks up to which an int8 convolution is expected
// to be faster than a dense one in 16 bits. It is a guess, not measured.
const maxInt8Density = 0.3

// maxInt8Sum is the number of products whose sum is exact in int32: 127·255 each.
const maxInt8Sum = math.MaxInt32 / (127 * 255)

// MultipliesDirectly implements backend.DirectInt8: all int8 convolutions here are direct.
func (*Backend) MultipliesDirectly(any, []graph.Shape) bool { return true }

// RunsInt8 implements backend.Int8Chooser: a convolution runs in int8 if its filter has
// few enough blocks that are not zero, and if it is then faster than the dense one where
// the device can time both. A race that is not possible is lost.
func (b *Backend) RunsInt8(attrs any, in []graph.Shape, out graph.Shape, stored graph.DType) bool {
	a := attrs.(op.Int8Conv)
	kept, of := a.Mask.Count()
	if of == 0 || float64(kept) > maxInt8Density*float64(of) {
		return false
	}
	q := backend.Request{Op: op.Find("conv3d_int8"), Attrs: a, Out: backend.Tensor{Shape: out, Layout: graph.ChannelsLast, DType: stored}}
	dense := backend.Request{Op: op.Find("conv3d_fused"), Attrs: a.FusedConv, Out: q.Out}
	for i, s := range in {
		t := backend.Tensor{Shape: s}
		if i < len(in)-2 {
			t.Layout, t.DType = graph.ChannelsLast, stored
		}
		dense.In = append(dense.In, t)
		if i < len(in)-2 {
			t.DType = graph.UInt8
		}
		q.In = append(q.In, t)
	}
	if !b.supportsInt8(q) {
		return false
	}
	if _, ok := b.dev.(device.Profiler); !ok {
		return true
	}
	return b.isFaster(q, dense)
}

// isFaster reports whether the fastest variant of an operation is measured to be faster
// than that of another.
func (b *Backend) isFaster(q, than backend.Request) bool {
	var seconds [2]float64
	for i, r := range []backend.Request{q, than} {
		all, err := b.Variants(r)
		if e, _ := b.timingsOf(describe(r)); err != nil || len(all) == 0 || e.Choice == "" {
			return false // estimates do not count
		} else {
			seconds[i] = e.Candidates[0].Wall.Seconds()
		}
	}
	return seconds[0] < seconds[1]
}

// supportsInt8 reports whether the kernel supports a request: codes with the channels
// last, and the first of two parts in whole blocks of channels, as the mask has them.
func (b *Backend) supportsInt8(q backend.Request) bool {
	parts := q.In[:len(q.In)-2]
	w := q.In[len(parts)].Shape
	if b.dev.Properties().Architecture < firstInt8 || w[1]*w[2:].Size() > maxInt8Sum || q.Out.Layout != graph.ChannelsLast || q.Out.Shape.Size() == 0 ||
		int64(q.Out.Shape[0])*fieldOf(q.Out.Shape).P > math.MaxInt32/2 {
		return false
	}
	if len(parts) > 2 || len(parts) == 2 && parts[0].Shape[1]%op.FilterBlock != 0 {
		return false
	}
	return !slices.ContainsFunc(parts, func(t backend.Tensor) bool { return t.Layout != graph.ChannelsLast || t.Stored() != graph.UInt8 })
}

// convInt8 prepares conv3d_int8 in the fastest variant.
func convInt8(b *Backend, q backend.Request) (backend.Kernel, error) {
	own, library, err := int8Variants(b, q)
	return b.prepareFastest(q, own, library, err)
}

// int8Variants returns the variants of an int8 convolution, which differ in the number of
// grid points of a block; none if it is not supported.
func int8Variants(b *Backend, q backend.Request) (own []variant, library libraryVariants, err error) {
	if !b.supportsInt8(q) {
		return nil, library, nil
	}
	q.In = slices.Clone(q.In)
	for _, points := range kernels.Int8Points {
		c, err := b.newInt8Conv(q)
		if err != nil {
			closeVariants(own)
			return nil, library, err
		}
		own = append(own, variant{name: fmt.Sprintf("conv int8 sparse, %d points", points), scratch: c.scratch.n, close: c.release,
			calls: func(w *work, mem []float32) { c.calls(w, mem, points) }})
	}
	return own, library, nil
}

// int8Conv is an int8 convolution with its filter as a sparse matrix: a row for each
// result channel, and a column for each source channel at each tap. Column
// (block·taps + tap)·16 + c is channel c of a block of source channels.
//
// The structure is known from the block mask, and in memory of the device; values are
// packed in each run, from the filter that the run has.
//
// Shape: parts [N Cᵢ D H W] of uint8, filter [K ΣCᵢ kD 3 3], bias [K] → [N K D H W].
type int8Conv struct {
	q       backend.Request
	a       op.Int8Conv
	panels  int
	table   int8Table
	release func() // frees the table
	scratch scratchLayout
	// values, scale, minus and most are offsets in scratch: of the packed filter, of the
	// scales of its rows, of what is subtracted from their sums, and of the largest
	// values of rows, in float64.
	values, scale, minus, most int
}

// int8Table holds addresses in one table of constants: of the arrays of kernels.SRBCRS,
// and of the scales of the source and of the result; the last is nil for results that are
// not quantised.
type int8Table struct{ ptr, col, channels, out device.Pointer }

// newInt8Conv copies the structure of the filter to the device.
func (b *Backend) newInt8Conv(q backend.Request) (*int8Conv, error) {
	c := &int8Conv{q: q, a: q.Attrs.(op.Int8Conv)}
	f, w := kernels.Int8Form, q.In[len(q.In)-2].Shape
	taps := w[2:].Size()
	c.panels = ceil(w[0], f.Vector)
	m := f.NewSRBCRS(c.panels, ceil(w[1], f.Run)*taps, func(panel, run int) bool {
		return c.a.Mask.Keeps(panel*f.Vector, run/taps*f.Run, w[1])
	})
	rows := c.panels * f.Vector
	c.values = c.scratch.reserve(int64(f.Values(m) / elem))
	c.scale, c.minus, c.most = c.scratch.reserve(int64(rows)), c.scratch.reserve(int64(rows)), c.scratch.reserve(int64(2*rows))
	numbers := slices.Concat(m.Ptr, m.Col, bitsOf(c.a.Scales.Channels), bitsOf(c.a.Scales.OutScales))
	p, release, err := b.table(numbers)
	if err != nil {
		return nil, err
	}
	c.release = release
	for _, part := range []struct {
		at *device.Pointer
		n  int
	}{{&c.table.ptr, len(m.Ptr)}, {&c.table.col, len(m.Col)}, {&c.table.channels, len(c.a.Scales.Channels)}, {&c.table.out, len(c.a.Scales.OutScales)}} {
		if part.n > 0 {
			*part.at = p
		}
		p = advance(p, int64(elem*part.n))
	}
	return c, nil
}

// bitsOf returns the bits of values.
func bitsOf(x []float32) (bits []int32) {
	for _, v := range x {
		bits = append(bits, int32(math.Float32bits(v)))
	}
	return bits
}

// calls adds the calls that pack the filter and convolve, in blocks of so many grid
// points.
func (c *int8Conv) calls(w *work, mem []float32, points int) {
	n := len(c.q.In) - 2
	first, second := c.q.In[0], c.q.In[n-1]
	filter, bias := c.q.In[n], c.q.In[n+1]
	blocks0, zero := ceil(first.Shape[1], op.FilterBlock), c.a.Scales.ZeroPoints
	taps := filter.Shape[2:].Size()
	values, scale, minus, most := start(mem[c.values:]), start(mem[c.scale:]), start(mem[c.minus:]), start(mem[c.most:])
	block := [3]int{kernels.Int8PackThreads}
	pack := kernels.ConvInt8Pack(kernels.Int8Form)
	w.call(pack, "filter_scales", device.Size{Grid: [3]int{filter.Shape[0]}, Block: block},
		at(filter), c.table.channels, most, int32(filter.Shape[1]), int32(taps))
	zeros := []any{int32(blocks0), int32(zero[0]), int32(zero[n-1])}
	w.call(pack, "pack_filter", device.Size{Grid: [3]int{c.panels * kernels.Int8Form.Vector}, Block: block},
		append([]any{at(filter), c.table.channels, most, c.table.ptr, c.table.col, values, scale, minus,
			int32(filter.Shape[0]), int32(filter.Shape[1]), int32(taps)}, zeros...)...)
	y := fieldOf(c.q.Out.Shape)
	args := []any{at(first), at(second), c.table.ptr, c.table.col, values, scale, minus, at(bias), c.table.out, at(c.q.Out),
		int32(blocks0), int32(fieldOf(first.Shape).Lanes), int32(fieldOf(second.Shape).Lanes), int32(zero[0]), int32(zero[n-1])}
	args = append(args, int32s(c.panels, y.N, y.S[0], y.S[1], y.S[2], filter.Shape[2])...)
	args = append(args, flag(c.a.Pad[2].Periodic), int32(y.C), int32(y.Lanes), flag(c.a.ReLU))
	tiles := ceil(y.N*int(y.P), points)
	w.call(kernels.ConvInt8(points, stored(c.q.Out)), "conv_int8",
		device.Size{Grid: [3]int{tiles * c.panels}, Block: [3]int{kernels.Int8Threads}, Shared: kernels.Int8Shared(points)}, args...)
}

// quantise prepares quantise of a field, plain or with the channels last, to uint8 with
// the channels last.
//
// Shape: x [N C D H W] → y of the same shape, uint8.
func quantise(b *Backend, q backend.Request) (backend.Kernel, error) {
	if q.Out.Stored() != graph.UInt8 {
		return backend.Kernel{}, nil
	}
	a, f, x := q.Attrs.(op.Quantisation), fieldOf(q.Out.Shape), q.In[0]
	scales, release, err := b.table(bitsOf(a.Scales.Channels))
	if err != nil {
		return backend.Kernel{}, err
	}
	w := &work{b: b}
	w.call(kernels.Program("quantise.cu", fieldDefines(x)...), "quantise", gridFor(int64(f.N)*f.P*int64(f.Lanes/widthLast)),
		at(x), at(q.Out), scales, int32(f.C), int32(f.Lanes), f.P, int32(f.N), int32(a.ZeroPoint))
	k, err := w.kernel("quantise")
	k.Close = release
	return k, err
}

// upsampleInt8 prepares upsample_int8, which rounds ties up, as storing codes does.
//
// Shape: x [N C D H W] → y [N C D 2H 2W], both uint8.
func upsampleInt8(b *Backend, q backend.Request) (backend.Kernel, error) {
	if q.Out.Stored() != graph.UInt8 {
		return backend.Kernel{}, nil
	}
	return upsample(b, q)
}
