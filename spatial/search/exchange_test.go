package search

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Exchanges of units are priced as the virtual cluster plays them: an all-reduce of their first ranks, then a broadcast in each unit.
func TestUnitsExchangeIsPlayed(t *testing.T) {
	const values = 1 << 18
	within, between := Link{cluster.Microsecond, 20_000_000_000}, Link{5 * cluster.Microsecond, 2_000_000_000}
	for _, c := range []struct{ units, ranks, perNode int }{{4, 1, 1}, {4, 2, 2}, {4, 2, 1}, {8, 4, 4}, {2, 4, 8}, {4, 3, 3}} {
		m := Machine{PerNode: c.perNode, IntraNode: within, InterNode: between}
		network := cluster.Nodes{PerNode: c.perNode, IntraNode: cluster.LogGP{Latency: within.Alpha, Rate: within.Rate}, InterNode: cluster.LogGP{Latency: between.Alpha, Rate: between.Rate}}
		var sent int64
		result, err := cluster.Run(c.units*c.ranks, network, cluster.Options{}, func(r *cluster.Rank) error {
			var own, first []int
			for k := range c.ranks {
				own = append(own, r.Rank()/c.ranks*c.ranks+k)
			}
			for k := range c.units {
				first = append(first, k*c.ranks)
			}
			unit, err := r.Group(own)
			if err != nil {
				return err
			}
			if unit.Rank() > 0 {
				first = nil
			}
			leaders, err := r.Group(first)
			if err != nil {
				return err
			}
			before := r.Traffic().Bytes
			x := make([]comm.SizeOnly, values)
			if leaders != nil {
				if err := comm.AllReduce(leaders, x, comm.Auto); err != nil {
					return err
				}
			}
			err = comm.Broadcast(unit, 0, x)
			if r.Rank() == 0 {
				sent = r.Traffic().Bytes - before
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		got, bytes := m.UnitsExchange(c.units, c.ranks, c.units, values)
		if played := result.Time().Seconds(); math.Abs(got.Seconds()/played-1) > 0.1 || math.Abs(float64(bytes)/float64(sent)-1) > 0.01 {
			t.Errorf("%d units of %d ranks, %d a node: %v and %d bytes, played %v and %d", c.units, c.ranks, c.perNode, got, bytes, result.Time(), sent)
		}
	}
}

// A step with Kronecker factors computes more and, on several ranks, sums them; the factors of a larger limit contain those of a
// smaller one.
func TestCostWithFactors(t *testing.T) {
	for _, text := range []string{"", "data:4", "lat:2 lon:2"} {
		mesh, g := parseMesh(t, text), smallUNet(t, 32)
		plain, err := CostOf(t.Context(), g, fastLinks, Optimiser{State: 2}, mesh)
		if err != nil {
			t.Fatal(err)
		}
		before := plain.Estimate
		for _, side := range []int{40, 600} {
			p, err := CostWithFactors(t.Context(), g, fastLinks, Optimiser{State: 2}, mesh, side)
			if err != nil {
				t.Fatal(err)
			}
			if p.Compute <= before.Compute || p.SumBytes < before.SumBytes || (p.SumBytes > plain.SumBytes) != (mesh.Size() > 1) {
				t.Errorf("mesh %q, sides of at most %d: %+v after %+v", text, side, p.Estimate, before)
			}
			before = p.Estimate
		}
	}
}
