//go:build cgo && linux

package spatial

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// On devices with memory of their own, one for each rank, a mesh gives what one rank gives:
// halos and sums are exchanged by the program.
func TestShardOnDevices(t *testing.T) {
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = append(slices.Clone(before), engine.Backend{Name: "emulated",
		Open: func(engine.Options) (backend.Backend, error) { return emulated.OpenLate(1 << 28) }})
	for _, n := range []network{unet("U-Net, periodic", graph.Shape{2, 2, 2, 12, 16}, 1, true), named(t, "MS-SSIM"), named(t, "members")} {
		for _, c := range []struct {
			precision         string
			forward, gradient float64
		}{{"f32", 1e-6, 1e-5}, {"bf16", 1e-2, 5e-2}} {
			o := engine.Options{Backend: "emulated", Precision: c.precision}
			one, err := n.run(t, Mesh{{Name: "lon", Size: 1}}, comm.Free, o)
			if err != nil {
				t.Fatal(n.name, err)
			}
			for _, m := range []Mesh{{{Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}}} {
				if !n.fits(m) {
					continue
				}
				t.Run(fmt.Sprintf("%s in %s on %v", n.name, c.precision, m), func(t *testing.T) {
					many, err := n.run(t, m, comm.Free, o)
					if err != nil {
						t.Fatal(err)
					}
					if err := many.compare(one, c.forward, c.gradient); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
