package channels

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// twoLayers is x → conv a (8) → norm → ReLU → conv b (4), added to conv c (4) of x → conv out.
func twoLayers(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, 3, 1, 4, 4})
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name+".weight", graph.Shape{out, x.Dim(1), 1, 1, 1}, graph.HeNormal(3))
		return op.Conv3D(b, x, w, op.Conv{})
	}
	c := graph.Shape{8}
	a := op.BatchNorm(b, conv("a", x, 8), b.Param("gamma", c, graph.Ones()), b.Param("beta", c, graph.Zeros()),
		b.State("mean", c, graph.Zeros()), b.State("var", c, graph.Ones()), op.BatchNormOptions{})
	sum := op.Add(b, conv("b", op.ReLU(b, a), 4), conv("c", x, 4))
	b.Output("y", conv("out", sum, 2))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// valuesOf returns weights whose scores can be computed by hand: channels of layer b have 1, 2, 3,
// 4, those of c 4, 3, 2, 1, so all sums are 5/8; gamma has the sizes 8, 1, 7, 2, 6, 3, 5, 4.
func valuesOf(g *graph.Graph) func(string) []float32 {
	return func(name string) []float32 {
		n := g.Find(name)
		v := make([]float32, n.Shape.Size())
		for i := range v {
			switch ch := i / max(1, n.Shape[1:].Size()); name {
			case "b.weight":
				v[i] = float32(ch + 1)
			case "c.weight":
				v[i] = float32(4 - ch)
			case "gamma":
				v[i] = []float32{-8, 1, 7, -2, 6, 3, 5, 4}[i]
			default:
				v[i] = 1
			}
		}
		return v
	}
}

