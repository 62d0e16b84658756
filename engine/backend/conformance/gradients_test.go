package conformance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// TestGradients compares the gradient of every operation with central
// differences along random directions, operand by operand, in float64.
func TestGradients(t *testing.T) {
	eachCase(t, func(t *testing.T, o *graph.Op, c graph.Case) {
		if o.Grad == nil {
			if o.NoGrad == "" {
				t.Error("neither a gradient nor a reason for having none")
			}
			return
		}
		gradient(t, o, c)
	})
}

// gradient checks d/dx_k of Σ r·op(x) for random r.
func gradient(t *testing.T, o *graph.Op, c graph.Case) {
	b := graph.New(seed)
	var xs []graph.Value
	for k, s := range c.In {
		xs = append(xs, b.Input(fmt.Sprint("x", k), s))
	}
	y := b.Node(o, c.Attrs, xs...)
	r := make([]float32, y.Shape().Size())
	for i := range r {
		r[i] = float32(rng.Normal(rng.Hash("weights"), uint64(i)))
	}
	loss := op.Sum(b, op.Mul(b, y, b.Const("r", y.Shape(), r)))
	grads := graph.Gradients(b, loss, xs, op.Add)
	b.Loss(loss)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	in := operands(o, c)
	feed := map[string][]float64{}
	for k := range in {
		feed[fmt.Sprint("x", k)] = in[k]
	}
	eval := func() [][]float64 {
		v, err := reftest.Eval(g, feed, step)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	at := eval()
	const h = 1e-5 // truncation h²·f''', rounding 2⁻⁵²·|loss|/h: both below 1e-8
	for k := range in {
		if slices.Contains(c.Fixed, k) {
			continue
		}
		if !grads[k].Valid() {
			t.Errorf("operand %d has no gradient", k)
			continue
		}
		dir := make([]float64, len(in[k]))
		var want, size float64
		for i := range dir {
			dir[i] = rng.Normal(rng.Key(rng.Hash("direction"), uint64(k)), uint64(i))
			d := dir[i] * at[grads[k].ID()][i]
			want += d
			size += d * d
		}
		x := slices.Clone(in[k])
		moved := func(h float64) float64 {
			for i := range x {
				in[k][i] = x[i] + h*dir[i]
			}
			return eval()[loss.ID()][0]
		}
		got := (moved(h) - moved(-h)) / (2 * h)
		copy(in[k], x)
		if tol := 1e-7 * (1 + math.Sqrt(size) + math.Abs(want)); !(math.Abs(got-want) <= tol) {
			t.Errorf("operand %d: directional difference %.12g, gradient gives %.12g ± %.1g", k, got, want, tol)
		}
	}
}
