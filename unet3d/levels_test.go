package unet3d

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// TestLevelParameterCounts: numbers of parameters of 3×3×3 layers from 6 to 8 channels on 5 levels,
// counted by hand.
func TestLevelParameterCounts(t *testing.T) {
	for _, c := range []struct {
		levels Levels
		want   int
	}{
		{SharedLevels, 8*6*27 + 8},
		{FullLevels, 5 * (8*6*27 + 8)},
		{AffineLevels, 8*6*27 + 8*5 + 8},
		{SeparableLevels, 8*6*9 + 8 + 5*(8*8*3+8)},
	} {
		got := count(t, func(b *graph.Builder) {
			LevelConv{Levels: c.levels, Size: [3]int{3, 3, 3}}.Build(b, "layer", b.Input("x", graph.Shape{2, 6, 5, 4, 7}), 8)
		})
		if got != c.want {
			t.Errorf("%q: %d parameters, want %d", c.levels, got, c.want)
		}
	}
}

// TestLevelsAreNotExchangeable: filters of 3×1×1 on three levels of one column: each output level
// reads its own level and the neighbours, and at the ends its own level twice.
func TestLevelsAreNotExchangeable(t *testing.T) {
	x := []float64{1, 10, 100}
	filter := []float64{2, 3, 5}
	own := func(d int) []float64 { return []float64{2 + float64(d), 3, 5} }
	for _, c := range []struct {
		levels Levels
		feed   map[string][]float64
		want   []float64
	}{
		{SharedLevels, map[string][]float64{"layer.weight": filter}, []float64{3*1 + 5*10, 2*1 + 3*10 + 5*100, 2*10 + 3*100}},
		{AffineLevels, map[string][]float64{"layer.weight": filter, "layer.factor": {1, -1, 2}},
			[]float64{2*1 + 3*1 + 5*10, -(2*1 + 3*10 + 5*100), 2 * (2*10 + 3*100 + 5*100)}},
		{FullLevels, map[string][]float64{"layer.0.weight": own(0), "layer.1.weight": own(1), "layer.2.weight": own(2)},
			[]float64{2*1 + 3*1 + 5*10, 3*1 + 3*10 + 5*100, 4*10 + 3*100 + 5*100}},
		{SeparableLevels, map[string][]float64{"layer.wide.weight": {0.5}, "layer.high.0.weight": own(0), "layer.high.1.weight": own(1), "layer.high.2.weight": own(2)},
			[]float64{(2*1 + 3*1 + 5*10) / 2., (3*1 + 3*10 + 5*100) / 2., (4*10 + 3*100 + 5*100) / 2.}},
	} {
		b := graph.New(1)
		y := LevelConv{Levels: c.levels, Size: [3]int{3, 1, 1}}.Build(b, "layer", b.Input("x", graph.Shape{1, 1, 3, 1, 1}), 1)
		b.Output("y", y)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		c.feed["x"] = x
		got, err := reftest.Eval(g, c.feed, 0)
		if err != nil {
			t.Fatal(err)
		}
		for d, want := range c.want {
			if v := got[y.ID()][d]; math.Abs(v-want) > 1e-12 {
				t.Errorf("%q level %d: %g, want %g", c.levels, d, v, want)
			}
		}
	}
}

// TestUNetOfLevels: all layers of a U-Net except the last are of the selected kind. Counted by hand
// for base 1 and one stage, on two levels, from 3 channels to 2, 2, 4 and 2.
func TestUNetOfLevels(t *testing.T) {
	layers := [][2]int{{3, 2}, {2, 2}, {5, 4}, {4, 2}}
	last := 27*2 + 1
	for _, c := range []struct {
		levels Levels
		of     func(in, out int) int
	}{
		{SharedLevels, func(in, out int) int { return 27*in*out + out }},
		{FullLevels, func(in, out int) int { return 2 * (27*in*out + out) }},
		{AffineLevels, func(in, out int) int { return 27*in*out + 2*out + out }},
		{SeparableLevels, func(in, out int) int { return 9*in*out + out + 2*(3*out*out+out) }},
	} {
		want := last
		for _, l := range layers {
			want += c.of(l[0], l[1])
		}
		got := count(t, func(b *graph.Builder) {
			UNet{Base: 1, Stages: 1, Levels: c.levels}.Build(b, b.Input("x", graph.Shape{1, 3, 2, 4, 6}))
		})
		if got != want {
			t.Errorf("%q: %d parameters, want %d", c.levels, got, want)
		}
	}
}
