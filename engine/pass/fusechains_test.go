package pass

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestFuseChains verifies which operations are fused, depending on their shapes
// and readers.
func TestFuseChains(t *testing.T) {
	s := graph.Shape{2, 3, 2, 4, 5}
	for _, c := range []struct {
		name string
		make func(b *graph.Builder, x, y graph.Value)
		want []string // expected chains
	}{
		{"a tree, one operand twice", func(b *graph.Builder, x, y graph.Value) {
			b.Output("z", op.ReLU(b, op.Add(b, op.Mul(b, x, y), op.Scale(b, op.Sub(b, x, y), 0.5))))
		}, []string{"t0=mul(x0,x1) t1=sub(x0,x1) t2=scale(t1,0.5) t3=add(t0,t2) relu(t3)"}},
		{"a result read twice inside", func(b *graph.Builder, x, y graph.Value) {
			e := op.Exp(b, x)
			b.Output("z", op.Add(b, op.Mul(b, e, y), e))
		}, []string{"t0=exp(x0) t1=mul(t0,x1) add(t1,t0)"}},
		{"a result that leaves", func(b *graph.Builder, x, y graph.Value) {
			e := op.Exp(b, op.Add(b, x, y))
			b.Output("e", e)
			b.Output("z", op.Square(b, op.Sub(b, e, y)))
		}, []string{"t0=add(x0,x1) exp(t0)", "t0=sub(x1,x0) square(t0)"}},
		{"a result that something else reads", func(b *graph.Builder, x, y graph.Value) {
			e := op.Exp(b, op.Add(b, x, y))
			b.Output("up", op.Upsample(b, e, [3]int{1, 2, 2}, false))
			b.Output("z", op.Square(b, op.Sub(b, e, y)))
		}, []string{"t0=add(x0,x1) exp(t0)", "t0=sub(x1,x0) square(t0)"}},
		{"stretched operands", func(b *graph.Builder, x, y graph.Value) {
			p, q := b.Param("p", graph.Shape{1, 3, 1, 1, 1}, graph.Ones()), b.Param("q", graph.Shape{1, 1, 1, 4, 5}, graph.Ones())
			b.Output("z", op.Add(b, op.Mul(b, x, p), op.Mul(b, q, y)))
		}, []string{"t0=mul(x0,x2) t1=mul(x3,x1) add(t0,t1)"}},
		{"smaller results are computed once", func(b *graph.Builder, x, y graph.Value) {
			p := b.Param("p", graph.Shape{1, 3, 1, 1, 1}, graph.Ones())
			b.Output("z", op.Mul(b, op.Add(b, x, y), op.Softplus(b, op.Scale(b, p, 2))))
		}, []string{"t0=scale(x0,2) softplus(t0)", "t0=add(x0,x1) mul(t0,x2)"}},
		{"alone", func(b *graph.Builder, x, y graph.Value) {
			b.Output("z", op.MaxPool(b, op.Add(b, x, y), [3]int{1, 2, 1}))
		}, nil},
		{"powers stay alone", func(b *graph.Builder, x, y graph.Value) {
			b.Output("z", op.Exp(b, op.Scale(b, op.PowPositive(b, op.Add(b, x, y), 0.3), 2)))
		}, []string{"t0=scale(x0,2) exp(t0)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.New(1)
			c.make(b, b.Input("x", s), b.Input("y", s))
			u := built(t, b)
			var got []string
			for _, n := range u.Graph.Nodes {
				if a, ok := n.Attrs.(op.Chain); ok {
					got = append(got, a.String())
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("chains\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// built compiles a graph for prediction.
func built(t *testing.T, b *graph.Builder) *Unit {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	u := &Unit{Graph: g, Device: Device{ElemBytes: 4}, Options: Options{Infer: true}}
	if err := Run(List, u); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestFuseChainsBounds verifies that chains with too many links or operands are
// split, and that every operation occurs once.
func TestFuseChainsBounds(t *testing.T) {
	s := graph.Shape{3, 4}
	for _, c := range []struct {
		name      string
		ops       int
		operand   func(b *graph.Builder, k int) graph.Value
		wantLinks []int
	}{
		{"links", 2*op.MaxChain + 5, func(b *graph.Builder, k int) graph.Value { return b.Scalar(1.5) }, []int{5, op.MaxChain, op.MaxChain}},
		{"operands", 2 * op.MaxChainOperands, func(b *graph.Builder, k int) graph.Value { return b.Input(fmt.Sprint("y", k), s) },
			[]int{2, op.MaxChainOperands - 1, op.MaxChainOperands - 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.New(1)
			z := b.Input("x", s)
			for k := range c.ops {
				z = op.Mul(b, z, c.operand(b, k))
			}
			b.Output("z", z)
			u := built(t, b)
			var got []int
			for _, n := range u.Graph.Nodes {
				if a, ok := n.Attrs.(op.Chain); ok {
					got = append(got, len(a.Links))
				}
			}
			if !slices.Equal(got, c.wantLinks) {
				t.Errorf("chains of %v links, want %v", got, c.wantLinks)
			}
		})
	}
}
