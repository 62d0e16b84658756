package pipeline

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

func init() {
	engine.Backends = append(engine.Backends, engine.Backend{Name: "emulated", Purpose: "kernels of the GPU on the processor",
		Open: func(engine.Options) (backend.Backend, error) { return emulated.OpenLazy(1 << 28) }})
}

// On a device with memory of its own activations stay on the device. Kept, recomputed, by ranks and by groups of ranks: gradients
// are those of the processor, up to rounding, and both forms have the same bits.
func TestOnDevice(t *testing.T) {
	s, err := Chimera(2, 2, ChimeraOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stages := layered(t, 2)
	run := func(mesh string, o Options) outcome {
		var all outcome
		o.Mesh = parse(t, mesh)
		err := comm.Run(2*o.Mesh.Size(), comm.Parallel, func(c *comm.Comm) error {
			got, err := pipelined(t.Context(), c, s, stages, o, 3)
			if c.Rank() == 0 { // with copies of both stages
				all = got
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	gpu := engine.Options{Device: engine.Device{Backend: "emulated"}}
	want := run("", Options{})
	for _, mesh := range []string{"", "lat:2"} {
		kept := run(mesh, Options{Engine: gpu})
		if diff := run(mesh, Options{Engine: gpu, Recompute: true}).differs(kept); diff != "" {
			t.Errorf("mesh %q, recomputed: %s", mesh, diff)
		}
		if err := kept.isNear(want); err != nil {
			t.Errorf("mesh %q: %v", mesh, err)
		}
	}
}
