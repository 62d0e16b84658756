package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// AxisAttention is the geometry of multi-head attention along one axis: a point
// attends to the points of its window.
type AxisAttention struct {
	Axis  int // 0: the rows of a set; 2, 3, 4: levels, latitudes, longitudes
	Set   int // rows per set, if Axis is 0
	Heads int // number of heads; divides the channels
	// Starts are the first indices of the windows, ascending. The last window
	// ends with the axis. If the first start is above 0, the last window wraps
	// around the axis up to the first start.
	Starts []int
}

// length is the number of points along the axis.
func (a AxisAttention) length(x Shape) int {
	if a.Axis == 0 {
		return a.Set
	}
	return x[a.Axis]
}

// Windows lists the first index and the number of points of each window, for an
// axis of n points.
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

// WindowStarts returns the starts of windows of at most size points along an
// axis of n points, as equal in size as possible. Size 0 gives one window.
//
// Every second block of a network uses shifted windows, so that information
// crosses the window borders (Liu et al. 2021, arXiv:2103.14030). A shift is
// half a window: around the axis if it is periodic, otherwise with half a
// window at both ends.
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

// check returns the shape of the result from that of queries, keys and values
// x, and that of the relative position bias.
func (a AxisAttention) check(x, offsets Shape) (Shape, error) {
	if len(x) != 5 || a.Axis < 0 || a.Axis == 1 || a.Axis > 4 || a.Heads < 1 || x[1]%(3*a.Heads) != 0 {
		return nil, shapeError("x is %v, want [N 3·C D H W] with C divisible by %d heads, attention along axis %d", x, a.Heads, a.Axis)
	}
	if a.Axis == 0 && (a.Set < 1 || x[0]%a.Set != 0) {
		return nil, shapeError("x is %v, want [N·%d …]", x, a.Set)
	}
	if len(offsets) != 2 || offsets[0] != a.Heads || offsets[1]%2 == 0 {
		return nil, shapeError("relative position bias is %v, want [%d 2·R+1]", offsets, a.Heads)
	}
	for i, w := range a.Windows(a.length(x)) {
		if w[1] < 1 || w[0] < 0 || w[0] >= a.length(x) || i > 0 && w[0] <= a.Starts[i-1] {
			return nil, shapeError("invalid window starts %v along axis %d of %v", a.Starts, a.Axis, x)
		}
	}
	if len(a.Starts) == 0 {
		return nil, shapeError("no window starts for axis %d of %v", a.Axis, x)
	}
	out := x.Clone()
	out[1] /= 3
	return out, nil
}

// window is the neighbourhood that one result element reads.
func (a AxisAttention) window(in []Shape) Window {
	if a.Axis == 0 {
		w := setWindow(in, 0, a.Set)
		w.FullAxes = []int{1}
		return w
	}
	return Window{FullAxes: []int{1, a.Axis}}
}

// LineStrides describes where the lines along the axis lie in a field. Lines
// form blocks of Width adjacent lines of Length elements. Block k starts at row
// k/PerRow·RowStride and point k%PerRow·PointStride. Adjacent lines of a block
// are LineStride points apart. Consecutive elements of a line are ElemRows rows
// and ElemPoints points apart.
type LineStrides struct {
	Blocks, PerRow, RowStride, PointStride, Width, LineStride, ElemRows, ElemPoints, Length int
}

// Lines describes the lines of a field [N C D H W].
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

// each calls visit for every window of every line and head. rows and points
// hold, for each element of the window, its row and its offset within a
// channel.
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

// attentionWindow is a window of one head, with the operands of the reference
// kernels.
type attentionWindow struct {
	x               []float64 // queries, keys and values
	channels, plane int       // channels of the result (a third of x), and points per channel
	// channels per head, first channel of the head, largest relative position R
	headChannels, first, reach int
	rows, points               []int     // row and point of each element
	bias                       []float64 // relative position bias of the head, 2·R+1 values
}

// at is the offset of channel c of element i in part 0, 1 or 2 of x: queries,
// keys, values.
func (l attentionWindow) at(part, i, c int) int {
	return (l.rows[i]*3*l.channels+part*l.channels+l.first+c)*l.plane + l.points[i]
}

// out is the offset of channel c of element i in the result.
func (l attentionWindow) out(i, c int) int {
	return (l.rows[i]*l.channels+l.first+c)*l.plane + l.points[i]
}

// offset is the index of the bias for the relative position j − i, clamped to
// ±R.
func (l attentionWindow) offset(i, j int) int { return min(max(j-i, -l.reach), l.reach) + l.reach }

// weights are the attention weights of element i: softmax over j of q_i·k_j/√c
// + bias[j−i].
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

// scoreGrads are the derivatives of the loss with respect to the scores of
// element i. w are its weights and dy is the gradient of the result:
//
//	ds_j = w_j·(dw_j − Σ_k w_k·dw_k),   dw_j = dy_i·v_j
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

