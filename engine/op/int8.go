package op

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Operations on int8 values: integers q from 0 to 255 that represent
// (q − zero point)·scale, with one scale per channel (affine quantisation,
// Jacob et al. 2018, arXiv:1712.05877). They are for predictions. The pass
// quantise inserts them.
//
// The reference kernels define the integer arithmetic bit by bit. Other kernels
// differ from them only where filters and sums are transformed in float32.
//
// Convolutions use Winograd's minimal filtering F(4×4, 3×3) with the points 0,
// ±5/8, ±3/2 and ∞ (Lavin and Gray 2016, doi:10.1109/CVPR.2016.435). A 6×6 tile
// of the source gives 4×4 results. Each of the 36 points has its own scale,
// because the ranges of the points differ (Andri et al. 2022, arXiv:2209.12982).
// Or they are direct (Int8Conv.Direct): int8 values of the source are multiplied
// as they are, which rounds less, with filters of one scale for each result
// channel.

// Int8Scales holds the scales of a quantised convolution: of its source, its
// transformed tiles and its result.
type Int8Scales struct {
	// Channels are the scales of the source channels, over all parts.
	Channels []float32 `json:"channels"`
	// ZeroPoints is the zero point of each part of the source: 0, or 128 if the
	// part has negative values.
	ZeroPoints []int `json:"zero"`
	// Factors scale the transformed tile of each part to eight bits, point by
	// point. The unit is 2⁻¹⁵, the range 1 to 32767. The points of the first
	// product come first, then those of the next one.
	Factors [][]int16 `json:"factors"`
	// OutScales are the scales of the result channels, with zero point 0. Nil
	// stores the result as float.
	OutScales []float32 `json:"out,omitempty"`
}

// String is a checksum of the scales. Attributes occur in names of timing
// tables and in graphs, so it is short and differs if scales differ.
func (q *Int8Scales) String() string {
	h := fnv.New64a()
	fmt.Fprint(h, q.Channels, q.ZeroPoints, q.Factors, q.OutScales)
	return fmt.Sprintf("int8 %016x", h.Sum64())
}

// Int8Conv is a convolution of int8 values with bias and, optionally, ReLU.
type Int8Conv struct {
	FusedConv
	Scales *Int8Scales
	// Direct multiplies the values of the source without a transform. Factors
	// are not used.
	Direct bool
}

// Int8WinogradPoints is the number of points of a transformed tile, for a
// source of the given number of levels and a filter w. It is 0 if the
// convolution has no int8 form. Supported are 1×3×3 and 3×3×3 filters of stride
// 1 and dilation 1 that preserve the size of the field.
func Int8WinogradPoints(levels int, w Shape, a Conv) int {
	if len(w) != 5 || w[2] != 1 && w[2] != 3 || w[3] != 3 || w[4] != 3 {
		return 0
	}
	for i, p := range a.withDefaults().Pad {
		if a.withDefaults().Stride[i] != 1 || a.withDefaults().Dilation[i] != 1 || p.Size != w[i+2]/2 || p.Periodic && i < 2 && p.Size > 0 {
			return 0
		}
	}
	return 36 * int8Products[int8Scheme(levels, w[2])]
}

// Schemes for the level axis. int8Flat treats each level by itself, as filters
// of one level allow. int8Pair treats a field of exactly two levels, by F(2,
// 2). int8Deep treats any number of levels in pairs, by the minimal filtering
// F(2, 3) along the level axis.
const (
	int8Flat = iota
	int8Pair
	int8Deep
)

// Per scheme: products per tile, source levels per tile, result levels per
// tile. For two result levels a direct sum would take 4 products instead of 3
// (int8Pair), and 6 instead of 4 (int8Deep).
var int8Products, int8In, int8Out = [...]int{1, 3, 4}, [...]int{1, 2, 4}, [...]int{1, 2, 2}

// int8Scheme chooses the scheme for a source with that many levels and a filter
// of kd levels.
func int8Scheme(levels, kd int) int {
	switch {
	case kd == 1 || levels == 1:
		return int8Flat
	case levels == 2:
		return int8Pair
	}
	return int8Deep
}

