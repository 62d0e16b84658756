package unet3d

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

func smallAxial(leads int) AxialTransformer {
	return AxialTransformer{Leads: leads, Width: 8, Heads: 2, Window: 3, Periodic: true}
}

// TestAxialParameters: Parameters counts the trained values, which depend neither on the grid nor
// on the number of leads.
func TestAxialParameters(t *testing.T) {
	of := func(a AxialTransformer, x graph.Shape) (out []string, n int) {
		b := graph.New(1)
		a.Build(b, b.Input("x", x))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, nd := range g.Nodes {
			if nd.Kind == graph.KindParam {
				out, n = append(out, fmt.Sprint(nd.Name, nd.Shape)), n+nd.Shape.Size()
			}
		}
		return out, n
	}
	want, _ := of(smallAxial(2), graph.Shape{4, 3, 2, 10, 14})
	for leads := 3; leads <= 6; leads++ {
		if got, _ := of(smallAxial(leads), graph.Shape{leads, 3, 2, 32, 6}); !slices.Equal(got, want) {
			t.Errorf("%d leads: parameters %v, with 2 leads on another grid %v", leads, got, want)
		}
	}
	for _, c := range []struct {
		net AxialTransformer
		x   graph.Shape
	}{
		{smallAxial(3), graph.Shape{3, 3, 2, 10, 14}},
		{AxialTransformer{Leads: 3, Condition: FiLM{Conditions: 1}}, graph.Shape{3, 14, 1, 32, 64}},
		{AxialTransformer{Out: 2, Blocks: 3, Stages: -1}, graph.Shape{1, 14, 2, 32, 64}},
	} {
		if _, n := of(c.net, c.x); n != c.net.Parameters(c.x[1], c.x[2]) {
			t.Errorf("%+v: %d parameters, by formula %d", c.net, n, c.net.Parameters(c.x[1], c.x[2]))
		}
	}
}

func TestAxialGradient(t *testing.T) {
	gradientOf(t, graph.Shape{3, 3, 2, 8, 10}, smallAxial(3).Build)
}

// TestAxialReaches: a lead affects all leads of its member and no other member; input that is
// rotated by one window in longitude gives rotated output.
func TestAxialReaches(t *testing.T) {
	const leads = 3
	for _, backend := range backends(t) {
		a := smallAxial(leads)
		x := graph.Shape{2 * leads, 3, 2, 8, 12}
		n := newMembersNet(t, backend, x, a.Build)
		before := n.run(t)
		row := len(before) / (2 * leads)
		n.plan.Input("x")[n.size/2] += 1
		after := n.run(t)
		for r := range 2 * leads {
			if differs := !slices.Equal(before[r*row:(r+1)*row], after[r*row:(r+1)*row]); differs != (r < leads) {
				t.Errorf("on %s: row %d changes with lead 0 of the first member: %v", backend, r, differs)
			}
		}
		n.plan.Input("x")[n.size/2] -= 1
		turn := func(f []float32, by int) []float32 { // to the east
			out := slices.Clone(f)
			for i := range f {
				out[i/12*12+(i+by)%12] = f[i]
			}
			return out
		}
		by := 6 // points: one window of 3 at half of the points
		copy(n.plan.Input("x"), turn(n.plan.Input("x"), by))
		want, got := turn(before, by), n.run(t)
		var largest float64
		for _, v := range want {
			largest = max(largest, math.Abs(float64(v)))
		}
		for i := range want {
			if d := math.Abs(float64(got[i] - want[i])); d > 1e-4*largest {
				t.Fatalf("on %s: turned by %d points, point %d is %v, want %v", backend, by, i, got[i], want[i])
			}
		}
	}
}

func TestAxialRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		x graph.Shape
		a AxialTransformer
	}{
		"rows that are no trajectories": {graph.Shape{4, 3, 1, 8, 12}, smallAxial(3)},
		"sides":                         {graph.Shape{3, 3, 1, 7, 12}, smallAxial(3)},
		"heads":                         {graph.Shape{3, 3, 1, 8, 12}, AxialTransformer{Leads: 3, Width: 10, Heads: 4}},
	} {
		b := graph.New(1)
		if v := c.a.Build(b, b.Input("x", c.x)); v.Valid() || b.Err() == nil {
			t.Errorf("%s: error %v", name, b.Err())
		}
	}
}