// lines calls visit for the windows of all heads of a call.
func (a AxisAttention) lines(c Call, visit func(head int, l attentionWindow)) {
	x, n := c.InShape[0], c.InShape[1][1]
	l := attentionWindow{x: c.In[0], channels: x[1] / 3, plane: x[2:].Size(), headChannels: x[1] / 3 / a.Heads, reach: n / 2}
	a.each(x, func(head int, rows, points []int) {
		l.first, l.rows, l.points, l.bias = head*l.headChannels, rows, points, c.In[1][head*n:(head+1)*n]
		visit(head, l)
	})
}

// axisAttentionSource is the source of all operations in this file.
const axisAttentionSource = "Vaswani et al. 2017, arXiv:1706.03762; Ho et al. 2019, arXiv:1912.12180; Liu et al. 2021, arXiv:2103.14030; Dao et al. 2022, arXiv:2205.14135"

// axisAttentionCases are the sizes with which attention along an axis is
// tested. more returns the shapes of operands after x and the bias.
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

// oneThird is the shape of queries, keys or values alone.
func oneThird(x Shape) Shape {
	y := x.Clone()
	y[1] /= 3
	return y
}

// products counts the pairs of points that attend to each other, times
// channels.
func (a AxisAttention) products(x Shape) (n int64) {
	for _, w := range a.Windows(a.length(x)) {
		n += int64(w[1]) * int64(w[1])
	}
	return n * int64(x.Size()) / int64(3*a.length(x))
}

// axisAttention computes y_i = Σ_j w_ij·v_j per window and head. Scores are
// computed window by window and never stored for the whole field.
var axisAttention = Define(Spec[AxisAttention]{
	Name: "axis_attention",
	Doc: "Multi-head self-attention within windows along one axis (rows of a set, levels, latitudes or longitudes): queries, keys and values x [N 3·C D H W], " +
		"relative position bias b [heads 2·R+1]; Σ_j softmax_j(q_i·k_j/√c + b[j−i]) v_j, with j−i clamped to ±R → [N C D H W].",
	Source: axisAttentionSource,
	Shape: func(in []Shape, a AxisAttention) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want x and the relative position bias", len(in))
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

// checkGrad is the shape rule of gradients from x, the bias and dy. The result
// has the shape of operand of.
func (a AxisAttention) checkGrad(in []Shape, of int) (Shape, error) {
	if len(in) != 3 {
		return nil, shapeError("%d operands, want x, relative position bias and dy", len(in))
	}
	y, err := a.check(in[0], in[1])
	if err == nil && !y.Equal(in[2]) {
		err = shapeError("dy is %[3]v, x %[1]v gives %[2]v", in[0], y, in[2])
	}
	return in[of].Clone(), err
}

// axisAttentionGrad is the gradient with respect to x. The scores are
// recomputed:
//
//	dq_i = Σ_j ds_ij·k_j/√c,   dk_j = Σ_i ds_ij·q_i/√c,   dv_j = Σ_i w_ij·dy_i
var axisAttentionGrad = Define(Spec[AxisAttention]{
	Name:   "axis_attention_grad",
	Doc:    "Gradient of axis_attention with respect to queries, keys and values, from x, bias and dy; scores are recomputed.",
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

// axisAttentionGradBias is the gradient with respect to the relative position
// bias: the sum of ds_ij over all pairs with the same relative position.
var axisAttentionGradBias = Define(Spec[AxisAttention]{
	Name:   "axis_attention_grad_bias",
	Doc:    "Gradient of axis_attention with respect to the relative position bias, from x, bias and dy.",
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

// AttendAxis is multi-head self-attention along one axis, within windows, with
// a relative position bias:
//
//	y_i = Σ_j softmax_j(q_i·k_j/√c + bias[j−i]) v_j
//
// over the points j of the window of i, with c channels per head. Relative
// positions beyond ±R use the bias of ±R.
//
// Shape: x [N 3·C D H W] holds queries, keys and values, whose channels are
// divided evenly among the heads; offsets, the bias, is [heads 2·R+1] → [N C D
// H W].
// Gradient: to both.
// Window: the window along the axis, all channels.
// Memory: that of the result; the matrix of scores is never stored, and
// gradients recompute it.
// Errors: ErrShape.
// Cost: 4·C·Σ window² FLOPs per line.
// Source: Ho et al. 2019, arXiv:1912.12180 (axial attention); Liu et al. 2021,
// arXiv:2103.14030 (shifted windows, relative position bias); Dao et al. 2022,
// arXiv:2205.14135 (no stored scores).
func AttendAxis(b *Builder, x, offsets Value, a AxisAttention) Value {
	return axisAttention.add(b, a, x, offsets)
}
