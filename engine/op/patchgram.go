package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// PatchGram is the geometry of the Gram matrix of the patches of a convolution. A patch has
// the values that one position of the result reads, in the order of the filter: by channel,
// then by tap. Values in the padding are 0.
type PatchGram struct {
	Conv
	Taps [3]int // taps of the filter along level, latitude, longitude
	// Ones appends a 1 to every patch, the input of a bias.
	Ones bool
	// Channels averages the matrix over the taps: it has one row for each channel only.
	Channels bool
}

// Side is the number of rows of the matrix for c channels.
func (a PatchGram) Side(c int) int {
	switch {
	case a.Channels:
		return c
	case a.Ones:
		return c*a.taps() + 1
	}
	return c * a.taps()
}

// taps is the number of values that a patch has of each channel.
func (a PatchGram) taps() int { return a.Taps[0] * a.Taps[1] * a.Taps[2] }

// filter is the shape of a filter with one result.
func (a PatchGram) filter(c int) Shape { return Shape{1, c, a.Taps[0], a.Taps[1], a.Taps[2]} }

// Index lists the element along axis i (0 level, 1 latitude, 2 longitude) that position o
// reads by tap t of x, at [o·taps+t]. It is −1 in the padding.
//
// Shape: x [N C D H W], positions [N O D' H' W'].
func (a PatchGram) Index(i int, x, positions Shape) []int {
	return a.Conv.taps(i, x[i+2], a.Taps[i], positions[i+2])
}

// TriangleSize is the number of elements of the lower triangle of a symmetric matrix with n
// rows, diagonal included. Element (i, j ≤ i) is at i(i+1)/2 + j.
func TriangleSize(n int) int { return n * (n + 1) / 2 }

// patchGram sums the outer products of patches. With one tap it is the second moment of a
// field's channels.
var patchGram = Define(Spec[PatchGram]{
	Name: "patch_gram",
	Doc: "Gram matrix of the patches of x [N C D H W] that the positions of a convolution to dy [N O D' H' W'] read, summed over samples and positions, " +
		"as the lower triangle by rows → [side·(side+1)/2], side = C·taps (+1), or averaged over the taps C.",
	Source: "Grosse and Martens 2016, arXiv:1602.01407, section 3",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a PatchGram) (Shape, error) {
		if len(in) != 2 || len(in[0]) != 5 || min(a.Taps[0], a.Taps[1], a.Taps[2]) < 1 || a.Ones && a.Channels {
			return nil, shapeError("operands %v, want x [N C D H W] and dy; taps %v must be at least 1, and a one needs all taps", in, a.Taps)
		}
		y, err := convShape(in[0], a.filter(in[0][1]), a.Conv)
		if err != nil {
			return nil, err
		}
		if len(in[1]) != 5 || y[0] != in[1][0] || !y[2:].Equal(in[1][2:]) {
			return nil, shapeError("dy is %v; %v taps of x %v have positions %v", in[1], a.Taps, in[0], y[2:])
		}
		return Shape{TriangleSize(a.Side(in[0][1]))}, nil
	},
	Split: graph.SplitPatches,
	Window: func(in []Shape, a PatchGram) Window {
		w := a.window(a.filter(in[0][1]))
		w.CorrelateWith, w.FullAxes, w.Additive = 1, []int{0, 2, 3, 4}, true
		return w
	},
	ShardAttrs: func(a PatchGram, l graph.Shard) PatchGram {
		a.Conv = a.Conv.shardAttrs(l)
		return a
	},
	Class: graph.Contraction,
	FLOPs: func(in []Shape, out Shape, a PatchGram) int64 {
		positions := in[1]
		if a.Channels {
			positions = in[0]
		}
		return 2 * int64(in[0][0]) * int64(positions[2:].Size()) * int64(out[0])
	},
	Bytes: func(in []Shape, out Shape, _ PatchGram) int64 { return 4 * int64(in[0].Size()+out.Size()) },
	Ref: func(c Call, a PatchGram) {
		clear(c.Out)
		part := 1.0
		if a.Channels {
			part = 1 / float64(a.taps())
		}
		a.each(c.In[0], c.InShape[0], c.InShape[1], func(p []float64) {
			for i, v := range p {
				row := c.Out[i*(i+1)/2:]
				for j := range i + 1 {
					row[j] += part * v * p[j]
				}
			}
		})
	},
	Cases: patchGramCases(),
})

