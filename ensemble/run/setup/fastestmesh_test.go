package setup

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// Plans have the moments of an optimiser, and a moving average apart from them, because only moments are sharded.
func TestOptimiserOf(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want search.Optimiser
	}{
		{nil, search.Optimiser{State: 2}},
		{[]string{"train.optimizer=lars"}, search.Optimiser{State: 1}},
		{[]string{"train.ema=0.9", "train.shard_optimizer=true"}, search.Optimiser{State: 2, Average: true, Sharded: true}},
	} {
		cfg := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, c.set...)
		if got, err := OptimiserOf(&cfg.Train.Train, nil); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.set, got, err, c.want)
		}
	}
}

// The memory of K-FAC grows with the largest side of its factors, and with the two former factors of adaptive intervals.
func TestCurvature(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, 4, 2, 8, 8})
	y := op.Conv3D(b, x, b.Param("w", graph.Shape{6, 4, 3, 3, 3}, graph.HeNormal(27)), op.Conv{Pad: op.SameGlobal(3, 3, 3)})
	b.Loss(op.L1(b, y, b.Input("target", y.Shape())))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	// Averages of G and A (triangles), inverses, and two matrices of the filter; 4 bytes each.
	const triangles, inverses, filter = 6*7/2 + 108*109/2, 6*6 + 108*108, 6 * 108
	const small = 4*5/2 + 6*7/2 + 4*4 + 6*6 + 2*filter // factors of the channels
	for _, c := range []struct {
		set  []string
		want int64
	}{
		{[]string{"train.kfac.max_side=200"}, 4 * (triangles + inverses + 2*filter)},
		{[]string{"train.kfac.max_side=200", "train.kfac.adaptive=true"}, 4 * (3*triangles + inverses + 2*filter)},
		{[]string{"train.kfac.max_side=100"}, 4 * small},
		{[]string{"train.kfac.max_side=2"}, 0},
	} {
		cfg := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, append(c.set, "train.optimizer=kfac")...)
		if got, err := OptimiserOf(&cfg.Train.Train, g); err != nil || got.Curvature != c.want {
			t.Errorf("%q: %d bytes, %v, want %d", c.set, got.Curvature, err, c.want)
		}
	}
}
