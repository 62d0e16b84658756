package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// AxisAttention says which points attend to each other: those of a window along one axis.
type AxisAttention struct {
	Axis  int // 0: the rows of a set; 2, 3, 4: levels, latitudes, longitudes
	Set   int // rows of a set, with Axis 0
	Heads int
	// Starts are the first indices of the windows, ascending. The last window ends where the axis does, or, if the first
	// start is above 0, goes on around the axis up to there.
	Starts []int
}

// length is the number of points of a line along the axis.
func (a AxisAttention) length(x Shape) int {
	if a.Axis == 0 {
		return a.Set
	}
	return x[a.Axis]
}

// Windows lists the first index and the number of points of each window of an axis of n.
func (a AxisAttention) Windows(n int) [][2]int {
	out := make([][2]int, len(a.Starts))
	for i, lo := range a.Starts {
		end := a.Starts[0] + n
		if i+1 < len(a.Starts) {
			end = a.Starts[i+1]
		}
		out[i] = [2]int{lo, end - lo}
	}
	return out
}

// WindowStarts are the starts of windows of at most size points, as equal as can be, along an axis of n. Those of every
// second block are shifted by half of one, so that the borders of one are inside those of the other: around the axis if
// it is periodic, else with half a window at both ends. With size 0 there is one window.
func WindowStarts(n, size int, shifted, periodic bool) []int {
	if size <= 0 || size >= n {
		return []int{0}
	}
	parts := (n + size - 1) / size
	shifted = shifted && n/parts > 1
	var starts []int
	for i := range parts {
		at := i * n / parts
		if shifted {
			at += n / parts / 2
		}
		starts = append(starts, at)
	}
	if shifted && !periodic {
		starts = append([]int{0}, starts...)
	}
	return starts
}

// check gives the shape of the result of queries, keys and values x with the offsets' weights.
func (a AxisAttention) check(x, offsets Shape) (Shape, error) {
	if len(x) != 5 || a.Axis < 0 || a.Axis == 1 || a.Axis > 4 || a.Heads < 1 || x[1]%(3*a.Heads) != 0 {
		return nil, shapeError("x is %v, want [N 3·C D H W] with C of %d heads, attended along axis %d", x, a.Heads, a.Axis)
	}
	if a.Axis == 0 && (a.Set < 1 || x[0]%a.Set != 0) {
		return nil, shapeError("x is %v, want [N·%d …]", x, a.Set)
	}
	if len(offsets) != 2 || offsets[0] != a.Heads || offsets[1]%2 == 0 {
		return nil, shapeError("weights of offsets are %v, want [%d 2·R+1]", offsets, a.Heads)
	}
	for i, w := range a.Windows(a.length(x)) {
		if w[1] < 1 || w[0] < 0 || w[0] >= a.length(x) || i > 0 && w[0] <= a.Starts[i-1] {
			return nil, shapeError("windows from %v along axis %d of %v", a.Starts, a.Axis, x)
		}
	}
	if len(a.Starts) == 0 {
		return nil, shapeError("no window along axis %d of %v", a.Axis, x)
	}
	out := x.Clone()
	out[1] /= 3
	return out, nil
}

// window is what an element of the result reads.
func (a AxisAttention) window(in []Shape) Window {
	if a.Axis == 0 {
		w := setWindow(in, 0, a.Set)
		w.FullAxes = []int{1}
		return w
	}
	return Window{FullAxes: []int{1, a.Axis}}
}

// LineStrides tell how the lines along the axis lie in a field: blocks of lines that are Width side by side. Block k begins at
// row k/PerRow·RowStride and point k%PerRow·PointStride; neighbouring lines of it are Beside points apart, and neighbours of
// a line ElemRows rows and ElemPoints points.
type LineStrides struct {
	Blocks, PerRow, RowStride, PointStride, Width, LineStride, ElemRows, ElemPoints, Length int
}

