package unet3d

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestBiasParameterCounts: the numbers of parameters are those of the published code; on one level,
// without the parts of filters that see padding only.
func TestBiasParameterCounts(t *testing.T) {
	for _, c := range []struct{ stages, base, depth, want int }{
		{0, 32, 2, 289703}, {1, 32, 2, 990823}, {2, 32, 2, 4679399}, {3, 32, 2, 19429351},
		{0, 32, 1, 97319}, {1, 32, 1, 429799}, {2, 32, 1, 2053991}, {3, 32, 1, 8546407},
		{0, 8, 2, 20591}, {1, 8, 2, 64543}, {2, 8, 2, 295487}, {3, 8, 2, 1218175},
	} {
		got := count(t, func(b *graph.Builder) {
			BiasUNet{Base: c.base, Stages: c.stages}.Build(b, b.Input("x", graph.Shape{1, 14, c.depth, 16, 24}))
		})
		if got != c.want {
			t.Errorf("stages %d, base %d, depth %d: %d parameters, want %d", c.stages, c.base, c.depth, got, c.want)
		}
	}
}

// TestLocalParameterCounts: the numbers of parameters of the published layers, whose single scale
// is that of one level.
func TestLocalParameterCounts(t *testing.T) {
	for _, c := range []struct{ rows, size, want int }{
		{360, 1, 2073601}, {360, 3, 16588801}, {361, 1, 2079361}, {361, 3, 16634881},
	} {
		got := count(t, func(b *graph.Builder) {
			LocallyConnected{Size: c.size, Periodic: true}.Build(b, "local", b.Input("x", graph.Shape{1, 7, 1, c.rows, 720}))
		})
		if got != c.want {
			t.Errorf("%d×%d on %d rows: %d parameters, want %d", c.size, c.size, c.rows, got, c.want)
		}
	}
}

// TestBiasStartsAtZero: an untrained correction leaves the forecast unchanged, on grids of any
// size.
func TestBiasStartsAtZero(t *testing.T) {
	for _, c := range []struct {
		stages int
		grid   [2]int
	}{{0, [2]int{5, 7}}, {2, [2]int{9, 14}}, {3, [2]int{11, 12}}} {
		b := graph.New(3)
		x := b.Input("x", graph.Shape{2, 3, 2, c.grid[0], c.grid[1]})
		y := BiasUNet{Out: 3, Base: 2, Stages: c.stages, Periodic: true}.Build(b, x)
		local, _ := LocallyConnected{Size: 3, Out: 2, Periodic: true}.Build(b, "local", op.Add(b, y, x))
		b.Output("fields", y)
		b.Output("local", local)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if want := (graph.Shape{2, 2, 2, c.grid[0], c.grid[1]}); !local.Shape().Equal(want) {
			t.Errorf("result %v, want %v", local.Shape(), want)
		}
		p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: engine.Infer})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Input("x") {
			p.Input("x")[i] = float32(math.Sin(float64(i)))
		}
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"fields", "local"} {
			for i, v := range p.Output(name) {
				if v != 0 {
					t.Fatalf("stages %d: %s[%d] = %g before training", c.stages, name, i, v)
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRoughnessOracle: the published penalty on one channel and 2×3 points, computed by hand, with
// and without periodic longitudes.
func TestRoughnessOracle(t *testing.T) {
	for _, c := range []struct {
		periodic bool
		want     float64
	}{
		{true, (10./3 + 3 + 4./3 + 1) / 4},
		{false, (10./3 + 9./4 + 4./3 + 5./4) / 4}, // in longitude 1, 2, 2, 4 of W and 1, 1, 2, 1 of b
	} {
		b := graph.New(1)
		_, r := LocallyConnected{Periodic: c.periodic}.Build(b, "local", b.Input("x", graph.Shape{1, 1, 1, 2, 3}))
		b.Loss(r)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		got, err := reftest.Eval(g, map[string][]float64{"x": make([]float64, 6),
			"local.weight": {1, 2, 4, 3, 5, 9}, "local.bias": {0, 1, 0, 2, 0, 1}, "local.scale": {1}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v := got[r.ID()][0]; math.Abs(v-c.want) > 1e-12 {
			t.Errorf("periodic %v: roughness %.10f, want %.10f", c.periodic, v, c.want)
		}
	}
}

// TestLocalIsOwnSums: the layer computes the sum over a window with the weights of each point, on a
// periodic grid.
func TestLocalIsOwnSums(t *testing.T) {
	const rows, columns, channels = 4, 5, 2
	b := graph.New(1)
	y, _ := LocallyConnected{Size: 3, Periodic: true}.Build(b, "local", b.Input("x", graph.Shape{1, channels, 1, rows, columns}))
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	const points = rows * columns
	x, w, bias := make([]float64, channels*points), make([]float64, 9*channels*points), make([]float64, points)
	for i, v := range [][]float64{x, w, bias} {
		for j := range v {
			v[j] = math.Sin(float64(7*i+j) * 1.3)
		}
	}
	got, err := reftest.Eval(g, map[string][]float64{"x": x, "local.weight": w, "local.bias": bias, "local.scale": {0.5}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		for j := range columns {
			want := bias[i*columns+j]
			for c := range channels {
				for di := -1; di <= 1; di++ {
					for dj := -1; dj <= 1; dj++ {
						if i+di < 0 || i+di >= rows {
							continue
						}
						tap := (c*9+3*(di+1)+dj+1)*points + i*columns + j
						want += w[tap] * x[c*points+(i+di)*columns+(j+dj+columns)%columns]
					}
				}
			}
			if v := got[y.ID()][i*columns+j]; math.Abs(v-want/2) > 1e-12 {
				t.Errorf("point %d,%d: %g, want %g", i, j, v, want/2)
			}
		}
	}
}

func TestBiasRefusals(t *testing.T) {
	for i, build := range []func(*graph.Builder, graph.Value){
		func(b *graph.Builder, x graph.Value) { BiasUNet{Stages: 4}.Build(b, x) },
		func(b *graph.Builder, x graph.Value) { BiasUNet{Base: -1}.Build(b, x) },
		func(b *graph.Builder, x graph.Value) { LocallyConnected{Size: 2}.Build(b, "local", x) },
	} {
		b := graph.New(1)
		build(b, b.Input("x", graph.Shape{1, 2, 1, 8, 8}))
		if _, err := b.Build(); !errors.Is(err, graph.ErrShape) {
			t.Errorf("%s: %v, want a shape error", fmt.Sprint("case ", i), err)
		}
	}
}
