package search

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/pass"
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

// Messages in transit at once share the link of their rank within a node and that of their node between nodes. A rank sends none to
// itself.
func TestTransfers(t *testing.T) {
	m := Machine{PerNode: 2, IntraNode: Link{cluster.Microsecond, 10_000_000_000}, InterNode: Link{5 * cluster.Microsecond, 1_000_000_000}}
	us := func(n float64) cluster.Time { return cluster.Time(n * float64(cluster.Microsecond)) }
	for _, c := range []struct {
		all  []Transfer
		time cluster.Time
		sent int64
	}{
		{nil, 0, 0},
		{[]Transfer{{0, 0, 1, 1000}}, 0, 0},
		{[]Transfer{{0, 0, 2, 10000}}, us(1 + 1), 10000},                         // to rank 1
		{[]Transfer{{1, 0, 4, 1000}}, us(5 + 2), 3000},                           // 0 on its node, 2 and 3 on another
		{[]Transfer{{0, 2, 1, 1000}, {1, 3, 1, 1000}}, us(5 + 2), 1000},          // one link
		{[]Transfer{{0, 2, 1, 1000}, {2, 0, 1, 1000}}, us(5 + 1), 1000},          // two links
		{[]Transfer{{0, 1, 1, 90000}, {0, 2, 1, 1000}}, us(1 + 9), 90000 + 1000}, // the slower of both
	} {
		if got, sent := m.Transfers(c.all); got != c.time || sent != c.sent {
			t.Errorf("%+v take %v and %d bytes, want %v and %d", c.all, got, sent, c.time, c.sent)
		}
	}
	if a, b := m.MessageTime(1, 2, 2, 1000), m.MessageTime(0, 1, 1, 10000); a != us(5+2) || b != us(1+1) {
		t.Errorf("two ranks of a node to another take %v, one within it %v", a, b)
	}
	// Two ranks double each other: α + βn, on a link that the two ranks of a node share.
	if got, sent := m.StridedSum(2, 2, 250); got != us(5+2) || sent != 1000 {
		t.Errorf("a sum over two nodes takes %v and %d bytes", got, sent)
	}
}

// Factors take longer the larger they are, and layers without factors take no time.
func TestFactorTimes(t *testing.T) {
	g, m := smallUNet(t, 32), fastLinks
	layers, times, err := m.FactorTimes(g, 600)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Factors(g, 600)
	if err != nil {
		t.Fatal(err)
	}
	var sum cluster.Time
	for i, l := range layers {
		if (times[i] > 0) != (l.Form != pass.NoFactors) || l.Param != want[i].Param || l.Form != want[i].Form {
			t.Errorf("%+v takes %v, want %+v", l, times[i], want[i])
		}
		sum += times[i]
	}
	plain, err := CostOf(t.Context(), g, m, Optimiser{State: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	with, err := CostWithFactors(t.Context(), g, m, Optimiser{State: 2}, nil, 600)
	if err != nil {
		t.Fatal(err)
	}
	if more := (with.Compute - plain.Compute).Seconds(); math.Abs(sum.Seconds()/more-1) > 0.1 { // the compiler fuses operations
		t.Errorf("factors take %v, the step with them %g s more", sum, more)
	}
}