// Lines are those of a field [N C D H W].
func (a AxisAttention) Lines(x Shape) LineStrides {
	n := a.length(x)
	switch a.Axis {
	case 0:
		return LineStrides{Blocks: x[0] / a.Set, PerRow: 1, RowStride: a.Set, Width: x[2:].Size(), LineStride: 1, ElemRows: 1, Length: n}
	case 4:
		return LineStrides{Blocks: x[0], PerRow: 1, RowStride: 1, Width: x[2] * x[3], LineStride: n, ElemPoints: 1, Length: n}
	}
	inner, outer := x[a.Axis+1:].Size(), x[2:a.Axis].Size()
	return LineStrides{Blocks: x[0] * outer, PerRow: outer, RowStride: 1, PointStride: n * inner, Width: inner, LineStride: 1, ElemPoints: inner, Length: n}
}

// each visits the windows of all lines, each head by itself: of the elements of a window, the places of the head's first
// channel in a field of so many channels per row, and the distance of channels.
func (a AxisAttention) each(x Shape, visit func(head int, rows, points []int)) {
	s := a.Lines(x)
	for k := range s.Blocks {
		for l := range s.Width {
			for _, w := range a.Windows(s.Length) {
				rows, points := make([]int, w[1]), make([]int, w[1])
				for i := range w[1] {
					j := (w[0] + i) % s.Length
					rows[i] = k/s.PerRow*s.RowStride + j*s.ElemRows
					points[i] = k%s.PerRow*s.PointStride + l*s.LineStride + j*s.ElemPoints
				}
				for h := range a.Heads {
					visit(h, rows, points)
				}
			}
		}
	}
}

// attentionWindow is a window of a head in the operands of the reference kernels.
type attentionWindow struct {
	x                          []float64
	channels, plane            int // of x a third
	headChannels, first, reach int // channels of a head, the first of them
	rows, points               []int
	bias                       []float64
}

// at is the place of channel c of part 0 to 2, queries, keys and values, of element i.
func (l attentionWindow) at(part, i, c int) int {
	return (l.rows[i]*3*l.channels+part*l.channels+l.first+c)*l.plane + l.points[i]
}

// out is the place of channel c of element i in the result.
func (l attentionWindow) out(i, c int) int {
	return (l.rows[i]*l.channels+l.first+c)*l.plane + l.points[i]
}

// offset is the place of the weight of the offset from i to j.
func (l attentionWindow) offset(i, j int) int { return min(max(j-i, -l.reach), l.reach) + l.reach }

// weights are those of all elements for i.
func (l attentionWindow) weights(i int) []float64 {
	w := make([]float64, len(l.rows))
	top, sum := math.Inf(-1), 0.0
	for j := range w {
		for c := range l.headChannels {
			w[j] += l.x[l.at(0, i, c)] * l.x[l.at(1, j, c)]
		}
		w[j] = w[j]/math.Sqrt(float64(l.headChannels)) + l.bias[l.offset(i, j)]
		top = math.Max(top, w[j])
	}
	for j := range w {
		w[j] = math.Exp(w[j] - top)
		sum += w[j]
	}
	for j := range w {
		w[j] /= sum
	}
	return w
}

// scoreGrads are the derivatives of the loss by the scores of i, w being its weights and dy that of the result.
func (l attentionWindow) scoreGrads(i int, w, dy []float64) []float64 {
	d, mean := make([]float64, len(w)), 0.0
	for j := range d {
		for c := range l.headChannels {
			d[j] += dy[l.out(i, c)] * l.x[l.at(2, j, c)]
		}
		mean += w[j] * d[j]
	}
	for j := range d {
		d[j] = w[j] * (d[j] - mean)
	}
	return d
}

// lines visits the windows of all heads of the operands of a call.
func (a AxisAttention) lines(c Call, visit func(head int, l attentionWindow)) {
	x, n := c.InShape[0], c.InShape[1][1]
	l := attentionWindow{x: c.In[0], channels: x[1] / 3, plane: x[2:].Size(), headChannels: x[1] / 3 / a.Heads, reach: n / 2}
	a.each(x, func(head int, rows, points []int) {
		l.first, l.rows, l.points, l.bias = head*l.headChannels, rows, points, c.In[1][head*n:(head+1)*n]
		visit(head, l)
	})
}

