package search

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// smallUNet is a U-Net with one pooling on 2 fields of 3×16×24 points, 4 samples,
// and inner channels.
func smallUNet(t *testing.T, inner int) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name+".weight", graph.Shape{out, x.Dim(1), 3, 3, 3}, graph.HeNormal(27))
		y := op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)})
		return op.ReLU(b, op.Bias(b, y, b.Param(name+".bias", graph.Shape{out}, graph.Zeros())))
	}
	x := b.Input("x", graph.Shape{4, 2, 3, 16, 24})
	var fields []graph.Value // of all layers
	add := func(v graph.Value) graph.Value {
		fields = append(fields, v)
		return v
	}
	skip := add(conv("first", x, 8))
	h := add(conv("inner", add(op.MaxPool(b, skip, [3]int{1, 2, 2})), inner))
	h = add(conv("last", add(op.Concat(b, 1, add(op.Upsample(b, h, [3]int{1, 2, 2}, true)), skip)), 2))
	for i, v := range fields {
		b.Output(fmt.Sprint(i), v)
	}
	b.Loss(op.L1(b, h, b.Input("target", h.Shape())))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fastLinks is a machine with one rank per node.
var fastLinks = Machine{FLOPs: 1e11, Bytes: 1e10, IntraNode: Link{cluster.Microsecond, 1e10}, InterNode: Link{2 * cluster.Microsecond, 2e9}}

