package graph_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestFirstErrorIsKept verifies that the builder reports the first error, that
// later calls have no effect, and that invalid values can be used.
func TestFirstErrorIsKept(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{2, 3})
	bad := op.Add(b, x, b.Input("y", graph.Shape{2, 4}))
	if bad.Valid() || bad.Dim(1) != 1 || bad.Shape() != nil || bad.Name() != "" {
		t.Errorf("value after an error: %v %v", bad.Shape(), bad.Dim(1))
	}
	worse := op.ReLU(b, op.Concat(b, 7, bad, x))
	b.Output("z", worse)
	b.Loss(worse)
	b.Note("never seen")
	_, err := b.Build()
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(e.What, "add") || !strings.Contains(e.At, "graph_test.go:") {
		t.Fatalf("error %v, want that of add with its line", err)
	}
}

// TestBuilderRefuses lists errors outside of operations.
func TestBuilderRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *graph.Builder)
	}{
		{"name twice", func(b *graph.Builder) { b.Input("x", graph.Shape{1}); b.Param("x", graph.Shape{1}, graph.Zeros()) }},
		{"no name", func(b *graph.Builder) { b.Input("", graph.Shape{1}) }},
		{"size 0", func(b *graph.Builder) { b.Input("x", graph.Shape{2, 0}) }},
		{"too large", func(b *graph.Builder) { b.Input("x", graph.Shape{1 << 30, 1 << 30}) }},
		{"values do not fit", func(b *graph.Builder) { b.Const("c", graph.Shape{3}, []float32{1}) }},
		{"start values do not fit", func(b *graph.Builder) { b.Param("p", graph.Shape{3}, graph.Values([]float32{1})) }},
		{"fan-in 0", func(b *graph.Builder) { b.Param("p", graph.Shape{3}, graph.HeNormal(0)) }},
		{"loss is a field", func(b *graph.Builder) { b.Loss(b.Input("x", graph.Shape{3})) }},
		{"two losses", func(b *graph.Builder) { v := b.Input("x", graph.Shape{}); b.Loss(v); b.Loss(v) }},
		{"output twice", func(b *graph.Builder) { v := b.Input("x", graph.Shape{}); b.Output("y", v); b.Output("y", v) }},
		{"assignment to an input", func(b *graph.Builder) { v := b.Input("x", graph.Shape{}); b.Assign(v, v) }},
		{"assignment of another shape", func(b *graph.Builder) {
			b.Assign(b.State("s", graph.Shape{2}, graph.Zeros()), b.Input("x", graph.Shape{3}))
		}},
		{"value of another graph", func(b *graph.Builder) { op.ReLU(b, graph.New(2).Input("x", graph.Shape{3})) }},
	} {
		b := graph.New(1)
		c.build(b)
		if _, err := b.Build(); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: error %v, want one of usage", c.name, err)
		}
	}
}

// TestCheckDetectsDamage verifies that Check detects the damage that a faulty
// pass could do.
func TestCheckDetectsDamage(t *testing.T) {
	for name, damage := range map[string]func(g *graph.Graph){
		"shape":    func(g *graph.Graph) { g.Nodes[2].Shape = graph.Shape{9} },
		"order":    func(g *graph.Graph) { g.Nodes[2].In[0] = 3 },
		"number":   func(g *graph.Graph) { g.Nodes[2].ID = 1 },
		"name":     func(g *graph.Graph) { g.Nodes[1].Name = "x" },
		"dtype":    func(g *graph.Graph) { g.Nodes[1].DType = graph.Float64 },
		"output":   func(g *graph.Graph) { g.Outputs[0].ID = 17 },
		"loss":     func(g *graph.Graph) { g.Loss = 0 },
		"gradient": func(g *graph.Graph) { g.Grads = []graph.Grad{{Param: 1, Value: 3}} },
		"cut": func(g *graph.Graph) {
			g.Nodes[0].Distribution = graph.Distribution{Axes: []graph.AxisPartition{{MeshAxis: "lat", Starts: []int{0, 5}}}}
		},
		"assign":       func(g *graph.Graph) { g.Assigns = []graph.Assign{{State: 0, Value: 0}} },
		"const length": func(g *graph.Graph) { g.Nodes[1].Kind = graph.KindConst },
	} {
		b := graph.New(1)
		x, p := b.Input("x", graph.Shape{3}), b.Param("p", graph.Shape{3}, graph.Ones())
		y := op.Mul(b, x, p)
		b.Output("y", y)
		b.Loss(op.Sum(b, y))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		damage(g)
		if err := g.Check(); exit.CodeOf(err) != exit.Bug {
			t.Errorf("%s: error %v, want a broken invariant", name, err)
		}
	}
}

