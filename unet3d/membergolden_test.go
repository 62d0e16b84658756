package unet3d

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestMemberNetworksEqualPyTorch: with PyTorch's weights the networks over members give PyTorch's
// output, and its gradient of mean y².
func TestMemberNetworksEqualPyTorch(t *testing.T) {
	for _, c := range []struct {
		file  string
		build func(*graph.Builder, graph.Value) graph.Value
	}{
		{"poet_small", PoET{Attention: Attention{SetSize: 3, Heads: 2, Norm: PointNorm}, Widths: []int{4, 6}, AttentionStages: 2, Periodic: true}.Build},
		{"poet_axial", PoET{Attention: Attention{SetSize: 4, Heads: 2, Weights: AxialWeights}, Widths: []int{3, 4}, AttentionStages: 1, Periodic: true}.Build},
		{"member_transformer", MemberTransformer{Attention: Attention{SetSize: 3, Heads: 2, Width: 6, Weights: PointWeights}, Width: 4, Layers: 2, Periodic: true}.Build},
		{"member_attention_pool", func(b *graph.Builder, x graph.Value) graph.Value {
			e, u := MemberEncoder{Channels: 8}, UNet{}
			return e.attend(b, u.layer(b, "members_conv1", u.layer(b, "members_conv0", x, 8), 8), 3, 4)
		}},
	} {
		for _, backend := range backends(t) {
			t.Run(c.file+" on "+backend, func(t *testing.T) { goldenGradient(t, c.file+".safetensors", backend, c.build) })
		}
	}
}

