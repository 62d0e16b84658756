package setup

import (
	"testing"

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
		if got := OptimiserOf(&cfg.Train.Train); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.set, got, c.want)
		}
	}
}