// shape is the shape rule of an int8 convolution.
func (a Int8Conv) shape(in []Shape) (Shape, error) {
	out, err := convFused.Shape(in, a.FusedConv)
	if err != nil {
		return nil, err
	}
	parts, w := in[:len(in)-2], in[len(in)-2]
	points := Int8WinogradPoints(out[2], w, a.Conv)
	switch q := a.Scales; {
	case q == nil || points == 0 || len(parts) > 2:
		return nil, shapeError("no int8 convolution of %d parts with filter %v", len(parts), w)
	case len(q.Channels) != w[1] || len(q.ZeroPoints) != len(parts) || len(q.Factors) != len(parts) || q.OutScales != nil && len(q.OutScales) != w[0]:
		return nil, shapeError("int8 scales of %d channels, %d zero points, %d factors and %d result channels do not fit filter %v", len(q.Channels), len(q.ZeroPoints), len(q.Factors), len(q.OutScales), w)
	case q.OutScales != nil && !a.ReLU:
		return nil, shapeError("an int8 result needs a ReLU: its zero point is 0")
	default:
		for _, f := range q.Factors {
			if len(f) != points || slices.Min(f) < 1 {
				return nil, shapeError("%d int8 factors, want %d of at least 1", len(f), points)
			}
		}
		if bad := slices.ContainsFunc(slices.Concat(q.Channels, q.OutScales), func(s float32) bool { return !(s > 0) || math.IsInf(float64(s), 1) }); bad {
			return nil, shapeError("an int8 scale is not positive and finite")
		}
	}
	return out, nil
}

// convInt8 is the int8 convolution of one or two parts. The Winograd points are
// quantised, multiplied as integers, summed over channels, scaled and
// transformed back; a direct one has no points.
var convInt8 = Define(Spec[Int8Conv]{
	Name: "conv3d_int8",
	Doc: "int8 convolution of one or two parts [N C D H W], concatenated along the channels, with bias and optional ReLU, by Winograd's minimal filtering: " +
		"w [O C kD 3 3], bias [O] → float or int8 values.",
	Source: "F(4×4, 3×3), Lavin and Gray 2016, doi:10.1109/CVPR.2016.435, with one scale per point: Andri et al. 2022, arXiv:2209.12982; inserted by the pass quantise",
	NoGrad: "inserted by the pass quantise, for predictions only",
	Shape:  func(in []Shape, a Int8Conv) (Shape, error) { return a.shape(in) },
	Window: func(in []Shape, a Int8Conv) Window { return a.window(in[len(in)-2]) },
	Class:  graph.Contraction,
	Conv:   &graph.Conv{Pass: graph.ConvInt8, Sources: operandsBefore(2)},
	FLOPs: func(in []Shape, out Shape, a Int8Conv) int64 {
		return convFused.FLOPs(in, out, a.FusedConv)
	},
	Ref: func(c Call, a Int8Conv) {
		if a.Direct {
			directInt8Ref(c, a)
		} else {
			int8Ref(c, a)
		}
	},
	Cases: []Case[Int8Conv]{
		int8Case("flat", []Shape{{2, 3, 1, 6, 7}}, 5, 3, false, true),
		int8Case("pair, two parts, periodic", []Shape{{1, 17, 2, 9, 12}, {1, 5, 2, 9, 12}}, 18, 3, true, true),
		int8Case("deep", []Shape{{1, 4, 5, 5, 6}}, 3, 3, false, false),
		int8Case("one level of the filter", []Shape{{1, 4, 2, 5, 6}}, 3, 1, false, true),
		directCase(int8Case("direct, flat", []Shape{{2, 3, 1, 6, 7}}, 5, 3, false, true)),
		directCase(int8Case("direct, two parts, periodic", []Shape{{1, 17, 2, 9, 12}, {1, 5, 2, 9, 12}}, 18, 3, true, true)),
		directCase(int8Case("direct, three levels", []Shape{{1, 4, 3, 5, 6}}, 3, 3, false, false)),
	},
})

// directCase makes a case direct.
func directCase(c Case[Int8Conv]) Case[Int8Conv] {
	c.A.Direct = true
	return c
}