func TestFamiliesAndScores(t *testing.T) {
	g := twoLayers(t)
	c := Find(g)
	var got []string
	for _, f := range c.Groups() {
		got = append(got, fmt.Sprintf("%v %d/%d %v", f.Filters, f.Pinned, f.Width, f.Reasons))
	}
	want := []string{"[a.weight] 0/8 []", "[b.weight c.weight] 0/4 []", "[out.weight] 2/2 [output y]"}
	if !slices.Equal(got, want) {
		t.Errorf("families\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	scores := c.Magnitudes(valuesOf(g))
	if want := []float64{1, 1. / 8, 7. / 8, 2. / 8, 6. / 8, 3. / 8, 5. / 8, 4. / 8}; !slices.Equal(scores[0], want) {
		t.Errorf("scores of a norm %v, want |gamma| over the largest, %v", scores[0], want)
	}
	for _, s := range scores[1] {
		if s < 0.625-1e-9 || s > 0.625+1e-9 {
			t.Errorf("scores %v of tied layers, want the mean of both, 0.625", scores[1])
		}
	}
}

func TestChoose(t *testing.T) {
	g := twoLayers(t)
	c := Find(g)
	for _, o := range []struct {
		name string
		goal Goal
		want []Kept
		err  string
	}{
		{"half of each layer; of equal scores the first stay", Goal{Fraction: 0.5},
			[]Kept{{"a.weight", 8, []int{0, 2, 4, 6}}, {"b.weight", 4, []int{0, 1}}, {"c.weight", 4, []int{0, 1}}}, ""},
		{"all compete: of scores under 0.625 none stays", Goal{Fraction: 8. / 12, Scope: Global},
			[]Kept{{"a.weight", 8, []int{0, 2, 4, 6}}}, ""},
		{"in fours", Goal{Fraction: 0.3, Multiple: 4}, []Kept{{"a.weight", 8, []int{0, 2, 4, 6}}}, ""},
		{"all", Goal{Fraction: 1}, nil, ""},
		{"nothing of a layer", Goal{Fraction: 0.1}, nil, "channels of layer b"},
		{"too few operations", Goal{FLOPFraction: 0.01}, nil, "2 of 2 of out (output y)"},
		{"no goal", Goal{}, nil, "want exactly one"},
		{"two goals", Goal{Fraction: 0.5, FLOPFraction: 0.5}, nil, "want exactly one"},
	} {
		kept, err := c.Choose(o.goal, c.Magnitudes(valuesOf(g)))
		if o.err != "" {
			if !errors.Is(err, ErrInfeasible) || !strings.Contains(err.Error(), o.err) {
				t.Errorf("%s: error %v, want %q", o.name, err, o.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(kept, o.want) {
			t.Errorf("%s: %v, %v; want %v", o.name, kept, err, o.want)
		}
	}
}

// TestChooseByOperations: the result needs at most the given operations, and not many fewer.
func TestChooseByOperations(t *testing.T) {
	g := twoLayers(t)
	c := Find(g)
	for _, scope := range []Scope{Uniform, Global} {
		for _, share := range []float64{0.9, 0.6, 0.4} {
			kept, err := c.Choose(Goal{FLOPFraction: share, Scope: scope}, c.Magnitudes(valuesOf(g)))
			if err != nil {
				t.Fatal(err)
			}
			n, err := c.FLOPs(kept)
			if got := float64(n) / float64(g.FLOPs()); err != nil || got > share || got < share-0.25 {
				t.Errorf("%s: %.3f of the operations, want up to %v (%v)", scope, got, share, err)
			}
		}
	}
}

// TestInSteps: removing channels in two steps, with new scores in each, equals one removal with the
// composed lists, and the same goal again removes nothing.
func TestInSteps(t *testing.T) {
	g := twoLayers(t)
	c := Find(g)
	first := c.OriginalSize()
	one, err := c.Choose(Goal{Fraction: 0.75, Original: first}, c.Magnitudes(valuesOf(g)))
	if err != nil {
		t.Fatal(err)
	}
	small, cut, err := c.Shrink(one)
	if err != nil {
		t.Fatal(err)
	}
	values := func(name string) []float32 {
		v, _ := cut.Take(name, g.Find(name).Shape, valuesOf(g)(name))
		return v
	}
	c2 := Find(small)
	two, err := c2.Choose(Goal{Fraction: 0.5, Original: first}, c2.Magnitudes(values))
	if err != nil {
		t.Fatal(err)
	}
	both := Compose(one, two)
	if want := []int{0, 2, 4, 6}; !slices.Equal(both[0].Channels, want) || len(both[1].Channels) != 2 {
		t.Errorf("left of both steps: %v, want channels %v of a and two of b", both, want)
	}
	smallest, _, err := Find(small).Shrink(two)
	if err != nil {
		t.Fatal(err)
	}
	atOnce, _, err := c.Shrink(both)
	if err != nil {
		t.Fatal(err)
	}
	var a, b strings.Builder
	if err := errors.Join(smallest.WriteText(&a), atOnce.WriteText(&b)); err != nil || a.String() != b.String() {
		t.Errorf("in steps\n%s\nat once\n%s\n%v", &a, &b, err)
	}
	c3 := Find(smallest)
	again, err := c3.Choose(Goal{Fraction: 0.5, Original: first}, c3.EqualScores())
	if err != nil || again != nil {
		t.Errorf("the same goal again leaves %v, %v; want everything", again, err)
	}
}

func TestListsThatDoNotFit(t *testing.T) {
	c := Find(twoLayers(t))
	for _, o := range []struct {
		kept []Kept
		want string
	}{
		{[]Kept{{"d.weight", 8, []int{1}}}, "no convolution d.weight with 8"},
		{[]Kept{{"a.weight", 9, []int{1}}}, "no convolution a.weight with 9"},
		{[]Kept{{"a.weight", 8, []int{1, 1}}}, "invalid list of kept channels [1 1]"},
		{[]Kept{{"a.weight", 8, []int{8}}}, "invalid list of kept channels [8]"},
		{[]Kept{{"a.weight", 8, nil}}, "invalid list of kept channels []"},
		{[]Kept{{"out.weight", 2, []int{1}}}, "output y"},
		{[]Kept{{"b.weight", 4, []int{1}}, {"c.weight", 4, []int{1, 2}}}, "channel 2 of c.weight is kept"},
	} {
		if _, _, err := c.Shrink(o.kept); err == nil || !strings.Contains(err.Error(), o.want) {
			t.Errorf("%v: error %v, want %q", o.kept, err, o.want)
		}
	}
}
