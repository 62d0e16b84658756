package program

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// operations lists the operations of g that run, in order.
func operations(g *graph.Graph) (order []int) {
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && !n.Op.Alias {
			order = append(order, n.ID)
		}
	}
	return order
}

// built returns the graph of a builder.
func built(t *testing.T, b *graph.Builder, y graph.Value) *graph.Graph {
	t.Helper()
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ids returns the vertices of a type.
func (g *Graph) ids(of Type) (all []int) {
	for _, v := range g.Vertices {
		if v.Type == of {
			all = append(all, v.ID)
		}
	}
	return all
}

// flow returns the edges of a flow.
func (g *Graph) flow(f Flow) (all []Edge) {
	for _, e := range g.Edges {
		if e.Flow == f {
			all = append(all, e)
		}
	}
	return all
}

// norm is an operation of a value and two parameters for each channel, of which only the operands matter.
var norm = &graph.Op{Name: "norm", Shape: func(in []graph.Shape, _ any) (graph.Shape, error) { return in[0], nil },
	FLOPs: func(_ []graph.Shape, out graph.Shape, _ any) int64 { return 2 * int64(out.Size()) }}

// normalised is y = relu(norm(conv(x, w), gamma, beta)).
func normalised(t *testing.T) *graph.Graph {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, 4, 2, 8, 8})
	w := b.Param("w", graph.Shape{6, 4, 3, 3, 3}, graph.HeNormal(4*27))
	gamma, beta := b.Param("gamma", graph.Shape{6}, graph.Ones()), b.Param("beta", graph.Shape{6}, graph.Zeros())
	c := op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)})
	return built(t, b, op.ReLU(b, b.Node(norm, nil, c, gamma, beta)))
}

// TestNormalised: the worked case of a convolution, a norm and a ReLU has 3 instructions, 4 variables, 3 constants, 9 data edges with the
// numbers of their operands and 2 control edges.
func TestNormalised(t *testing.T) {
	g := normalised(t)
	p := Of(g, operations(g))
	if i, v, c := len(p.ids(Instruction)), len(p.ids(Variable)), len(p.ids(Constant)); i != 3 || v != 4 || c != 3 {
		t.Errorf("%d instructions, %d variables, %d constants, want 3, 4 and 3", i, v, c)
	}
	name := func(id int) string {
		v := p.Vertices[id]
		if v.Features.Name != "" {
			return v.Features.Name
		}
		return v.Text
	}
	type edge struct {
		from, to string
		position int
	}
	value := "f32 [1 6 2 8 8]"
	want := []edge{{"x", "conv3d", 0}, {"w", "conv3d", 1}, {"conv3d", value, 0},
		{value, "norm", 0}, {"gamma", "norm", 1}, {"beta", "norm", 2}, {"norm", value, 0},
		{value, "relu", 0}, {"relu", value, 0}}
	var got []edge
	for _, e := range p.flow(Data) {
		got = append(got, edge{name(e.Source), name(e.Target), e.Position})
	}
	if !slices.Equal(got, want) {
		t.Errorf("data edges %v, want %v", got, want)
	}
	if got := p.flow(Control); !slices.Equal(got, []Edge{{Control, 0, 1, 0}, {Control, 1, 2, 0}}) {
		t.Errorf("control edges %v", got)
	}
	if calls := p.flow(Call); len(calls) > 0 {
		t.Errorf("call edges %v without a chain", calls)
	}
	if got := p.Producers(); len(got) != 3 || !slices.Equal(got[0], []int{-1, -1}) || !slices.Equal(got[1], []int{0, -1, -1}) || !slices.Equal(got[2], []int{1}) {
		t.Errorf("producers %v", got)
	}
	// 2·6·2·8·8 FLOP of the norm; 6·4·27 values of the filter and 1·4·2·8·8 of x, of four bytes each.
	if got := p.Vertices[1].Features.FLOPs; got != 1536 {
		t.Errorf("%d FLOP of the norm, want 1536", got)
	}
	for _, v := range p.Vertices {
		if want, ok := map[string]int64{"x": 2048, "w": 2592}[v.Features.Name]; ok && v.Features.Bytes != want {
			t.Errorf("%s has %d bytes, want %d", v.Features.Name, v.Features.Bytes, want)
		}
	}
}