// int8Case makes a case of random int8 values.
func int8Case(name string, parts []Shape, out, kd int, periodic, quantised bool) Case[Int8Conv] {
	c := 0
	q := &Int8Scales{}
	for i, p := range parts {
		c += p[1]
		q.ZeroPoints = append(q.ZeroPoints, 128*i)
	}
	w := Shape{out, c, kd, 3, 3}
	a := Conv{Pad: Same(kd, 3, 3)}
	a.Pad[2].Periodic = periodic
	for i := range c {
		q.Channels = append(q.Channels, 0.01+0.001*float32(i%7))
	}
	for range parts {
		f := make([]int16, Int8WinogradPoints(parts[0][2], w, a))
		for p := range f {
			f[p] = int16(300 + 13*(p%29))
		}
		q.Factors = append(q.Factors, f)
	}
	if quantised {
		for i := range out {
			q.OutScales = append(q.OutScales, 0.02+0.003*float32(i%5))
		}
	}
	return Case[Int8Conv]{Name: name, In: append(slices.Clone(parts), w, Shape{out}), A: Int8Conv{FusedConv: FusedConv{a.withDefaults(), quantised}, Scales: q},
		Make: func(in [][]float64) {
			for _, x := range in[:len(parts)] {
				for i := range x {
					x[i] = math.Round(127.5 + 127.5*x[i])
				}
			}
		}}
}

// ConvInt8 appends an int8 convolution. Only the pass quantise calls it.
//
// Shape: x parts [N C D H W] of int8 values, w [O C kD 3 3], bias [O] → [N O D
// H W].
// Errors: ErrShape if the filter has no int8 form, or if scales do not fit.
func ConvInt8(b *Builder, x []Value, w, bias Value, a Int8Conv) Value {
	return convInt8.add(b, a, append(x[:len(x):len(x)], w, bias)...)
}

// mulhr is a·f/2¹⁵, rounded to nearest, ties up: the instruction PMULHRSW.
func mulhr(a, f int32) int32 { return (a*f + 1<<14) >> 15 }

// Int8InputTransform is the Winograd input transform in one dimension: six
// source values, times 4, at the points 0, ±5/8, ±3/2 and ∞. Coefficients are
// rounded to multiples of 2⁻¹⁵, as int16 arithmetic represents them.
func Int8InputTransform(i [6]int32) [6]int32 {
	const quarter, aa, a, half, aabb, rest = 8192, 12800, 20480, 16384, 28800, 20992
	b1, b2 := 2*i[1]+mulhr(i[1], quarter), 2*i[2]+mulhr(i[2], quarter)
	ea, oa := i[4]-b2, mulhr(i[3]-b1, a)
	eb, ob := i[4]-mulhr(i[2], aa), i[3]-mulhr(i[1], aa)
	ob += mulhr(ob, half)
	return [6]int32{mulhr(i[0], aabb) + ea - mulhr(i[2], aa), ea + oa, ea - oa, eb + ob, eb - ob,
		mulhr(i[1], aabb) - 2*i[3] - mulhr(i[3], rest) + i[5]}
}

// Int8Source is one part of the source of an int8 convolution.
type Int8Source struct {
	Values    []float64 // [N C D H W], whole numbers from 0 to 255
	Shape     Shape
	ZeroPoint int  // the code of 0
	Conv      Conv // geometry, for the periodic padding of longitude
	Levels    int  // levels of the filter
}

// EachTile calls visit for every stride-th transformed tile. points holds the
// points of all products in units of a quarter of the source scale. It is
// reused between calls.
func (x Int8Source) EachTile(stride int, visit func(n, c, tile int, points []int32)) {
	s := x.Shape
	scheme := int8Scheme(s[2], x.Levels)
	td, th, tw := (s[2]+int8Out[scheme]-1)/int8Out[scheme], (s[3]+3)/4, (s[4]+3)/4
	points := make([]int32, 36*int8Products[scheme])
	d := make([][36]int32, int8In[scheme])
	for n := range s[0] {
		for c := range s[1] {
			plane := x.Values[(n*s[1]+c)*s[2]*s[3]*s[4]:]
			for t := 0; t < td*th*tw; t += stride {
				z0, y0, x0 := t/tw/th*int8Out[scheme], t/tw%th*4-1, t%tw*4-1
				if scheme == int8Deep {
					z0--
				}
				for z := range d {
					d[z] = x.inputTransform(plane, z0+z, y0, x0)
				}
				for k := range 36 {
					o := [4]int32{d[0][k]}
					switch scheme {
					case int8Pair:
						o = [4]int32{d[0][k] + d[1][k], d[1][k], d[0][k]}
					case int8Deep:
						o = [4]int32{d[0][k] - d[2][k], d[1][k] + d[2][k], d[2][k] - d[1][k], d[1][k] - d[3][k]}
					}
					for p := range int8Products[scheme] {
						points[p*36+k] = o[p]
					}
				}
				visit(n, c, t, points)
			}
		}
	}
}