const axisAttentionSource = "Vaswani et al. 2017, arXiv:1706.03762; Ho et al. 2019, arXiv:1912.12180; Liu et al. 2021, arXiv:2103.14030; Dao et al. 2022, arXiv:2205.14135"

// axisAttentionCases are the sizes with which attention along axes is tested.
func axisAttentionCases(more func(x Shape) []Shape) []Case[AxisAttention] {
	var out []Case[AxisAttention]
	for _, c := range []struct {
		name  string
		x     Shape
		reach int
		a     AxisAttention
	}{
		{"leads", Shape{6, 12, 2, 3, 4}, 2, AxisAttention{Axis: 0, Set: 3, Heads: 2, Starts: []int{0}}},
		{"leads, near ones alike", Shape{5, 6, 1, 3, 7}, 1, AxisAttention{Axis: 0, Set: 5, Heads: 1, Starts: []int{0}}},
		{"levels", Shape{2, 6, 4, 3, 5}, 3, AxisAttention{Axis: 2, Heads: 2, Starts: []int{0}}},
		{"latitudes", Shape{2, 12, 2, 7, 5}, 4, AxisAttention{Axis: 3, Heads: 2, Starts: []int{0, 2, 5}}},
		{"longitudes around", Shape{2, 6, 1, 3, 9}, 3, AxisAttention{Axis: 4, Heads: 1, Starts: []int{2, 5, 7}}},
		{"longitudes, whole rows", Shape{1, 12, 2, 9, 37}, 5, AxisAttention{Axis: 4, Heads: 2, Starts: []int{0}}},
		{"many lines", Shape{1, 24, 2, 9, 37}, 5, AxisAttention{Axis: 3, Heads: 4, Starts: []int{0, 3}}},
	} {
		in := append([]Shape{c.x, {c.a.Heads, 2*c.reach + 1}}, more(c.x)...)
		out = append(out, Case[AxisAttention]{Name: c.name, In: in, A: c.a, Low: -2, High: 2})
	}
	return out
}

func oneThird(x Shape) Shape {
	y := x.Clone()
	y[1] /= 3
	return y
}

// products counts the pairs of points that attend to each other, times channels.
func (a AxisAttention) products(x Shape) (n int64) {
	for _, w := range a.Windows(a.length(x)) {
		n += int64(w[1]) * int64(w[1])
	}
	return n * int64(x.Size()) / int64(3*a.length(x))
}

var axisAttention = Define(Spec[AxisAttention]{
	Name: "axis_attention",
	Doc: "Attention of points within windows along one axis, leads of a set, levels, latitudes or longitudes: of queries, keys and values x [N 3·C D H W], " +
		"dealt out to heads, and weights of offsets b [heads 2·R+1], Σ_j softmax_j(q_i·k_j/√c + b[j−i]) v_j, offsets beyond R counting as R → [N C D H W].",
	Source: axisAttentionSource,
	Shape: func(in []Shape, a AxisAttention) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want x and weights of offsets", len(in))
		}
		return a.check(in[0], in[1])
	},
	Grad: func(b *Builder, in []Value, _, dy Value, a AxisAttention) []Value {
		return []Value{axisAttentionGrad.add(b, a, in[0], in[1], dy), axisAttentionGradBias.add(b, a, in[0], in[1], dy)}
	},
	Window: func(in []Shape, a AxisAttention) Window { return a.window(in) },
	Split:  graph.SplitAxis,
	FLOPs:  func(in []Shape, _ Shape, a AxisAttention) int64 { return 4 * a.products(in[0]) },
	Ref: func(c Call, a AxisAttention) {
		clear(c.Out)
		a.lines(c, func(_ int, l attentionWindow) {
			for i := range l.rows {
				for j, w := range l.weights(i) {
					for ch := range l.headChannels {
						c.Out[l.out(i, ch)] += w * l.x[l.at(2, j, ch)]
					}
				}
			}
		})
	},
	Cases: axisAttentionCases(func(Shape) []Shape { return nil }),
})