// TestText compares the printed graph, gradients included, with the expected
// text.
func TestText(t *testing.T) {
	b := graph.New(1)
	x, w := b.Input("x", graph.Shape{2, 3}), b.Param("w", graph.Shape{1, 3}, graph.Ones())
	y := op.Mul(b, x, w)
	b.Output("y", y)
	b.Loss(op.Sum(b, op.Scale(b, y, 0.5)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.AddGradients(op.Add); err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	if err := g.WriteText(&s); err != nil {
		t.Fatal(err)
	}
	want := `%0 = input x : f32 [2 3]
%1 = param w : f32 [1 3]
%2 = mul(x, w) : f32 [2 3]
%3 = scale(%2) 0.5 : f32 [2 3]
%4 = sum(%3) all : f32 []
%5 = const  : f32 []
%6 = broadcast(%5) {Shape:[2 3]} : f32 [2 3]
%7 = scale(%6) 0.5 : f32 [2 3]
%8 = mul(%7, w) : f32 [2 3]
%9 = mul(%7, x) : f32 [2 3]
%10 = sum(%9) [0] : f32 [1 3]
output y = %2
gradient w = %10
loss = %4
`
	if s.String() != want {
		t.Errorf("graph:\n%s\nwant:\n%s", s.String(), want)
	}
}

// TestNoGradient verifies that an operation without gradient between the
// loss and a parameter gives an error with the reason.
func TestNoGradient(t *testing.T) {
	b := graph.New(1)
	p := b.Param("p", graph.Shape{2, 3}, graph.Ones())
	loss := op.Sum(b, op.ChannelSum(b, p))
	graph.Gradients(b, loss, []graph.Value{p}, op.Add)
	if err := b.Err(); err == nil || !strings.Contains(err.Error(), "channel_sum") || !strings.Contains(err.Error(), "second derivatives") {
		t.Errorf("error %v, want the reason of channel_sum", err)
	}
}

// TestPullback verifies that gradients of two values add up, with that of the
// value itself first, and that shapes are checked.
func TestPullback(t *testing.T) {
	b := graph.New(1)
	x, u, v := b.Input("x", graph.Shape{2}), b.Input("u", graph.Shape{2}), b.Input("v", graph.Shape{2})
	y := op.Scale(b, x, 3)
	ds := graph.Pullback(b, []graph.Value{y, x}, []graph.Value{u, v}, []graph.Value{x, u}, op.Add)
	b.Output("dx", ds[0])
	if ds[1].Valid() {
		t.Error("a given gradient has a gradient")
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	if err := g.WriteText(&s); err != nil {
		t.Fatal(err)
	}
	const want = "%4 = scale(u) 3 : f32 [2]\n%5 = add(v, %4) : f32 [2]\noutput dx = %5\n"
	if !strings.HasSuffix(s.String(), want) {
		t.Errorf("graph:\n%swant the end:\n%s", s.String(), want)
	}
	if ds := graph.Pullback(b, nil, nil, []graph.Value{b.Value(x.ID())}, op.Add); ds[0].Valid() {
		t.Error("no values have a gradient")
	}
	graph.Pullback(b, []graph.Value{y}, []graph.Value{b.Scalar(1)}, []graph.Value{x}, op.Add)
	if err := b.Err(); !errors.Is(err, graph.ErrShape) {
		t.Errorf("gradient of another shape: %v", err)
	}
}

// TestInit verifies that initial values depend on seed and name, have the
// expected standard deviation, and do not depend on other parameters.
func TestInit(t *testing.T) {
	const n = 20000
	draw := func(i graph.Init, seed uint64, name string) []float32 {
		v := make([]float32, n)
		i.Fill(v, seed, name)
		return v
	}
	spread := func(v []float32) float64 {
		var s float64
		for _, x := range v {
			s += float64(x) * float64(x)
		}
		return math.Sqrt(s / n)
	}
	a := draw(graph.HeNormal(50), 1, "w")
	if got, want := spread(a), math.Sqrt(2./50); math.Abs(got-want) > 0.03*want { // three percent: four standard errors
		t.Errorf("He: spread %v, want %v", got, want)
	}
	if got, want := spread(draw(graph.KaimingUniform(50), 1, "w")), 1/math.Sqrt(150); math.Abs(got-want) > 0.03*want {
		t.Errorf("uniform: spread %v, want %v", got, want)
	}
	if b := draw(graph.HeNormal(50), 1, "w"); b[7] != a[7] {
		t.Error("the same seed and name give another start")
	}
	if b := draw(graph.HeNormal(50), 1, "v"); b[7] == a[7] {
		t.Error("another name gives the same start")
	}
	if b := draw(graph.HeNormal(50), 2, "w"); b[7] == a[7] {
		t.Error("another seed gives the same start")
	}
}

// TestBroadcast covers the rule of broadcasting.
func TestBroadcast(t *testing.T) {
	for _, c := range []struct {
		in   []graph.Shape
		want graph.Shape
	}{
		{[]graph.Shape{{2, 3}, {2, 3}}, graph.Shape{2, 3}},
		{[]graph.Shape{{2, 1}, {1, 3}, {}}, graph.Shape{2, 3}},
		{[]graph.Shape{{}, {}}, graph.Shape{}},
		{[]graph.Shape{{2, 3}, {3}}, nil},
		{[]graph.Shape{{2, 3}, {2, 2}}, nil},
	} {
		got, err := graph.Broadcast(c.in...)
		if (err != nil) != (c.want == nil) || err == nil && !got.Equal(c.want) {
			t.Errorf("%v: %v %v, want %v", c.in, got, err, c.want)
		}
	}
}