// each visits the patches of all samples and positions in row-major order; with Channels, the
// values of all channels at each tap outside of the padding.
func (a PatchGram) each(x []float64, xs, ys Shape, visit func(p []float64)) {
	var taps [3][]int
	for i := range 3 {
		taps[i] = a.Index(i, xs, ys)
	}
	p, points := make([]float64, a.Side(xs[1])), xs[2:].Size()
	for n := range ys[0] {
		for at := range ys[2:].Size() {
			d, h, l := at/ys[4]/ys[3], at/ys[4]%ys[3], at%ys[4]
			for t := range a.taps() {
				jd := taps[0][d*a.Taps[0]+t/a.Taps[2]/a.Taps[1]]
				jh := taps[1][h*a.Taps[1]+t/a.Taps[2]%a.Taps[1]]
				jl := taps[2][l*a.Taps[2]+t%a.Taps[2]]
				padding := min(jd, jh, jl) < 0
				for c := range xs[1] {
					to := c*a.taps() + t
					if a.Channels {
						to = c
					}
					if p[to] = 0; !padding {
						p[to] = x[(n*xs[1]+c)*points+(jd*xs[3]+jh)*xs[4]+jl]
					}
				}
				if a.Channels && !padding {
					visit(p)
				}
			}
			if a.Ones {
				p[len(p)-1] = 1
			}
			if !a.Channels {
				visit(p)
			}
		}
	}
}

// ChannelWeights returns the square roots of the shares of taps that read each index of x
// along axis i, for Channels: the average over the taps is a sum over the points of x, each
// weighted with the number of reads of it, a product of the three axes.
//
// Shape: as Index.
func (a PatchGram) ChannelWeights(i int, x, positions Shape) []float32 {
	reads := make([]float64, x[i+2])
	for _, j := range a.Index(i, x, positions) {
		if j >= 0 {
			reads[j]++
		}
	}
	out := make([]float32, len(reads))
	for j, n := range reads {
		out[j] = float32(math.Sqrt(n / float64(a.Taps[i])))
	}
	return out
}

// GramOfPatches is the Gram matrix of the patches of x at the positions of dy:
//
//	A = Σ p·pᵀ   over the patches p of all samples and positions
//
// Only the shape of dy is read.
//
// Shape: x [N C D H W], dy [N O D' H' W'] → [TriangleSize(side)].
// Gradient: none; it occurs only in gradients.
// Window: that of the convolution; ranks sum over their own positions.
// Errors: ErrShape.
// Cost: side² FLOPs per position: one triangle.
// Source: Grosse and Martens 2016, arXiv:1602.01407, section 3.
func GramOfPatches(b *Builder, x, dy Value, a PatchGram) Value {
	a.Conv = a.withDefaults()
	return patchGram.add(b, a, x, dy)
}

// GramOfChannels is Σ v·vᵀ over the channel vectors v of all samples and points of a field.
//
// Shape: x [N C D H W] → [TriangleSize(C)].
// Gradient: none; it occurs only in gradients.
// Errors: ErrShape.
// Source: Grosse and Martens 2016, arXiv:1602.01407, section 3.
func GramOfChannels(b *Builder, x Value) Value {
	return GramOfPatches(b, x, x, PatchGram{Taps: [3]int{1, 1, 1}})
}

// patchGramCases returns the test geometries: those of the convolution, with all forms.
func patchGramCases() []Case[PatchGram] {
	var out []Case[PatchGram]
	for _, c := range []struct {
		name string
		x    Shape
		taps [3]int
		a    Conv
	}{
		{"3x3x3 zero", Shape{2, 3, 4, 6, 7}, [3]int{3, 3, 3}, Conv{Pad: Same(3, 3, 3)}},
		{"3x3x3 depth 2, periodic", Shape{2, 2, 2, 6, 8}, [3]int{3, 3, 3}, Conv{Pad: SameGlobal(3, 3, 3)}},
		{"1x1x1", Shape{2, 19, 3, 5, 26}, [3]int{1, 1, 1}, Conv{}},
		{"1x5x7 valid", Shape{2, 2, 3, 7, 9}, [3]int{1, 5, 7}, Conv{}},
		{"stride 1 2 3", Shape{1, 2, 5, 6, 7}, [3]int{3, 3, 3}, Conv{Stride: [3]int{1, 2, 3}, Pad: Same(3, 3, 3)}},
		{"dilation 1 2 3, periodic", Shape{1, 2, 4, 9, 11}, [3]int{3, 3, 3},
			Conv{Dilation: [3]int{1, 2, 3}, Pad: [3]Pad{{1, false}, {2, false}, {3, true}}}},
	} {
		for _, form := range []struct {
			name string
			a    PatchGram
		}{{"", PatchGram{}}, {", ones", PatchGram{Ones: true}}, {", channels", PatchGram{Channels: true}}} {
			form.a.Conv, form.a.Taps = c.a.withDefaults(), c.taps
			y, err := convShape(c.x, form.a.filter(c.x[1]), form.a.Conv)
			if err != nil {
				panic("patch_gram case " + c.name + ": " + err.Error())
			}
			y[1] = 2
			out = append(out, Case[PatchGram]{Name: c.name + form.name, In: []Shape{c.x, y}, A: form.a})
		}
	}
	return out
}