// checkGrad is the shape rule of gradients from x, weights of offsets and dy.
func (a AxisAttention) checkGrad(in []Shape, of int) (Shape, error) {
	if len(in) != 3 {
		return nil, shapeError("%d operands, want x, weights of offsets and dy", len(in))
	}
	y, err := a.check(in[0], in[1])
	if err == nil && !y.Equal(in[2]) {
		err = shapeError("x %v gives %v, dy is %v", in[0], y, in[2])
	}
	return in[of].Clone(), err
}

var axisAttentionGrad = Define(Spec[AxisAttention]{
	Name:   "axis_attention_grad",
	Doc:    "Gradient of axis_attention by queries, keys and values, from these, weights of offsets and dy; scores are made again.",
	Source: axisAttentionSource,
	NoGrad: noSecondOrder,
	Shape:  func(in []Shape, a AxisAttention) (Shape, error) { return a.checkGrad(in, 0) },
	Window: func(in []Shape, a AxisAttention) Window { return a.window(in) },
	Split:  graph.SplitAxis,
	FLOPs:  func(in []Shape, _ Shape, a AxisAttention) int64 { return 14 * a.products(in[0]) },
	Ref: func(c Call, a AxisAttention) {
		clear(c.Out)
		a.lines(c, func(_ int, l attentionWindow) {
			scale := 1 / math.Sqrt(float64(l.headChannels))
			for i := range l.rows {
				w := l.weights(i)
				for j, d := range l.scoreGrads(i, w, c.In[2]) {
					for ch := range l.headChannels {
						c.Out[l.at(0, i, ch)] += scale * d * l.x[l.at(1, j, ch)]
						c.Out[l.at(1, j, ch)] += scale * d * l.x[l.at(0, i, ch)]
						c.Out[l.at(2, j, ch)] += w[j] * c.In[2][l.out(i, ch)]
					}
				}
			}
		})
	},
	Cases: axisAttentionCases(func(x Shape) []Shape { return []Shape{oneThird(x)} }),
})

var axisAttentionGradBias = Define(Spec[AxisAttention]{
	Name:   "axis_attention_grad_bias",
	Doc:    "Gradient of axis_attention by the weights of offsets, from queries, keys and values, weights of offsets and dy.",
	Source: axisAttentionSource,
	NoGrad: noSecondOrder,
	Shape:  func(in []Shape, a AxisAttention) (Shape, error) { return a.checkGrad(in, 1) },
	Window: func(in []Shape, a AxisAttention) Window {
		return Window{FullAxes: allBut(in[0], -1), Additive: true}
	},
	Split: graph.SplitAxis,
	FLOPs: func(in []Shape, _ Shape, a AxisAttention) int64 { return 6 * a.products(in[0]) },
	Ref: func(c Call, a AxisAttention) {
		clear(c.Out)
		a.lines(c, func(head int, l attentionWindow) {
			for i := range l.rows {
				for j, d := range l.scoreGrads(i, l.weights(i), c.In[2]) {
					c.Out[head*len(l.bias)+l.offset(i, j)] += d
				}
			}
		})
	},
	Cases: axisAttentionCases(func(x Shape) []Shape { return []Shape{oneThird(x)} }),
})

// AttendAxis lets points attend to each other along an axis, within windows. Scores are never all in memory: kernels
// make those of some points at a time, and again for gradients.
//
// Shape: x [N 3·C D H W], queries, keys and values, whose C channels are dealt out to the heads; offsets [heads 2·R+1] →
// [N C D H W].
// Gradient: to both. Memory: that of the result. Errors: ErrShape.
// Cost: Σ of squared windows, times channels.
// Source: Ho et al. 2019, arXiv:1912.12180, attention along axes in turn; Liu et al. 2021, arXiv:2103.14030, shifted windows and
// weights of offsets; Dao et al. 2022, arXiv:2205.14135, without a matrix of scores.
func AttendAxis(b *Builder, x, offsets Value, a AxisAttention) Value {
	return axisAttention.add(b, a, x, offsets)
}
