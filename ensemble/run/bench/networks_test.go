package bench

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// networks are networks for at least the given numbers of hosts: none, and those of package cluster. Those of the second
// kind have links that several messages of a step share.
var networks = []struct {
	name   string
	shared bool
	hosts  map[int]string
}{
	{"no topology", false, map[int]string{16: "", 64: "", 256: ""}},
	{"crossbar", false, map[int]string{16: "crossbar:16", 64: "crossbar:64", 256: "crossbar:256"}},
	{"ethernet", false, map[int]string{16: "ethernet:16", 64: "ethernet:64", 256: "ethernet:256"}},
	{"hx, 2×2 boards", false, map[int]string{16: "hx:2,2,2,2", 64: "hx:2,2,4,4", 256: "hx:2,2,8,8"}},
	{"hx, 4×4 boards", true, map[int]string{16: "hx:4,4,1,1", 64: "hx:4,4,2,2", 256: "hx:4,4,4,4"}},
	{"leafspine", true, map[int]string{16: "leafspine:16,8", 64: "leafspine:64,16", 256: "leafspine:256,32"}},
	{"fattree", true, map[int]string{16: "fattree:4", 64: "fattree:8", 256: "fattree:12"}},
	{"torus", true, map[int]string{16: "torus:4,4", 64: "torus:8,8", 256: "torus:16,16"}},
	{"dragonfly", true, map[int]string{16: "dragonfly:2,4,2", 64: "dragonfly:2,4,2", 256: "dragonfly:4,8,4"}},
}

// pricesOnNetworks compares the predicted step of the best mesh with the simulated one, for typical ranks and for ranks 20
// times as fast, as GPUs are. Prices leave out links that messages share, so no simulated step may be faster, and
// without such links the two agree.
func pricesOnNetworks(t *testing.T, numbers ...int) {
	const tolerance = 0.05
	for _, ranks := range numbers {
		g, err := Case{Model: BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 352, Width: 704}, Batch: min(16, ranks/4), Depth: 2, Periodic: true}.graph(true)
		if err != nil {
			t.Fatal(err)
		}
		for _, speed := range []float64{1, 20} {
			m := setup.TypicalMachine
			m.FLOPs, m.Bytes = speed*m.FLOPs, speed*m.Bytes
			fast, err := setup.FastestMesh(t.Context(), g, m, ranks, setup.Adam, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range networks {
				m := m
				if k.name == "ethernet" {
					m.InterNode = search.Link{Alpha: 20 * cluster.Microsecond, Rate: cluster.EthernetCable.Rate}
				}
				var network cluster.Network = cluster.LogGP{Latency: m.InterNode.Alpha, Rate: m.InterNode.Rate}
				if text := k.hosts[ranks]; text != "" {
					topology, err := cluster.Parse(text, cluster.Cable{Rate: m.InterNode.Rate})
					if err != nil {
						t.Fatal(err)
					}
					network = cluster.Fluid{Wiring: cluster.Wiring{Topology: topology, Alpha: m.InterNode.Alpha}}
				}
				price := stepOf(t, g, m, fast)
				simulated, err := search.Simulate(t.Context(), g, setup.Adam, fast, m, network)
				if err != nil {
					t.Fatal(err)
				}
				d := simulated.Step.Seconds()/price.Seconds() - 1
				t.Logf("%3d ranks, speed %2.0f, %-14s predicted %8.2f ms, simulated %8.2f ms (%+5.1f %%)", ranks, speed, k.name, 1e3*price.Seconds(), 1e3*simulated.Step.Seconds(), 100*d)
				if d < -tolerance || d > tolerance && !(k.shared && speed > 1) {
					t.Errorf("%d ranks, speed %g, %s, mesh %v: predicted %v, simulated %v", ranks, speed, k.name, fast, price, simulated.Step)
				}
			}
		}
	}
}

func TestPricesOnNetworks(t *testing.T) { pricesOnNetworks(t, 16) }
