//go:build cgo && linux

package spatial

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	cuda "github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/emulated"
)

// onEmulated has backend emulated compute on devices of their own, which work late or at once, and exchange values by
// themselves if they are linked.
func onEmulated(t *testing.T, late, linked bool) {
	t.Helper()
	backends, links := engine.Backends, Links
	t.Cleanup(func() { engine.Backends, Links = backends, links })
	Links = slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return l.Name == "emulated" })
	engine.Backends = append([]engine.Backend{}, engine.Backend{Name: "emulated", Open: func(engine.Options) (backend.Backend, error) {
		if late {
			return cuda.OpenLate(1 << 28)
		}
		return cuda.Open(1 << 28)
	}})
	if linked {
		Links = append(Links, Link{"emulated", func(_ *comm.Comm, dev backend.Backend) (Devices, string, error) {
			d, why := emulated.Serve(dev)
			if d == nil {
				return nil, why, nil
			}
			return d, "", nil
		}})
	}
}

// On devices with memory of their own, one for each rank, a mesh gives what one rank gives, whether halos and sums are
// exchanged by the program or between the devices; where both store the same, the same bits.
func TestShardOnDevices(t *testing.T) {
	for _, n := range []network{unet("U-Net, periodic", graph.Shape{2, 2, 2, 12, 16}, 1, true), named(t, "MS-SSIM"), named(t, "members")} {
		for _, c := range []struct {
			precision         string
			forward, gradient float64
		}{{"f32", 1e-6, 1e-5}, {"bf16", 1e-2, 5e-2}} {
			if c.precision == "bf16" && n.name == "MS-SSIM" {
				continue // nothing of it is stored so
			}
			o := engine.Options{Backend: "emulated", Precision: c.precision}
			onEmulated(t, true, false)
			one, err := n.run(t, Mesh{{Name: "lon", Size: 1}}, comm.Free, o)
			if err != nil {
				t.Fatal(n.name, err)
			}
			for _, m := range []Mesh{{{Name: "data", Size: 2}}, {{Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}}} {
				if !n.fits(m) {
					continue
				}
				t.Run(fmt.Sprintf("%s in %s on %v", n.name, c.precision, m), func(t *testing.T) {
					run := func(late, linked bool) result {
						onEmulated(t, late, linked)
						r, err := n.run(t, m, comm.Free, o)
						if err != nil {
							t.Fatal(err)
						}
						if got := strings.HasPrefix(r.links, "emulated"); got != linked {
							t.Fatalf("linked %v: devices exchange values by %q", linked, r.links)
						}
						if err := r.compare(one, c.forward, c.gradient); err != nil {
							t.Errorf("late %v, linked %v: %v", late, linked, err)
						}
						return r
					}
					linked := run(true, true)
					if m.Size() > 2 {
						return
					}
					other := run(m[0].Name == "data", m[0].Name != "data") // where nothing but gradients is exchanged, also by the program
					if m[0].Name == "data" {
						other.links = linked.links
					}
					if !reflect.DeepEqual(linked, other) {
						t.Error("other bits")
					}
				})
			}
		}
	}
}
