package sbp_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	. "github.com/ensemble-weather/ensemble/spatial/sbp"
)

// convolve visits all products of a convolution over two dimensions of space, with
// the indices of the elements of x [N C H W], w [F C h w] and y [N F H W], from the
// definition.
func convolve(op Op, f func(x, w, y int)) {
	x, w := op.X[0], op.W
	at := func(o, t, dim int) (i int, ok bool) {
		a, n := op.Window[dim], x[dim]
		i = o - a.Pad + t*a.Dilation
		if a.Periodic {
			i = ((i % n) + n) % n
		}
		return i, i >= 0 && i < n
	}
	for n := range x[0] {
		for g := range w[0] {
			for c := range x[1] {
				for j := range x[2] {
					for i := range x[3] {
						for u := range w[2] {
							for v := range w[3] {
								jj, inside := at(j, u, 2)
								ii, also := at(i, v, 3)
								if inside && also {
									f(((n*x[1]+c)*x[2]+jj)*x[3]+ii, ((g*w[1]+c)*w[2]+u)*w[3]+v, ((n*w[0]+g)*x[2]+j)*x[3]+i)
								}
							}
						}
					}
				}
			}
		}
	}
}

// slide visits the products of one part: each element of y [N F H W] with the
// elements of x [N C H+ W+], which contains all that y reads.
func slide(op Op, x, w, y graph.Shape, f func(x, w, y int)) {
	for n := range y[0] {
		for g := range w[0] {
			for c := range w[1] {
				for j := range y[2] {
					for i := range y[3] {
						for u := range w[2] {
							for v := range w[3] {
								jj, ii := j+u*op.Window[2].Dilation, i+v*op.Window[3].Dilation
								f(((n*x[1]+c)*x[2]+jj)*x[3]+ii, ((g*w[1]+c)*w[2]+u)*w[3]+v, ((n*y[1]+g)*y[2]+j)*y[3]+i)
							}
						}
					}
				}
			}
		}
	}
}

// flipped returns the weights [C F h w] of the adjoint of w [F C h w]: taps in
// reverse order.
func flipped(w values) values {
	s := w.shape
	out := newValues(s[1], s[0], s[2], s[3])
	for f := range s[0] {
		for c := range s[1] {
			for u := range s[2] {
				for v := range s[3] {
					out.data[((c*s[0]+f)*s[2]+s[2]-1-u)*s[3]+s[3]-1-v] = w.data[((f*s[1]+c)*s[2]+u)*s[3]+v]
				}
			}
		}
	}
	return out
}

// checkConvolution runs a rule with halos on ranks, and compares with the definition.
func checkConvolution(t *testing.T, m spatial.Mesh, op Op, r Rule) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(m.Size())))
	x, w, dy := random[float64](rng, op.X[0]), random[float64](rng, op.W), random[float64](rng, op.Y)
	xs, ws, dys := held(t, rng, m, x, r.X[0]), held(t, rng, m, w, r.W), held(t, rng, m, dy, r.DY)
	n := m.Size()
	y, dx, dw := make([][]float64, n), make([][]float64, n), make([][]float64, n)
	haloX, haloDY := op.ForwardHalo(m, r), op.BackwardHalo(m, r)
	sent := make([]int64, n)
	err := comm.Run(n, comm.Replay(3), func(c *comm.Comm) error {
		rank := c.Rank()
		wide, err := FetchHalo(c, haloX, xs[rank])
		if err != nil {
			return err
		}
		wideDY, err := FetchHalo(c, haloDY, dys[rank])
		if err != nil {
			return err
		}
		sent[rank] = c.Traffic().Bytes
		part := values{box(t, m, op.W, r.W, rank).Shape(), ws[rank]}
		own := newValues(box(t, m, op.Y, r.Y, rank).Shape()...)
		slide(op, haloX.Box(rank).Shape(), part.shape, own.shape, func(i, k, o int) { own.data[o] += wide[i] * part.data[k] })
		gradient := newValues(part.shape...)
		slide(op, haloX.Box(rank).Shape(), part.shape, own.shape, func(i, k, o int) { gradient.data[k] += wide[i] * dys[rank][o] })
		back, turned := newValues(box(t, m, op.X[0], r.DX[0], rank).Shape()...), flipped(part)
		slide(op, haloDY.Box(rank).Shape(), turned.shape, back.shape, func(i, k, o int) { back.data[o] += wideDY[i] * turned.data[k] })
		y[rank], dw[rank], dx[rank] = own.data, gradient.data, back.data
		return nil
	})
	if err != nil {
		t.Fatalf("%s on %v: %v", r.Name, m, err)
	}
	wantY, wantDX, wantDW := newValues(op.Y...), newValues(op.X[0]...), newValues(op.W...)
	convolve(op, func(i, k, o int) {
		wantY.data[o] += x.data[i] * w.data[k]
		wantDX.data[i] += dy.data[o] * w.data[k]
		wantDW.data[k] += dy.data[o] * x.data[i]
	})
	name := fmt.Sprintf("%s on %v: ", r.Name, m)
	compare(t, name+"Y", m, wantY, r.Y, y)
	compare(t, name+"dX", m, wantDX, r.DX[0], dx)
	compare(t, name+"dW", m, wantDW, r.DW, dw)
	var total int64
	for _, b := range sent {
		total += b
	}
	if want := haloX.Cost(8).Add(haloDY.Cost(8)).Total; total != want {
		t.Errorf("%s%d bytes of halos were sent, want %d", name, total, want)
	}
}

func TestConvolution(t *testing.T) {
	for _, op := range []Op{
		Convolution(4, 5, 6, SpatialDim{Name: "lat", Size: 7, Filter: 3}, SpatialDim{Name: "lon", Size: 8, Filter: 3, Periodic: true}),
		Convolution(4, 4, 4, SpatialDim{Name: "lat", Size: 6, Filter: 5}, SpatialDim{Name: "lon", Size: 9, Filter: 3, Dilation: 2, Periodic: true}),
		Convolution(4, 4, 4, SpatialDim{Name: "lat", Size: 5, Filter: 4}, SpatialDim{Name: "lon", Size: 6, Filter: 2, Periodic: true}),
	} {
		for _, p := range []int{1, 2, 3, 4} {
			for _, row := range op.AxisRules {
				checkConvolution(t, mesh(p), op, row)
			}
		}
		for _, row := range op.AxisRules {
			for _, second := range op.AxisRules {
				checkConvolution(t, mesh(2, 2), op, row.Product(second))
			}
		}
	}
}

// With longitude split, every rank of a convolution from 42 to 64 channels at
// 2×352×704 sends two sides of a halo of the operand and of the gradient.
func TestHaloBytes(t *testing.T) {
	op := Convolution(1, 42, 64, SpatialDim{Name: "level", Size: 2, Filter: 3}, SpatialDim{Name: "lat", Size: 352, Filter: 3}, SpatialDim{Name: "lon", Size: 704, Filter: 3, Periodic: true})
	for _, r := range op.Rules(mesh(4)) {
		if r.Name != "lon" {
			continue
		}
		if got, want := op.ForwardHalo(mesh(4), r).Cost(4), (Cost{Total: 8 * 118_272, Sent: 2 * 118_272, Rounds: 2}); got != want {
			t.Errorf("halo of X: %+v, want %+v", got, want)
		}
		if got, want := op.BackwardHalo(mesh(4), r).Cost(4), (Cost{Total: 8 * 180_224, Sent: 2 * 180_224, Rounds: 2}); got != want {
			t.Errorf("halo of dY: %+v, want %+v", got, want)
		}
		return
	}
	t.Error("no row cuts longitude")
}
