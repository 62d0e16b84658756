//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"testing"
)

func TestRows(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range [][4]int{{9, 7, 5, 6}, {40, 64, 700, 33}, {50000, 50000, 1, 49999}, {16384, 3, 1, 16384}} {
			ys, xs, rows, n := c[0], c[1], c[2], c[3]
			x := random(1, (rows-1)*xs+n, -1, 1)
			for _, add := range []bool{false, true} {
				y, ok := guarded(t, (rows-1)*ys+n)
				before := append([]float32(nil), y...)
				if add {
					p.AddRows(y, ys, x, xs, rows, n)
				} else {
					p.CopyRows(y, ys, x, xs, rows, n)
				}
				ok()
				for r := range rows {
					for i := range min(ys, len(y)-r*ys) {
						want := before[r*ys+i]
						if i < n && add {
							want += x[r*xs+i]
						} else if i < n {
							want = x[r*xs+i]
						}
						if y[r*ys+i] != want {
							t.Fatalf("%v add %v row %d [%d]: got %g, want %g", c, add, r, i, y[r*ys+i], want)
						}
					}
				}
			}
		}
	})
}

// inner is the scalar product in float64.
func inner(a, b []float32) (s float64) {
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

// adjoint checks <Ax, g> = <x, A'g>; both are sums in float64 of float32
// products, so they agree to a few 1e-7 of the sum of magnitudes.
func adjoint(t *testing.T, what string, y, g, x, dx []float32) {
	t.Helper()
	a, b := inner(y, g), inner(x, dx)
	if math.Abs(a-b) > 1e-6*(1+math.Sqrt(inner(y, y)*inner(g, g))) {
		t.Fatalf("%s: <Ax,g> = %.9g, <x,A'g> = %.9g", what, a, b)
	}
}

func TestPad(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range []struct {
			planes int
			in     [3]int
			pad    [3]Padding
		}{
			{3, [3]int{5, 6, 7}, [3]Padding{{}, {Lo: 1, Hi: 2}, {Lo: 3, Hi: 1, Mode: Periodic}}},
			{2, [3]int{2, 3, 4}, [3]Padding{{1, 1, Periodic}, {2, 0, Periodic}, {5, 6, Periodic}}},
			{70, [3]int{2, 16, 32}, [3]Padding{{}, {}, {Lo: 1, Hi: 1, Mode: Periodic}}},
			{1, [3]int{1, 1, 9}, [3]Padding{{2, 1, Zeros}, {0, 3, Zeros}, {0, 2, Zeros}}},
		} {
			var out [3]int
			for i := range out {
				out[i] = c.in[i] + c.pad[i].Lo + c.pad[i].Hi
			}
			x := random(1, c.planes*volume(c.in), -1, 1)
			y, ok := guarded(t, c.planes*volume(out))
			p.Pad(y, x, c.planes, c.in, c.pad)
			ok()
			for i := range y {
				at := [3]int{i / out[1] / out[2] % out[0], i / out[2] % out[1], i % out[2]}
				src, inside := i/volume(out), true
				for a := range 3 {
					q := at[a] - c.pad[a].Lo
					if c.pad[a].Mode == Periodic {
						q = (q%c.in[a] + c.in[a]) % c.in[a]
					}
					inside = inside && q >= 0 && q < c.in[a]
					src = src*c.in[a] + q
				}
				want := float32(0)
				if inside {
					want = x[src]
				}
				if y[i] != want {
					t.Fatalf("%+v cell %v: got %g, want %g", c, at, y[i], want)
				}
			}
			g := random(2, len(y), -1, 1)
			dx, ok := guarded(t, len(x))
			p.PadGrad(dx, g, c.planes, c.in, c.pad)
			ok()
			adjoint(t, "pad", y, g, x, dx)
		}
	})
}

// Folding repeats every filter value where its tap meets a cell; its gradient
// is the adjoint. That the folded convolution equals the deep one is shown in
// package conv.
func TestFoldFilter(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, f := range []Fold{
			{Cout: 3, Cin: 5, KD: 3, KHW: 9, DIn: 2, DOut: 2, Stride: 1, Dil: 1, Lo: 1},
			{Cout: 33, Cin: 17, KD: 3, KHW: 4, DIn: 5, DOut: 3, Stride: 2, Dil: 1, Lo: 1},
			{Cout: 2, Cin: 1, KD: 2, KHW: 1, DIn: 4, DOut: 2, Stride: 1, Dil: 2, Lo: 0},
		} {
			w := random(1, f.deep(), 1, 2)
			w2, ok := guarded(t, f.flat())
			p.FoldFilter(w2, w, f)
			ok()
			for i := range w2 {
				q, rest := i%f.KHW, i/f.KHW
				di, ci, do, co := rest%f.DIn, rest/f.DIn%f.Cin, rest/f.DIn/f.Cin%f.DOut, rest/f.DIn/f.Cin/f.DOut
				want := float32(0)
				for k := range f.KD {
					if do*f.Stride-f.Lo+k*f.Dil == di {
						want = w[((co*f.Cin+ci)*f.KD+k)*f.KHW+q]
					}
				}
				if w2[i] != want {
					t.Fatalf("%+v [%d]: got %g, want %g", f, i, w2[i], want)
				}
			}
			g := random(2, f.flat(), -1, 1)
			dw, ok := guarded(t, f.deep())
			p.FoldFilterGrad(dw, g, f)
			ok()
			adjoint(t, "fold", w2, g, w, dw)
		}
	})
}