// goldenGradient compares output and gradient with those in a file.
func goldenGradient(t *testing.T, file, backend string, build func(*graph.Builder, graph.Value) graph.Value) {
	t.Helper()
	tensors, _, err := ckpt.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]ckpt.Tensor{}
	for _, x := range tensors {
		of[x.Name] = x
	}
	in, values := of["golden.input"], func(name string) []float32 { return of[name].Data.([]float32) }
	shape := graph.Shape(in.Shape)
	if len(shape) == 4 {
		shape = graph.Shape{shape[0], shape[1], 1, shape[2], shape[3]}
	}
	b := graph.New(1)
	y := build(b, b.Input("x", shape))
	b.Output("y", y)
	b.Loss(op.Mean(b, op.Square(b, y)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: backend}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	for _, e := range plan.Store().Entries() {
		w, ok := of[e.Name]
		if !ok || !graph.Shape(w.Shape).Equal(e.Shape) {
			t.Fatalf("%s: PyTorch has shape %v, the network %v", e.Name, w.Shape, e.Shape)
		}
		if err := plan.Store().Set(e.Name, w.Data.([]float32)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(plan.Store().Entries()); 2*n != len(tensors)-2 {
		t.Errorf("%d parameters, PyTorch has %d", n, (len(tensors)-2)/2)
	}
	copy(plan.Input("x"), values("golden.input"))
	if err := plan.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	// far is the largest difference over the largest value, or over the least that counts.
	far := func(got, want []float32, least float64) float64 {
		d, size := 0.0, least
		for i, v := range want {
			d, size = max(d, math.Abs(float64(got[i]-v))), max(size, math.Abs(float64(v)))
		}
		return d / size
	}
	if d := far(plan.Output("y"), values("golden.output"), 0); !(d < 1e-5) {
		t.Errorf("output differs by %.2g", d)
	}
	for _, e := range plan.Store().Entries() {
		got, _ := plan.Store().Grad(e.Name)
		// The bias of keys moves all weights of a query alike: its gradient is zero but for rounding.
		if d := far(got, values("golden.grad."+e.Name), 1e-3); !(d < 1e-4) {
			t.Errorf("gradient of %s differs by %.2g", e.Name, d)
		}
	}
}

// TestMemberNetworkParameters: the numbers of parameters are those of the published networks; with
// a factor for each channel they do not depend on the grid.
func TestMemberNetworkParameters(t *testing.T) {
	count := func(x graph.Shape, build func(*graph.Builder, graph.Value) graph.Value) (n int) {
		b := graph.New(1)
		b.Output("y", build(b, b.Input("x", x)))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, nd := range g.Nodes {
			if nd.Kind == graph.KindParam {
				n += nd.Shape.Size()
			}
		}
		return n
	}
	for _, c := range []struct {
		name string
		x    graph.Shape
		net  PoET
		want int
	}{
		{"7 inputs", graph.Shape{10, 7, 1, 361, 720}, PoET{Attention: Attention{SetSize: 10, Norm: PointNorm}}, 3923665},
		{"21 inputs", graph.Shape{10, 21, 1, 361, 720}, PoET{Attention: Attention{SetSize: 10, Norm: PointNorm}}, 3926465},
		{"large", graph.Shape{10, 7, 1, 361, 720}, PoET{Attention: Attention{SetSize: 10, Norm: PointNorm}, Widths: []int{16, 32, 64, 128}, AttentionStages: 4}, 16717361},
		{"hindcast", graph.Shape{11, 5, 1, 181, 360}, PoET{Attention: Attention{SetSize: 11, Norm: PointNorm}, Widths: []int{16, 32, 64}}, 3929297},
		{"a factor for each channel", graph.Shape{10, 7, 1, 361, 720}, PoET{Attention: Attention{SetSize: 10}}, 295089},
		{"a factor for each channel, small grid", graph.Shape{10, 7, 1, 41, 60}, PoET{Attention: Attention{SetSize: 10}}, 295089},
	} {
		if got := count(c.x, c.net.Build); got != c.want {
			t.Errorf("PoET, %s: %d parameters, want %d", c.name, got, c.want)
		}
	}
	// Three 5×5 layers, attention without and with its norm, and the last layer.
	layers := 25*3*64 + 64 + 2*(25*64*64+64)
	if got, want := count(graph.Shape{10, 3, 1, 32, 64}, MemberTransformer{Attention: Attention{SetSize: 10, Norm: NoNorm}}.Build), layers+3*64*64+64*64+64+65; got != want {
		t.Errorf("transformer of Finn 2021: %d parameters, want %d", got, want)
	}
}

// TestMemberNetworksCoupling: convolutions do not couple members, attention does, and the network
// is equivariant under permutation of members.
func TestMemberNetworksCoupling(t *testing.T) {
	for _, backend := range backends(t) {
		for _, c := range []struct {
			name    string
			net     PoET
			coupled bool
		}{
			{"no attention", PoET{AttentionStages: -1}, false},
			{"global", PoET{}, true},
			{"axial", PoET{Attention: Attention{Weights: AxialWeights}}, true},
			{"by point", PoET{Attention: Attention{Weights: PointWeights, Width: 16}}, true},
		} {
			const members = 4
			c.net.Attention.SetSize, c.net.Widths, c.net.Periodic = members, []int{4, 8}, true
			n := newMembersNet(t, backend, graph.Shape{2 * members, 3, 1, 9, 12}, c.net.Build)
			before := n.run(t)
			row := len(before) / (2 * members)
			n.plan.Input("x")[n.size/2] += 1
			after := n.run(t)
			for m := range 2 * members {
				var changed bool
				for p := m * row; p < (m+1)*row; p++ {
					changed = changed || math.Float32bits(before[p]) != math.Float32bits(after[p])
				}
				if want := m == 0 || c.coupled && m < members; changed != want {
					t.Errorf("%s on %s: member %d changes: %v, want %v", c.name, backend, m, changed, want)
				}
			}
			n.plan.Input("x")[n.size/2] -= 1
			n.exchange(1, 3)
			other := n.run(t)
			var d, size float64
			for m, from := range []int{0, 3, 2, 1, 4, 5, 6, 7} {
				for p := range row {
					d = max(d, math.Abs(float64(other[m*row+p]-before[from*row+p])))
					size = max(size, math.Abs(float64(before[m*row+p])))
				}
			}
			if !(d <= 2e-6*size) || !c.coupled && d != 0 {
				t.Errorf("%s on %s: members in another order come out otherwise by %.2g of %.2g", c.name, backend, d, size)
			}
		}
	}
}

// TestTrajectories: with leads as rows and position embeddings, the leads of a member affect each
// other depending on their order, and members are independent.
func TestTrajectories(t *testing.T) {
	const leads, members = 3, 2
	net := PoET{Attention: Attention{SetSize: leads, Positional: true}, Widths: []int{4, 8}, Periodic: true}
	n := newMembersNet(t, "ref", graph.Shape{members * leads, 3, 1, 9, 12}, net.Build)
	before := n.run(t)
	row := len(before) / (members * leads)
	differ := func(a, b []float32) bool { return !slices.Equal(a, b) }
	n.plan.Input("x")[n.size/2] += 1
	after := n.run(t)
	for m := range members {
		if differ(before[m*leads*row:(m+1)*leads*row], after[m*leads*row:(m+1)*leads*row]) != (m == 0) {
			t.Errorf("a lead of member 0 changes member %d, or not its own", m)
		}
	}
	if !differ(before[2*row:3*row], after[2*row:3*row]) {
		t.Error("the first lead does not reach the last")
	}
	n.plan.Input("x")[n.size/2] -= 1
	n.exchange(0, 1)
	other := n.run(t)
	var d float64
	for p := range row {
		d = max(d, math.Abs(float64(other[p]-before[row+p])))
	}
	if d < 1e-3 {
		t.Errorf("leads that are exchanged come out exchanged, within %.2g: places count for nothing", d)
	}
}
