//go:build cgo && linux

package kern

import (
	"math"
	"testing"
)

// The result and both gradients of attention along an axis are those of plain sums in float64, for lines beside and behind each other,
// of rows and of points, in windows that go around, and of more points than a block of the kernel holds.
func TestAxis(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, a := range []Axis{
			{Blocks: 2, PerRow: 1, RowStride: 3, Width: 35, LineStride: 1, ElemRows: 1, Length: 3, Channels: 4, Plane: 35, Heads: 2, Reach: 1, Windows: []int{0, 3}},                         // leads
			{Blocks: 6, PerRow: 3, RowStride: 1, PointStride: 10, Width: 2, LineStride: 1, ElemPoints: 2, Length: 5, Channels: 3, Plane: 30, Heads: 1, Reach: 4, Windows: []int{0, 2, 2, 3}}, // latitudes
			{Blocks: 1, PerRow: 1, RowStride: 1, Width: 3, LineStride: 37, ElemPoints: 1, Length: 37, Channels: 4, Plane: 111, Heads: 1, Reach: 6, Windows: []int{5, 37}},                    // whole rows
			{Blocks: 2, PerRow: 1, RowStride: 1, Width: 17, LineStride: 37, ElemPoints: 1, Length: 37, Channels: 6, Plane: 17 * 37, Heads: 2, Reach: 40, Windows: []int{3, 30, 33, 7}},       // around
		} {
			rows := a.Blocks / a.PerRow * a.RowStride
			x, dy := random(1, 3*a.Channels*a.Plane*rows, -2, 2), random(2, a.Channels*a.Plane*rows, -1, 1)
			offsets := random(3, a.Heads*(2*a.Reach+1), -1, 1)
			y, ok := guarded(t, len(dy))
			scratch := make([]float32, a.ScratchLen(AxisGradBias, p.Threads()))
			p.Axis(AxisResult, y, x, offsets, nil, scratch, a)
			ok()
			dx, ok := guarded(t, len(x))
			p.Axis(AxisGrad, dx, x, offsets, dy, scratch, a)
			ok()
			do, ok := guarded(t, len(offsets))
			p.Axis(AxisGradBias, do, x, offsets, dy, scratch, a)
			ok()
			wantY, wantX, wantO := plainAxis(a, x, offsets, dy)
			for i, want := range wantY {
				if math.Abs(float64(y[i])-want) > 1e-5 { // values are below 2
					t.Fatalf("result [%d]: got %v, want %v", i, y[i], want)
				}
			}
			for i, want := range wantX {
				if math.Abs(float64(dx[i])-want) > 1e-5*(1+math.Abs(want)) {
					t.Fatalf("gradient [%d]: got %v, want %v", i, dx[i], want)
				}
			}
			for i, want := range wantO {
				if math.Abs(float64(do[i])-want) > 2e-5*(1+math.Abs(want)) {
					t.Fatalf("gradient of offsets [%d]: got %v, want %v", i, do[i], want)
				}
			}
		}
	})
}

// plainAxis computes all of it point by point.
func plainAxis(a Axis, x, offsets, dy []float32) (y, dx, do []float64) {
	y, dx, do = make([]float64, len(dy)), make([]float64, len(x)), make([]float64, len(offsets))
	per, wide := a.Channels/a.Heads, 2*a.Reach+1
	scale := 1 / math.Sqrt(float64(per))
	for line := range a.Blocks * a.Width {
		for w := 0; w < len(a.Windows); w += 2 {
			for h := range a.Heads {
				n := a.Windows[w+1]
				// at is the index of a channel of the head of element i in a field of the given channels.
				at := func(i, channels, c int) int {
					k, block := (a.Windows[w]+i)%a.Length, line/a.Width
					row := block/a.PerRow*a.RowStride + k*a.ElemRows
					return (row*channels+c)*a.Plane + block%a.PerRow*a.PointStride + line%a.Width*a.LineStride + k*a.ElemPoints
				}
				part := func(part, i, c int) int { return at(i, 3*a.Channels, part*a.Channels+h*per+c) }
				out := func(i, c int) int { return at(i, a.Channels, h*per+c) }
				for i := range n {
					weights, slopes, sum, mean := make([]float64, n), make([]float64, n), 0.0, 0.0
					offset := func(j int) int { return h*wide + min(max(j-i, -a.Reach), a.Reach) + a.Reach }
					for j := range n {
						for c := range per {
							weights[j] += scale * float64(x[part(0, i, c)]) * float64(x[part(1, j, c)])
							slopes[j] += float64(dy[out(i, c)]) * float64(x[part(2, j, c)])
						}
						weights[j] = math.Exp(weights[j] + float64(offsets[offset(j)]))
						sum += weights[j]
					}
					for j := range n {
						weights[j] /= sum
						mean += weights[j] * slopes[j]
					}
					for j := range n {
						d := weights[j] * (slopes[j] - mean)
						do[offset(j)] += d
						for c := range per {
							y[out(i, c)] += weights[j] * float64(x[part(2, j, c)])
							dx[part(0, i, c)] += scale * d * float64(x[part(1, j, c)])
							dx[part(1, j, c)] += scale * d * float64(x[part(0, i, c)])
							dx[part(2, j, c)] += weights[j] * float64(dy[out(i, c)])
						}
					}
				}
			}
		}
	}
	return y, dx, do
}