func TestMaxPool(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range []struct{ in, k [3]int }{
			{[3]int{2, 8, 12}, [3]int{1, 2, 2}}, {[3]int{5, 6, 7}, [3]int{1, 2, 2}}, {[3]int{5, 6, 7}, [3]int{2, 3, 2}},
			{[3]int{2, 64, 66}, [3]int{1, 2, 2}}, {[3]int{2, 3, 4}, [3]int{1, 1, 1}}, {[3]int{1, 3, 3}, [3]int{2, 1, 1}},
		} {
			const planes = 5
			o := [3]int{c.in[0] / c.k[0], c.in[1] / c.k[1], c.in[2] / c.k[2]}
			x := random(1, planes*volume(c.in), -1, 1)
			for i := range x { // many equal values
				x[i] = float32(math.Round(float64(x[i]) * 4))
			}
			x[7], x[len(x)/2] = float32(math.NaN()), float32(math.NaN())
			y, ok := guarded(t, planes*volume(o))
			arg := make([]uint8, len(y))
			p.MaxPool(y, arg, x, planes, c.in, c.k)
			ok()
			dy := random(2, len(y), 1, 2)
			dx, ok := guarded(t, len(x))
			p.MaxPoolGrad(dx, dy, arg, planes, c.in, c.k)
			ok()
			want := make([]float32, len(x))
			for i := range y {
				w, h, d, pl := i%o[2], i/o[2]%o[1], i/o[2]/o[1]%max(o[0], 1), i/max(volume(o), 1)
				best := -1
				for a := range c.k[0] {
					for b := range c.k[1] {
						for e := range c.k[2] {
							at := ((pl*c.in[0]+d*c.k[0]+a)*c.in[1]+h*c.k[1]+b)*c.in[2] + w*c.k[2] + e
							if best < 0 || x[at] > x[best] || x[at] != x[at] {
								best = at
							}
						}
					}
				}
				near(t, fmt.Sprintf("maxpool %+v", c), i, y[i], float64(x[best]), 0)
				want[best] = dy[i]
			}
			for i := range want {
				if dx[i] != want[i] {
					t.Fatalf("maxpool gradient %+v [%d]: got %g, want %g", c, i, dx[i], want[i])
				}
			}
		}
	})
}

func TestUpsample(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range []struct {
			in, f [3]int
			wrap  bool
		}{
			{[3]int{2, 5, 7}, [3]int{1, 2, 2}, false}, {[3]int{2, 5, 7}, [3]int{1, 2, 2}, true},
			{[3]int{3, 4, 6}, [3]int{2, 3, 5}, true}, {[3]int{2, 1, 1}, [3]int{1, 2, 2}, true},
			{[3]int{1, 1, 2}, [3]int{3, 1, 2}, false}, {[3]int{2, 16, 48}, [3]int{1, 2, 2}, true}, {[3]int{1, 3, 9}, [3]int{1, 1, 1}, false},
		} {
			const planes = 4
			o := [3]int{c.in[0] * c.f[0], c.in[1] * c.f[1], c.in[2] * c.f[2]}
			x := random(1, planes*volume(c.in), -1, 1)
			y, ok := guarded(t, planes*volume(o))
			p.Upsample(y, x, planes, c.in, c.f, c.wrap)
			ok()
			for i := range y {
				at := [3]int{i / o[1] / o[2] % o[0], i / o[2] % o[1], i % o[2]}
				var idx [3][2]int
				var wt [3][2]float64
				for a := range 3 {
					s := (float64(at[a])+0.5)/float64(c.f[a]) - 0.5
					n := c.in[a]
					lo := int(math.Floor(s))
					wt[a] = [2]float64{1 - (s - float64(lo)), s - float64(lo)}
					idx[a] = [2]int{lo, lo + 1}
					for k, v := range idx[a] {
						if c.wrap && a == 2 {
							idx[a][k] = (v + n) % n
						} else {
							idx[a][k] = min(max(v, 0), n-1)
						}
					}
				}
				var want float64
				for k := range 8 {
					d, h, w := k>>2, k>>1&1, k&1
					want += wt[0][d] * wt[1][h] * wt[2][w] *
						float64(x[((i/volume(o)*c.in[0]+idx[0][d])*c.in[1]+idx[1][h])*c.in[2]+idx[2][w]])
				}
				if math.Abs(float64(y[i])-want) > 5e-7 {
					t.Fatalf("upsample %+v %v: got %g, want %g", c, at, y[i], want)
				}
			}
			g := random(2, len(y), -1, 1)
			dx, ok := guarded(t, len(x))
			p.UpsampleGrad(dx, g, planes, c.in, c.f, c.wrap)
			ok()
			// The whole matrix, not one product: the gradient of a single fine cell.
			adjoint(t, "upsample", y, g, x, dx)
			for q := 0; q < len(x); q += max(1, len(x)/9) {
				e := make([]float32, len(x))
				e[q] = 1
				p.Upsample(y, e, planes, c.in, c.f, c.wrap)
				if want := inner(y, g); math.Abs(float64(dx[q])-want) > 2e-6 {
					t.Fatalf("upsample gradient %+v [%d]: got %g, want %g", c, q, dx[q], want)
				}
			}
		}
	})
}