// The layers of a U-Net, how they read each other, and their work: that of the graph with
// its gradients.
func TestLayers(t *testing.T) {
	g := smallUNet(t, 16)
	n, err := Layers(g, Optimiser{State: 2})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var flops, gradients int64
	for _, l := range n.Layers {
		names = append(names, l.Name)
		gradients += l.GradientValues
		for _, w := range slices.Concat(l.Forward, l.Backward, l.Filter, l.Data) {
			if w.Conv != nil {
				flops += w.FLOPs
			}
		}
	}
	if want := []string{"first", "max_pool 8x12", "inner", "upsample 16x24", "concat 16x24", "last"}; !slices.Equal(names, want) {
		t.Fatalf("layers %q, want %q", names, want)
	}
	if e := n.Layers[4].From; len(e) != 2 || e[0].From != 3 || e[1].From != 0 || e[0].Window != nil {
		t.Errorf("the join reads %+v", e)
	}
	if e := n.Layers[0].From; len(e) != 1 || e[0].From != Input || e[0].Window == nil {
		t.Errorf("the first convolution reads %+v", e)
	}
	var parameters int64
	for _, nd := range g.Nodes {
		if nd.Kind == graph.KindParam {
			parameters += int64(nd.Shape.Size())
		}
	}
	if n.Parameters != parameters || gradients != parameters {
		t.Errorf("%d parameters and %d gradients, want %d", n.Parameters, gradients, parameters)
	}
	own, err := g.Rewrite(nil, func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
	if err != nil {
		t.Fatal(err)
	}
	if err := own.AddGradients(op.Add); err != nil {
		t.Fatal(err)
	}
	var want int64
	needed := own.Needed(own.Roots()) // the gradient of the input is not
	for _, nd := range own.Nodes {
		if nd.Kind == graph.KindOp && needed[nd.ID] && strings.HasPrefix(nd.Op.Name, "conv3d") {
			want += nd.Op.FLOPs(own.InShapes(nd), nd.Shape, nd.Attrs)
		}
	}
	if flops != want {
		t.Errorf("%d FLOPs of convolutions, the graph has %d", flops, want)
	}
	if _, err := Layers(&graph.Graph{Loss: -1}, Optimiser{State: 2}); err == nil {
		t.Error("a graph without loss has layers")
	}
}

// The halo bytes of a split equal the closed form: of x and of dy, on both sides.
func TestHaloBytes(t *testing.T) {
	n, err := Layers(smallUNet(t, 16), Optimiser{State: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := CostOf(n, fastLinks, spatial.Mesh{{Name: "lon", Size: 2}})
	row := int64(4 * 4 * 3) // bytes · samples · levels of a column of one channel and latitude
	// Forward: x of the three convolutions (2, 8 and 24 channels) and the field that is
	// upsampled (16). Backward: dy of inner and last (16 and 2), and two columns of the
	// upsampling's, those of one column of its operand.
	want := 2 * row * (16*2 + 8*8 + 16*24 + 8*16 + 8*16 + 16*2 + 2*16*16)
	if p.HaloBytes != want {
		t.Errorf("%d bytes of halos, want %d", p.HaloBytes, want)
	}
	if p.ShuffleBytes != 0 || !p.IsUniform() {
		t.Errorf("a uniform plan shuffles %d bytes", p.ShuffleBytes)
	}
}

// A simulated step on one rank takes the time that the model predicts, and nearly
// so on many ranks.
func TestPlay(t *testing.T) {
	m := fastLinks
	network := cluster.LogGP{Latency: m.InterNode.Alpha, Rate: m.InterNode.Rate}
	for _, hide := range []bool{false, true} {
		m.OverlapGradients = hide
		for _, text := range []string{"", "data:4", "lat:2 lon:2", "data:2 lon:4", "lon:4@3x8x12=lat", "lon:4@3x8x12=data", "lat:2 lon:2@3x8x12=none", "lon:4@3x8x12=channel"} {
			mesh, err := spatial.ParseMesh(text)
			if err != nil {
				t.Fatal(err)
			}
			inner := 16
			if strings.Contains(text, "channel") {
				inner = 64
			}
			g := smallUNet(t, inner)
			n, err := Layers(g, Optimiser{State: 2})
			if err != nil {
				t.Fatal(err)
			}
			played, err := Simulate(g, Optimiser{State: 2}, mesh, m, network)
			if err != nil {
				t.Fatal(err)
			}
			predicted := CostOf(n, m, mesh)
			// Sums of single numbers on one rank; otherwise what the closed forms
			// omit: local copies, and separate messages for biases, which matter in
			// such a small network.
			tolerance := 1e-3
			if mesh.Size() > 1 {
				tolerance = 0.15
			}
			if d := played.Step.Seconds()/predicted.Step.Seconds() - 1; math.Abs(d) > tolerance {
				t.Errorf("mesh %v, hidden %v: played %v, predicted %v", mesh, hide, played.Step, predicted.Step)
			}
			if (played.Sent > 0) != (mesh.Size() > 1) {
				t.Errorf("mesh %v: %d bytes sent", mesh, played.Sent)
			}
		}
	}
}

// A plan splits layers where package spatial splits them, with any overrides.
func TestPlansAreExecuted(t *testing.T) {
	for _, text := range []string{"data:4", "data:8", "level:3", "lat:3", "lon:3", "lat:10", "lon:3@3x16x24=lon", "lon:16", "lat:2@3x16x24=lat,3x8x12=lon lon:2@3x8x12=none",
		"lon:4@3x8x12=channel", "lon:8@3x8x12=channel", "channel:2 lon:2", "lat:4@3x8x12=level", "lat:2@3x8x12=level", "data:2@3x8x12=lat lon:2@3x8x12=data"} {
		mesh, err := spatial.ParseMesh(text)
		if err != nil {
			t.Fatal(err)
		}
		g := smallUNet(t, 64)
		n, err := Layers(g, Optimiser{State: 2})
		if err != nil {
			t.Fatal(err)
		}
		sharded, err := spatial.Shard(g, mesh, 0)
		if err != nil {
			t.Fatal(text, err)
		}
		for i, d := range CostOf(n, fastLinks, mesh).Layers {
			got := sharded.Outputs[fmt.Sprint(i)]
			if slices.Equal(n.Layers[i].Out[2:], g.Find("x").Shape[2:]) {
				d.Axes[1] = graph.AxisPartition{} // this one leaves, with all channels
			}
			if !slices.EqualFunc(got.Axes, d.Axes, func(a, b graph.AxisPartition) bool {
				return a.MeshAxis == b.MeshAxis && slices.Equal(a.Starts, b.Starts)
			}) {
				t.Errorf("%s: %s is cut %v, planned %v", text, n.Layers[i].Name, got.Axes, d.Axes)
			}
		}
	}
}
