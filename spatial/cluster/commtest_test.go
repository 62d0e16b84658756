package cluster_test

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// networks returns a network of each kind, for up to 8 ranks.
func networks(t *testing.T) map[string]cluster.Network {
	t.Helper()
	wiring := cluster.Wiring{Topology: parse(t, "hx:2,2,2,2"), Alpha: cluster.Microsecond}
	return map[string]cluster.Network{
		"alpha-beta":        cluster.AlphaBeta{Alpha: cluster.Microsecond, Rate: fast},
		"LogGP":             cluster.LogGP{Latency: cluster.Microsecond, Overhead: cluster.Microsecond, Gap: 2 * cluster.Microsecond, Rate: fast},
		"store and forward": cluster.StoreAndForward{Wiring: wiring, Packet: 1500},
		"fluid":             cluster.Fluid{Wiring: wiring},
	}
}

const fast = 12_500_000_000 // bytes a second: 0.08 ns a byte

func parse(t *testing.T, text string) *cluster.Topology {
	t.Helper()
	topology, err := cluster.Parse(text, cluster.Cable{})
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// The conformance suite of transports passes on every kind of network.
func TestPrograms(t *testing.T) {
	for name, network := range networks(t) {
		for _, p := range commtest.Programs {
			t.Run(fmt.Sprintf("%s/%s", name, p.Name), func(t *testing.T) {
				for _, n := range []int{1, 2, 3, 5, 8} {
					if _, err := cluster.Run(n, network, cluster.Options{}, func(r *cluster.Rank) error { return p.Run(r.Comm) }); err != nil {
						t.Fatalf("%d ranks: %v", n, err)
					}
				}
			})
		}
	}
}
