package spatial

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// In float64 a U-Net over four levels gives the same result if the levels are split
// into three or four shards, alone and together with longitudes.
func TestShardLevels(t *testing.T) {
	o := engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}}
	n := unet("U-Net of four levels", graph.Shape{2, 3, 4, 8, 16}, 1, true)
	one, err := n.run(t, Mesh{{Name: "level", Size: 1}}, comm.Parallel, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Mesh{{{Name: "level", Size: 3}}, {{Name: "level", Size: 4}}, {{Name: "level", Size: 4}, {Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "level", Size: 3}}} {
		many, err := n.run(t, m, comm.Parallel, o)
		if err != nil {
			t.Fatal(m, err)
		}
		if err := many.compare(one, 1e-7, 1e-7); err != nil { // stored as float32
			t.Errorf("%v: %v", m, err)
		}
	}
}