// inputTransform transforms the 6×6 values of one level and channel from row y0
// and column x0. Values beyond the field are zero, or wrap around in longitude.
func (x Int8Source) inputTransform(plane []float64, z, y0, x0 int) (d [36]int32) {
	s, wrap := x.Shape, x.Conv.Pad[2].Periodic
	if z < 0 || z >= s[2] {
		return d
	}
	var h [36]int32
	for k := range 6 {
		var in [6]int32
		at := x0 + k
		if wrap && at < s[4]+1 { // columns beyond s[4] affect no result
			at = (at + s[4]) % s[4]
		}
		for i := range 6 {
			if y := y0 + i; y >= 0 && y < s[3] && at >= 0 && at < s[4] {
				in[i] = 4 * (int32(plane[(z*s[3]+y)*s[4]+at]) - int32(x.ZeroPoint))
			}
		}
		for i, v := range Int8InputTransform(in) {
			h[6*i+k] = v
		}
	}
	for i := range 6 {
		o := Int8InputTransform([6]int32(h[6*i:]))
		copy(d[6*i:], o[:])
	}
	return d
}

// Points of the Winograd transform and their Lagrange factors 1/Π(pᵢ − pⱼ), as
// in package kern.
const (
	pointA, pointB = 0.625, 1.5
	lag0           = 1 / (pointA * pointA * pointB * pointB)
	lagA           = 1 / (2 * pointA * pointA * (pointA*pointA - pointB*pointB))
	lagB           = 1 / (2 * pointB * pointB * (pointB*pointB - pointA*pointA))
)

// filterTransform is the filter transform in one dimension: three taps to six
// points.
func filterTransform(t [3]float64) [6]float64 {
	ea, oa := lagA*(t[0]+pointA*pointA*t[2]), lagA*pointA*t[1]
	eb, ob := lagB*(t[0]+pointB*pointB*t[2]), lagB*pointB*t[1]
	return [6]float64{lag0 * t[0], ea + oa, ea - oa, eb + ob, eb - ob, t[2]}
}

// outputTransform is the output transform in one dimension: six points to four
// results.
func outputTransform(i [6]float64) [4]float64 {
	const a, b = pointA, pointB
	pa, ma, pb, mb := i[1]+i[2], i[1]-i[2], i[3]+i[4], i[3]-i[4]
	return [4]float64{i[0] + pa + pb, a*ma + b*mb, a*a*pa + b*b*pb, a*a*a*ma + b*b*b*mb + i[5]}
}

// int8FilterTransform transforms a filter of kd levels to the points of all
// products.
func int8FilterTransform(w []float64, kd, scheme int, u []float64) {
	for p := range int8Products[scheme] {
		var h [18]float64
		var taps [9]float64
		for k := range taps {
			switch t := func(z int) float64 { return w[z*9+k] }; {
			case scheme == int8Flat:
				taps[k] = t(kd / 2)
			case scheme == int8Pair:
				taps[k] = []float64{t(1), t(2) - t(1), t(0) - t(1)}[p]
			default:
				taps[k] = []float64{t(0), (t(0) + t(1) + t(2)) / 2, (t(0) - t(1) + t(2)) / 2, t(2)}[p]
			}
		}
		for k := range 3 {
			for i, v := range filterTransform([3]float64{taps[k], taps[3+k], taps[6+k]}) {
				h[3*i+k] = v
			}
		}
		for i := range 6 {
			o := filterTransform([3]float64(h[3*i:]))
			copy(u[p*36+6*i:], o[:])
		}
	}
}

