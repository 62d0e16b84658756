package unet3d

import (
	"errors"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

func count(t *testing.T, build func(*graph.Builder)) int {
	t.Helper()
	b := graph.New(1)
	build(b)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, node := range g.Nodes {
		if node.Kind == graph.KindParam {
			n += node.Shape.Size()
		}
	}
	return n
}

// TestPublishedParameterCounts: the numbers of parameters are those of the published PyTorch code.
func TestPublishedParameterCounts(t *testing.T) {
	for _, c := range []struct{ base, want int }{{32, 17142689}, {16, 4341201}} {
		u := UNet{Base: c.base}
		got := count(t, func(b *graph.Builder) { u.Build(b, b.Input("x", graph.Shape{1, 42, 2, 32, 64})) })
		if got != c.want || u.Parameters(42) != c.want {
			t.Errorf("base %d: %d parameters, by formula %d, want %d", c.base, got, u.Parameters(42), c.want)
		}
	}
	if got := count(t, func(b *graph.Builder) {
		(ResNet2D{Reinject: PublishedReinject}).Build(b, b.Input("x", graph.Shape{1, 42, 1, 8, 8}))
	}); got != 3762530 {
		t.Errorf("resnet2d_simple: %d parameters, want 3762530", got)
	}
	for _, c := range []struct {
		figure bool
		want   int
	}{{false, 7397986}, {true, 10916038}} {
		if got := count(t, func(b *graph.Builder) {
			in := graph.Shape{1, 21, 1, 8, 8}
			Inception{Figure: c.figure}.Build(b, b.Input("spreads", in), b.Input("members", in))
		}); got != c.want {
			t.Errorf("inception, figure %v: %d parameters, want %d", c.figure, got, c.want)
		}
	}
}

func TestFewerStagesKeepNames(t *testing.T) {
	u := UNet{Base: 8, Stages: 2, Out: 6}
	b := graph.New(1)
	y := u.Build(b, b.Input("x", graph.Shape{2, 12, 2, 8, 12}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if !y.Shape().Equal(graph.Shape{2, 6, 2, 8, 12}) {
		t.Errorf("output %v", y.Shape())
	}
	for name, want := range map[string]graph.Shape{
		"enc_conv0.weight": {16, 12, 3, 3, 3}, "enc_conv2.weight": {24, 16, 3, 3, 3},
		"dec_conv2a.weight": {32, 40, 3, 3, 3}, "dec_conv1a.weight": {32, 44, 3, 3, 3}, "dec_conv0.bias": {6},
	} {
		if n := g.Find(name); n == nil || !n.Shape.Equal(want) {
			t.Errorf("%s: %v, want %v", name, n, want)
		}
	}
	if g.Find("enc_conv3.weight") != nil {
		t.Error("enc_conv3 in a network of two stages")
	}
	if u.Parameters(12) != count(t, func(b *graph.Builder) { u.Build(b, b.Input("x", graph.Shape{1, 12, 2, 8, 8})) }) {
		t.Error("the formula of Parameters does not hold for two stages")
	}
}

func TestSidesThatDoNotDivideAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(*graph.Builder)
	}{
		{"361 rows", func(b *graph.Builder) { (UNet{}).Build(b, b.Input("x", graph.Shape{1, 42, 2, 361, 720})) }},
		{"six stages", func(b *graph.Builder) { (UNet{Stages: 6}).Build(b, b.Input("x", graph.Shape{1, 42, 2, 64, 64})) }},
		{"two levels", func(b *graph.Builder) { (ResNet2D{}).Build(b, b.Input("x", graph.Shape{1, 42, 2, 8, 8})) }},
		{"no channel 28", func(b *graph.Builder) {
			(ResNet2D{Reinject: 28}).Build(b, b.Input("x", graph.Shape{1, 12, 1, 8, 8}))
		}},
	} {
		b := graph.New(1)
		c.build(b)
		if _, err := b.Build(); !errors.Is(err, graph.ErrShape) {
			t.Errorf("%s: %v, want a shape error", c.name, err)
		}
	}
}

// TestBuildPadded: a grid that is not divisible is padded, with zeros in the south, as convolutions
// pad, and periodically in longitude, by a cell of the deepest stage more if there are as many columns.
func TestBuildPadded(t *testing.T) {
	for _, c := range []struct {
		name     string
		h, w     int
		wide     int
		periodic bool
	}{{"divides", 8, 8, 8, true}, {"rows", 7, 8, 8, true}, {"columns around", 8, 10, 16, true}, {"columns of an area", 8, 10, 12, false}, {"both", 5, 7, 12, true}, {"few columns around", 8, 3, 4, true}} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.New(1)
			x := b.Input("x", graph.Shape{1, 2, 1, c.h, c.w})
			y := UNet{Base: 1, Stages: 2, Periodic: c.periodic}.BuildPadded(b, x)
			b.Output("y", y)
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(y.Shape(), graph.Shape{1, 1, 1, c.h, c.w}) {
				t.Errorf("result %v", y.Shape())
			}
			first := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Op != nil && n.Op.Name == "conv3d" })
			if in := g.Nodes[g.Nodes[first].In[0]].Shape; in[3]%4 != 0 || in[4] != c.wide {
				t.Errorf("the network sees %v, want %d columns", in, c.wide)
			}
		})
	}
}
