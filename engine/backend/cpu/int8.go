//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// int8Table lists the forms of operations on uint8 values. LayoutOptions does not list
// them: the pass quantise stores their values as uint8 and chooses no layout.
var int8Table = map[string][]blockedForm{
	"conv3d_int8":   {{int8Layouts, int8Conv, false}},
	"quantise":      {{flatLayouts, int8Quantise, false}, {fromPlainLayouts, int8Quantise, false}},
	"upsample_int8": {{upsampleLayouts, int8Upsample, false}},
}

// int8Pass is the pass of an int8 convolution.
func int8Pass(parts []graph.Shape, w graph.Shape, a op.Int8Conv) winoPass {
	x := parts[0]
	p := winoPass{name: "int8", scales: a.Scales, direct: a.Direct, WinoSpec: kern.WinoSpec{N: x[0], K: w[0], Size: [3]int(x[2:5]), KD: w[2], Side: w[3],
		FilterIn: w[1], Wrap: a.Pad[2].Periodic, ReLU: a.ReLU, Mask: kern.BlockMask(a.Mask)}}
	for i, s := range parts {
		p.Parts[i] = s[1]
	}
	return p
}

// MultipliesDirectly implements backend.DirectInt8: wherever AMX can. What Winograd's algorithm
// spares is worth less there than its transforms, and the skipped blocks of most masks less than
// its speed.
func (b *Backend) MultipliesDirectly(attrs any, in []graph.Shape) bool {
	n := len(in) - 2
	return kern.SupportsDirectInt8(int8Pass(in[:n], in[n], attrs.(op.Int8Conv)).WinoSpec)
}

// newWinoInt8 prepares an int8 convolution in a variant.
func (b *Backend) newWinoInt8(p winoPass, w kern.WinoVariant) (*kern.WinoInt8, error) {
	q := p.scales
	s := kern.WinoInt8Spec{WinoSpec: p.WinoSpec, InScales: q.Channels, OutScales: q.OutScales}
	copy(s.ZeroPoints[:], q.ZeroPoints)
	copy(s.Factors[:], q.Factors)
	return kern.NewWinoInt8(b.pool, s, w)
}

// int8Layouts is the rule of int8 convolutions: fields blocked, filter and bias plain.
func int8Layouts(_ *Backend, attrs any, in []graph.Shape, _ graph.Shape) (backend.LayoutOption, bool) {
	a, parts, w := attrs.(op.Int8Conv), in[:len(in)-2], in[len(in)-2]
	return blockedParts(len(parts), len(in)), field5(parts...) && kern.WinoInt8Points(int8Pass(parts, w, a).WinoSpec) > 0
}

// int8Conv prepares an int8 convolution, direct or by Winograd's minimal filtering, in the variant
// that the request names or the default one. Its result is uint8, or float if the next operation
// is not quantised.
//
// Source: Andri et al. 2022, arXiv:2209.12982; Jacob et al. 2018, arXiv:1712.05877.
func int8Conv(b *Backend, q backend.Request) (backend.Kernel, error) {
	n := len(q.In) - 2
	p, _ := b.winoPassOf(q)
	variant, err := p.variant(q)
	if err != nil {
		return backend.Kernel{}, err
	}
	j, err := b.newWinoInt8(p, variant)
	if err != nil {
		return backend.Kernel{}, err
	}
	b.needScratch(j.ScratchLen())
	var x1 []uint8
	if n > 1 {
		x1 = q.In[1].U8
	}
	name := p.variantName(variant)
	if !p.direct && !kern.HasVNNI() {
		name += " without VNNI"
	}
	x0, filter, bias, y8, y := q.In[0].U8, q.In[n].F32, q.In[n+1].F32, q.Out.U8, kern.Stored{}
	if y8 == nil {
		y = fieldOf(q.Out)
	}
	k, err := kernel(name, func() { j.Run(y8, y, x0, x1, filter, bias, b.scratch) })
	k.Close = j.Close
	return k, err
}

// fromPlainLayouts is the rule of quantise for a plain field.
func fromPlainLayouts(_ *Backend, _ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	return backend.LayoutOption{In: []graph.Layout{graph.Plain}, Out: graph.Blocked}, field5(in...)
}

// int8Quantise prepares quantise: round(x/scale[c]) + zero point, clipped to 0 … 255. A plain x
// is blocked on the way.
//
// Shape: x [N C D H W] → y of the same shape, uint8.
func int8Quantise(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s, x, y := q.Attrs.(op.Quantisation), blockedShape(q.Out.Shape), fieldOf(q.In[0]), q.Out.U8
	if q.In[0].Layout == graph.Plain {
		plain := q.In[0].F32
		return kernel("quantise plain", func() { b.pool.QuantisePlain(y, plain, a.Scales.Channels, a.ZeroPoint, s) })
	}
	return kernel("quantise", func() { b.pool.Quantise(y, x, a.Scales.Channels, a.ZeroPoint, s) })
}

// int8Upsample prepares upsample of uint8 values, by a factor of 2 in latitude and
// longitude.
func int8Upsample(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s, x, y := q.Attrs.(op.Upsampling), blockedShape(q.In[0].Shape), q.In[0].U8, q.Out.U8
	return kernel("int8 upsample", func() { b.pool.Int8Upsample(y, x, s, a.WrapLon) })
}