// int8Ref is the reference kernel of the int8 convolution by Winograd's minimal
// filtering. Filters are
// quantised symmetrically to ±127, with one scale per result channel and point.
func int8Ref(c Call, a Int8Conv) {
	parts := len(c.In) - 2
	w, ws, bias, q := c.In[parts], c.InShape[parts], c.In[parts+1], a.Scales
	s := c.InShape[0]
	scheme := int8Scheme(s[2], ws[2])
	points := 36 * int8Products[scheme]
	// Filters: [result][source][point], and their scales.
	u, scale := make([]float64, ws[0]*ws[1]*points), make([]float64, ws[0]*points)
	taps := ws[2] * 9
	for o := range ws[0] {
		at, most := u[o*ws[1]*points:(o+1)*ws[1]*points], scale[o*points:(o+1)*points]
		for i := range ws[1] {
			part, v := 0, at[i*points:(i+1)*points]
			if i >= s[1] {
				part = 1
			}
			int8FilterTransform(w[(o*ws[1]+i)*taps:], ws[2], scheme, v)
			for p := range v {
				v[p] *= float64(q.Channels[i]) * 8192 / float64(q.Factors[part][p])
				most[p] = max(most[p], math.Abs(v[p]))
			}
		}
		for i := range at {
			if m := most[i%points]; m > 0 {
				at[i] = math.RoundToEven(at[i] * 127 / m)
			}
		}
	}
	// Sums, for every tile and result.
	tiles := (s[2] + int8Out[scheme] - 1) / int8Out[scheme] * ((s[3] + 3) / 4) * ((s[4] + 3) / 4)
	sums := make([]float64, s[0]*tiles*ws[0]*points)
	lo := 0
	for part := range parts {
		source := Int8Source{Values: c.In[part], Shape: c.InShape[part], ZeroPoint: q.ZeroPoints[part], Conv: a.Conv, Levels: ws[2]}
		source.EachTile(1, func(n, i, t int, v []int32) {
			for p, x := range v {
				code := float64(min(max(mulhr(x, int32(q.Factors[part][p])), -128), 127))
				for o := range ws[0] {
					sums[((n*tiles+t)*ws[0]+o)*points+p] += code * u[(o*ws[1]+lo+i)*points+p]
				}
			}
		})
		lo += c.InShape[part][1]
	}
	for n := range s[0] {
		for t := range tiles {
			for o := range ws[0] {
				m := sums[((n*tiles+t)*ws[0]+o)*points:][:points]
				for p := range m {
					m[p] *= scale[o*points+p] / 127
				}
				int8Result(c, a, int8Tile{scheme, n, o, t}, m, bias[o])
			}
		}
	}
}

// int8Tile identifies a tile of one result channel of one sample.
type int8Tile struct{ scheme, sample, channel, tile int }

// int8Result transforms the sums of a tile back and writes its results. It adds
// the bias, applies ReLU and quantises, according to the attributes.
func int8Result(c Call, a Int8Conv, at int8Tile, m []float64, bias float64) {
	out, scheme, n, o, t := c.OutShape, at.scheme, at.sample, at.channel, at.tile
	th, tw := (out[3]+3)/4, (out[4]+3)/4
	z0, y0, x0 := t/tw/th*int8Out[scheme], t/tw%th*4, t%tw*4
	for z := 0; z < int8Out[scheme] && z0+z < out[2]; z++ {
		var h [24]float64
		for k := range 6 {
			var e [6]float64
			for i := range e {
				p := func(q int) float64 { return m[q*36+6*i+k] }
				switch {
				case scheme == int8Flat:
					e[i] = p(0)
				case scheme == int8Pair:
					e[i] = p(0) + p(z+1)
				case z == 0:
					e[i] = p(0) + p(1) + p(2)
				default:
					e[i] = p(1) - p(2) - p(3)
				}
			}
			for i, v := range outputTransform(e) {
				h[6*i+k] = v
			}
		}
		for i := 0; i < 4 && y0+i < out[3]; i++ {
			for k, v := range outputTransform([6]float64(h[6*i:])) {
				if x0+k >= out[4] {
					break
				}
				c.Out[(((n*out[1]+o)*out[2]+z0+z)*out[3]+y0+i)*out[4]+x0+k] = a.result(o, v+bias)
			}
		}
	}
}

// result is what is stored of a value of result channel o.
func (a Int8Conv) result(o int, v float64) float64 {
	if a.ReLU {
		v = max(v, 0)
	}
	if a.Scales.OutScales != nil {
		v = quantiseValue(v/float64(a.Scales.OutScales[o]), 0)
	}
	return v
}