// TestPositions: operands of an operation that reads one value twice, or two values in one order, have their numbers.
func TestPositions(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(b *graph.Builder, x, y graph.Value) graph.Value
		want [][2]string // operand and position
	}{
		{"x-y", func(b *graph.Builder, x, y graph.Value) graph.Value { return op.Sub(b, x, y) }, [][2]string{{"x", "0"}, {"y", "1"}}},
		{"y-x", func(b *graph.Builder, x, y graph.Value) graph.Value { return op.Sub(b, y, x) }, [][2]string{{"y", "0"}, {"x", "1"}}},
		{"x-x", func(b *graph.Builder, x, _ graph.Value) graph.Value { return op.Sub(b, x, x) }, [][2]string{{"x", "0"}, {"x", "1"}}},
	} {
		b := graph.New(1)
		x, y := b.Input("x", graph.Shape{1, 4}), b.Input("y", graph.Shape{1, 4})
		g := built(t, b, c.of(b, x, y))
		p := Of(g, operations(g))
		var got [][2]string
		for _, e := range p.flow(Data) {
			if e.Target == 0 {
				got = append(got, [2]string{p.Vertices[e.Source].Features.Name, string(rune('0' + e.Position))})
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: operands %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAlias: an operation that only changes the shape is no vertex; its readers read its operand.
func TestAlias(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{2, 6})
	g := built(t, b, op.ReLU(b, op.Reshape(b, op.ReLU(b, x), graph.Shape{3, 4})))
	p := Of(g, operations(g))
	if len(p.Vertices) != 5 || len(p.flow(Data)) != 4 {
		t.Errorf("%d vertices and %d data edges, want 5 and 4", len(p.Vertices), len(p.flow(Data)))
	}
	if got := p.Producers(); !slices.Equal(got[1], []int{0}) {
		t.Errorf("the second operation reads %v, want the first", got[1])
	}
}

// TestChain: a chain is a function of its links, with one call edge in and one out.
func TestChain(t *testing.T) {
	g := chained(t)
	p := Of(g, operations(g))
	var links []int
	for _, v := range p.Vertices {
		if v.Function == 1 && v.Type == Instruction {
			links = append(links, v.ID)
		}
	}
	if len(links) != 3 {
		t.Fatalf("links %v, want 3", links)
	}
	if got := p.flow(Call); !slices.Equal(got, []Edge{{Call, 0, links[0], 0}, {Call, links[2], 0, 0}}) {
		t.Errorf("call edges %v with links %v", got, links)
	}
	if got := p.flow(Control); !slices.Equal(got, []Edge{{Control, links[0], links[1], 0}, {Control, links[1], links[2], 0}}) {
		t.Errorf("control edges %v with links %v", got, links)
	}
	// x, y into the chain and the result out of it; mul(x, y), its value, abs of it, its value, sub(value, y).
	if got := len(p.flow(Data)); got != 3+2+1+1+1+2 {
		t.Errorf("%d data edges, want 10", got)
	}
	if got := p.Producers(); len(got) != 1 || !slices.Equal(got[0], []int{-1, -1}) {
		t.Errorf("producers %v: links are no instructions of the step", got)
	}
}

// chained is a graph of one chain: |x·y| − y.
func chained(t *testing.T) *graph.Graph {
	b := graph.New(1)
	x, y := b.Input("x", graph.Shape{1, 4}), b.Input("y", graph.Shape{1, 4})
	single := built(t, b, op.Sub(b, op.Abs(b, op.Mul(b, x, y)), y))
	c := op.Chain{Operands: 2}
	for _, id := range operations(single) { // inputs are 0 and 1, as operands of the chain
		n := single.Nodes[id]
		c.Links = append(c.Links, op.Link{Op: n.Op, Attrs: n.Attrs, Args: n.In})
	}
	b = graph.New(1)
	x, y = b.Input("x", graph.Shape{1, 4}), b.Input("y", graph.Shape{1, 4})
	return built(t, b, op.ElementwiseChain(b, c, x, y))
}

// TestDegrees: in the graph of a network every result has one instruction that makes it, every instruction one result and as many
// operands as its operation, with positions from 0, and all but the first and last instruction one predecessor and one successor.
func TestDegrees(t *testing.T) {
	g := normalised(t)
	p := Of(g, operations(g))
	in, out := map[Flow][]int{}, map[Flow][]int{}
	for f := Control; f <= Call; f++ {
		in[f], out[f] = make([]int, len(p.Vertices)), make([]int, len(p.Vertices))
	}
	for _, e := range p.Edges {
		out[e.Flow][e.Source]++
		if e.Flow == Data && p.Vertices[e.Target].Type == Instruction && e.Position != in[Data][e.Target] {
			t.Errorf("operand %d of instruction %d comes as number %d", e.Position, e.Target, in[Data][e.Target])
		}
		in[e.Flow][e.Target]++
	}
	for _, v := range p.Vertices {
		switch {
		case v.Type == Instruction && (in[Data][v.ID] != len(g.Nodes[v.Node].In) || out[Data][v.ID] != 1):
			t.Errorf("%s has %d operands and %d results", v.Text, in[Data][v.ID], out[Data][v.ID])
		case v.Type == Constant && in[Data][v.ID] > 0, v.Type == Variable && in[Data][v.ID] != map[bool]int{true: 1}[g.Nodes[v.Node].Kind == graph.KindOp]:
			t.Errorf("%s is made by %d instructions", v.Text, in[Data][v.ID])
		}
	}
}

// TestJSON: the node-link form has every vertex and edge, and is the same again.
func TestJSON(t *testing.T) {
	g := normalised(t)
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := Of(g, operations(g)).WriteJSON(b); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two exports differ")
	}
	var f struct {
		Directed, Multigraph bool
		Nodes                []struct {
			ID, Type int
			Text     string
		}
		Links []struct{ Flow, Source, Target, Position, Key int }
	}
	if err := json.Unmarshal(first.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	if !f.Directed || !f.Multigraph || len(f.Nodes) != 10 || len(f.Links) != 11 || f.Nodes[0].Text != "conv3d" {
		t.Errorf("%+v", f)
	}
}
