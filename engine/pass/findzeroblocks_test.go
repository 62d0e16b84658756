package pass

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestFindTwoFour: filters with the 2:4 pattern are marked for predictions on devices with kernels for it.
func TestFindTwoFour(t *testing.T) {
	for _, c := range []struct {
		name       string
		infer, has bool
		want       string
	}{{"prediction", true, true, "fixed named "}, {"training", false, true, ""}, {"other devices", true, false, ""}} {
		b := graph.New(1)
		shape, same := graph.Shape{4, 4, 1, 1, 1}, op.Conv{Pad: op.Same(1, 1, 1)}
		y := op.Conv3D(b, b.Input("x", graph.Shape{1, 4, 1, 4, 4}), b.Const("fixed", shape, []float32{1, 0, 0, 2, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1}), same)
		y = op.Conv3D(b, y, b.Const("three", shape, []float32{1, 5, 0, 2, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1}), same)
		y = op.Conv3D(b, y, b.Param("named", shape, graph.Ones()), same)
		b.Output("y", op.Conv3D(b, y, b.Param("other", shape, graph.Ones()), same))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		u := &Unit{Graph: g, Device: Device{ElemBytes: 4, HasTwoFourKernels: c.has}, Options: Options{Infer: c.infer, TwoFourFilters: map[string]bool{"named": true}}}
		if err := findZeroBlocks(u); err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, n := range u.Graph.Nodes {
			if a, ok := n.Attrs.(op.Conv); ok && a.TwoFour {
				found += u.Graph.Nodes[n.In[1]].Name + " "
			}
		}
		if found != c.want {
			t.Errorf("%s: marked %q, want %q", c.name, found, c.want)
		}
	}
}

// TestFindZeroBlocks verifies that zero blocks are found in constants and taken
// from masks for parameters, also after a reshape, that gradients inherit them,
// and that filters without zero blocks do not change.
func TestFindZeroBlocks(t *testing.T) {
	b := graph.New(1)
	same := op.Conv{Pad: op.Same(3, 3, 3)}
	x := b.Input("x", graph.Shape{1, 20, 2, 4, 4})
	values := make([]float32, 18*20*27)
	values[17*20*27] = 1 // second block of the result, first block of the source
	fixed := op.Conv3D(b, x, b.Const("fixed", graph.Shape{18, 20, 3, 3, 3}, values), same)
	shared := op.Conv3D(b, fixed, b.Param("promised", graph.Shape{20, 18, 3, 3, 3}, graph.Ones()), same)
	flat := b.Param("flat", graph.Shape{18, 20, 9}, graph.Ones())
	plane := op.Conv3D(b, shared, op.Reshape(b, flat, graph.Shape{18, 20, 1, 3, 3}), op.Conv{Pad: op.Same(1, 3, 3)})
	all := op.Conv3D(b, plane, b.Param("dense", graph.Shape{4, 18, 3, 3, 3}, graph.Ones()), same)
	b.Loss(op.Sum(b, all))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	u := &Unit{Graph: g, Device: Device{ElemBytes: 4}, Options: Options{BlockMasks: map[string]op.BlockMask{"promised": "1001", "flat": "0110"}}}
	for _, run := range []func(*Unit) error{findZeroBlocks, addGradients} {
		if err := run(u); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]int{}
	for _, n := range u.Graph.Nodes {
		switch a := n.Attrs.(type) {
		case op.Conv:
			found["conv "+string(a.Mask)]++
		case op.ConvGrad:
			found["grad "+string(a.Mask)]++
		}
	}
	// the constant has no gradient; the data gradient of its reader is dead
	for what, want := range map[string]int{"conv 0010": 1, "conv 1001": 1, "conv 0110": 1, "conv ": 1, "grad 1001": 2, "grad 0110": 2, "grad ": 2} {
		if found[what] != want {
			t.Errorf("%d operations %q, want %d: %v", found[what], what, want, found)
		}
	}
}