// quantiseValue rounds x + zero to nearest, ties to even, and clamps it to 0 …
// 255.
func quantiseValue(x float64, zero int) float64 {
	return min(max(math.RoundToEven(x+float64(zero)), 0), 255)
}

// Quantisation holds the scales and the zero point by which a field is
// quantised.
type Quantisation struct {
	Scales    *Int8Scales // its Channels
	ZeroPoint int
}

// quantise maps values to int8: q = clamp(round(x/scale) + zero point, 0, 255).
var quantise = Define(Spec[Quantisation]{
	Name:   "quantise",
	Doc:    "Quantisation of x [N C D H W] to int8: x/scale + zero point, rounded to nearest, ties to even, and clamped to 0 … 255.",
	Source: "Jacob et al. 2018, arXiv:1712.05877; inserted by the pass quantise",
	NoGrad: "inserted by the pass quantise, for predictions only",
	Shape: func(in []Shape, a Quantisation) (Shape, error) {
		if len(in) != 1 || len(in[0]) != 5 || a.Scales == nil || len(a.Scales.Channels) != in[0][1] {
			return nil, shapeError("operands %v, want one field and one scale per channel", in)
		}
		return in[0], nil
	},
	Ref: func(c Call, a Quantisation) {
		s := c.OutShape
		for i, v := range c.In[0] {
			c.Out[i] = quantiseValue(v/float64(a.Scales.Channels[i/(s[2]*s[3]*s[4])%s[1]]), a.ZeroPoint)
		}
	},
	Cases: []Case[Quantisation]{
		{Name: "above 0", In: []Shape{{2, 3, 2, 4, 5}}, Low: -0.2, High: 3, A: Quantisation{&Int8Scales{Channels: []float32{0.015625, 0.0078125, 0.01}}, 0}},
		{Name: "either sign", In: []Shape{{1, 17, 1, 3, 5}}, A: Quantisation{&Int8Scales{Channels: slices.Repeat([]float32{0.0078125}, 17)}, 128}},
	},
})

// Quantise appends the quantisation of a field, with one scale per channel.
// Only the pass quantise calls it.
//
// Shape: x [N C D H W], scales [C] → the same, as int8 values.
func Quantise(b *Builder, x Value, scales []float32, zero int) Value {
	return quantise.add(b, Quantisation{&Int8Scales{Channels: scales}, zero}, x)
}

// upsampleInt8 is upsampling of int8 values. Interpolation does not change the
// scale, so no float is needed.
var upsampleInt8 = Define(Spec[Upsampling]{
	Name:   "upsample_int8",
	Doc:    "Upsampling of int8 values by 2 in latitude and longitude, rounded to nearest, ties up.",
	Source: "upsample; inserted by the pass quantise",
	NoGrad: "inserted by the pass quantise, for predictions only",
	Shape: func(in []Shape, a Upsampling) (Shape, error) {
		if len(in) != 1 || a.Scale != [3]int{1, 2, 2} {
			return nil, shapeError("int8 upsampling is 1×2×2, got %v", a.Scale)
		}
		return a.shape(in[0])
	},
	Window: func(in []Shape, a Upsampling) Window { return upsample.Window(in, a) },
	Ref: func(c Call, a Upsampling) {
		upsample.Ref(c, a)
		for i, v := range c.Out {
			c.Out[i] = math.Floor(v + 0.5)
		}
	},
	Cases: []Case[Upsampling]{int8UpCase("clamped", false), int8UpCase("periodic", true)},
})

// int8UpCase makes a case of random int8 values.
func int8UpCase(name string, wrap bool) Case[Upsampling] {
	return Case[Upsampling]{Name: name, In: []Shape{{1, 3, 2, 4, 5}}, A: Upsampling{[3]int{1, 2, 2}, wrap}, Make: func(in [][]float64) {
		for i, v := range in[0] {
			in[0][i] = math.Round(127.5 + 127.5*v)
		}
	}}
}

// UpsampleInt8 is Upsample of int8 values. Only the pass quantise
// calls it.
func UpsampleInt8(b *Builder, x Value, a Upsampling) Value { return upsampleInt8.add(b, a, x) }
