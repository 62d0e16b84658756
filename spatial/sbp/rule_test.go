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

// values is a tensor or a part of one.
type values = tensor[float64]

// serial computes an operation and its gradients on one rank, from whole tensors or from
// parts of them.
type serial struct {
	forward  func(x []values, w values) values
	backward func(x []values, w, dy values) (dx []values, dw values)
}

// check runs a rule on ranks and compares the result and all gradients with those of
// one rank.
func check(t *testing.T, m spatial.Mesh, op Op, r Rule, f serial) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(m.Size()), uint64(len(r.Name))))
	n := m.Size()
	parts := make([][]values, n) // of operands, by rank
	var whole []values
	for k, shape := range op.X {
		x := random[float64](rng, shape)
		whole = append(whole, x)
		for rank, part := range held(t, rng, m, x, r.X[k]) {
			parts[rank] = append(parts[rank], values{box(t, m, shape, r.X[k], rank).Shape(), part})
		}
	}
	w, dy := random[float64](rng, op.W), random[float64](rng, op.Y)
	weights := make([][]float64, n)
	if op.W != nil {
		weights = held(t, rng, m, w, r.W)
	}
	gradients := held(t, rng, m, dy, r.DY)
	y, dw, dx := make([][]float64, n), make([][]float64, n), make([][][]float64, len(op.X))
	for k := range dx {
		dx[k] = make([][]float64, n)
	}
	err := comm.Run(n, comm.Parallel, func(c *comm.Comm) error {
		rank := c.Rank()
		part := values{data: weights[rank]}
		if op.W != nil {
			part.shape = box(t, m, op.W, r.W, rank).Shape()
		}
		own := values{box(t, m, op.Y, r.DY, rank).Shape(), gradients[rank]}
		y[rank] = f.forward(parts[rank], part).data
		dxs, dws := f.backward(parts[rank], part, own)
		dw[rank] = dws.data
		for k := range dxs {
			dx[k][rank] = dxs[k].data
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantDX, wantDW := f.backward(whole, w, dy)
	name := fmt.Sprintf("%s on %v: ", r.Name, m)
	compare(t, name+"Y", m, f.forward(whole, w), r.Y, y)
	for k := range op.X {
		compare(t, name+fmt.Sprintf("dX%d", k), m, wantDX[k], r.DX[k], dx[k])
	}
	if op.W != nil {
		compare(t, name+"dW", m, wantDW, r.DW, dw)
	}
}

// checkAll checks every rule on one axis and every product of rules on two.
func checkAll(t *testing.T, op Op, f serial) {
	t.Helper()
	for _, p := range []int{1, 2, 3, 4} {
		for _, row := range op.AxisRules {
			check(t, mesh(p), op, row, f)
		}
	}
	for _, row := range op.AxisRules {
		for _, second := range op.AxisRules {
			check(t, mesh(2, 2), op, row.Product(second), f)
			check(t, mesh(2, 3), op, row.Product(second), f)
		}
	}
}

func newValues(shape ...int) values {
	s := graph.Shape(shape)
	return values{s, make([]float64, s.Size())}
}

// product is Y = X·W.
var product = serial{
	forward: func(x []values, w values) values {
		b, n0, n1 := x[0].shape[0], w.shape[0], w.shape[1]
		y := newValues(b, n1)
		for i := range b {
			for j := range n1 {
				for k := range n0 {
					y.data[i*n1+j] += x[0].data[i*n0+k] * w.data[k*n1+j]
				}
			}
		}
		return y
	},
	backward: func(x []values, w, dy values) ([]values, values) {
		b, n0, n1 := x[0].shape[0], w.shape[0], w.shape[1]
		dx, dw := newValues(b, n0), newValues(n0, n1)
		for i := range b {
			for j := range n1 {
				for k := range n0 {
					dx.data[i*n0+k] += dy.data[i*n1+j] * w.data[k*n1+j]
					dw.data[k*n1+j] += x[0].data[i*n0+k] * dy.data[i*n1+j]
				}
			}
		}
		return []values{dx}, dw
	},
}

func TestMatMul(t *testing.T) { checkAll(t, MatMul(7, 5, 6), product) }

// pointwise computes sums of functions of the operands, whose derivatives are given.
func pointwise(f, derivative func(k int, x float64) float64) serial {
	return serial{
		forward: func(x []values, _ values) values {
			y := newValues(x[0].shape...)
			for k := range x {
				for i, v := range x[k].data {
					y.data[i] += f(k, v)
				}
			}
			return y
		},
		backward: func(x []values, _, dy values) ([]values, values) {
			var dx []values
			for k := range x {
				d := newValues(x[k].shape...)
				for i, v := range x[k].data {
					d.data[i] = derivative(k, v) * dy.data[i]
				}
				dx = append(dx, d)
			}
			return dx, values{}
		},
	}
}

func TestElementwise(t *testing.T) {
	shape := graph.Shape{4, 5, 3}
	linear := pointwise(func(k int, x float64) float64 { return float64(2+k) * x }, func(k int, _ float64) float64 { return float64(2 + k) })
	checkAll(t, Elementwise(shape, 1, true), linear)
	checkAll(t, Elementwise(shape, 2, true), linear)
	relu := pointwise(func(_ int, x float64) float64 { return max(0, x) }, func(_ int, x float64) float64 {
		if x > 0 {
			return 1
		}
		return 0
	})
	checkAll(t, Elementwise(shape, 1, false), relu)
	for _, r := range Elementwise(shape, 1, false).AxisRules {
		if r.X[0][0] == P {
			t.Errorf("row %s gives summands to an operation that is not linear", r.Name)
		}
	}
}

// summation sums over a dimension.
func summation(over int) serial {
	// each calls f with every element of x and where it goes in y.
	each := func(x values, f func(i, into int)) {
		inner := graph.Shape(x.shape[over+1:]).Size()
		n := x.shape[over]
		for i := range x.shape.Size() {
			f(i, i/(n*inner)*inner+i%inner)
		}
	}
	without := func(s graph.Shape) []int { return append(append([]int{}, s[:over]...), s[over+1:]...) }
	return serial{
		forward: func(x []values, _ values) values {
			y := newValues(without(x[0].shape)...)
			each(x[0], func(i, into int) { y.data[into] += x[0].data[i] })
			return y
		},
		backward: func(x []values, _, dy values) ([]values, values) {
			dx := newValues(x[0].shape...)
			each(x[0], func(i, into int) { dx.data[i] = dy.data[into] })
			return []values{dx}, values{}
		},
	}
}

func TestSum(t *testing.T) {
	for over := range 3 {
		checkAll(t, Sum(graph.Shape{4, 5, 6}, over), summation(over))
	}
}

// joining concatenates tensors along dimension 1.
var joining = serial{
	forward: func(x []values, _ values) values {
		s := x[0].shape
		y := values{shape: graph.Shape{s[0], x[0].shape[1] + x[1].shape[1], s[2]}}
		for i := range s[0] {
			for _, v := range x {
				row := v.shape[1] * s[2]
				y.data = append(y.data, v.data[i*row:(i+1)*row]...)
			}
		}
		return y
	},
	backward: func(x []values, _, dy values) ([]values, values) {
		dx := []values{{shape: x[0].shape}, {shape: x[1].shape}}
		at := 0
		for range x[0].shape[0] {
			for k := range dx {
				row := dx[k].shape[1] * dx[k].shape[2]
				dx[k].data = append(dx[k].data, dy.data[at:at+row]...)
				at += row
			}
		}
		return dx, values{}
	},
}

func TestConcat(t *testing.T) {
	op := Concat([]graph.Shape{{4, 3, 7}, {4, 2, 7}}, 1)
	checkAll(t, op, joining)
	for _, r := range op.AxisRules {
		if r.Y[0] == S(1) {
			t.Errorf("row %s cuts the dimension that is joined", r.Name)
		}
	}
}

// A rule that leaves a rank without a part is excluded; an axis of size 1 has one
// rule.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		mesh spatial.Mesh
		op   Op
		want int
	}{
		{"all", mesh(4), MatMul(7, 5, 6), 4},
		{"batch of 3 over 4", mesh(4), MatMul(3, 5, 6), 3},
		{"products", mesh(2, 2), MatMul(7, 5, 6), 16},
		{"one of size 1", mesh(2, 1), MatMul(7, 5, 6), 4},
		{"two rows", mesh(2, 2), MatMul(7, 5, 6).WithRules("dp", "row"), 4},
		{"columns 6 over 8", mesh(2, 4), MatMul(8, 8, 6), 15},
	} {
		if got := len(c.op.Rules(c.mesh)); got != c.want {
			t.Errorf("%s: %d rules, want %d", c.name, got, c.want)
		}
	}
	names := ""
	for _, r := range MatMul(7, 5, 6).Rules(mesh(2)) {
		names += r.Name + " "
	}
	if names != "col dp rep row " {
		t.Errorf("rules %q, want them by name", names)
	}
}
