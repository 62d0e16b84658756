package cluster_test

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// flat is a network whose links have no delay, so that only bandwidth counts.
func flat(t *testing.T, text string) cluster.Wiring {
	t.Helper()
	topology, err := cluster.Parse(text, cluster.Cable{Rate: fast})
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Wiring{Topology: topology, Alpha: alpha}
}

// A ring without other traffic takes the time of its closed form on every network.
func TestRingWithoutContention(t *testing.T) {
	for _, k := range []struct {
		text  string
		ranks int
	}{{"crossbar:16", 16}, {"ethernet:16", 16}, {"torus:4,4", 16}, {"torus:1,16", 16}, {"hx:2,2,2,2", 16}, {"hx:2,2,4,4", 64}, {"leafspine:16,16", 16}} {
		n := 4 * k.ranks * 1000
		got := run(t, k.ranks, cluster.Fluid{Wiring: flat(t, k.text)}, allReduce(n, comm.Ring)).Time()
		if want := closed[comm.Ring](k.ranks, n); got != want {
			t.Errorf("%s: %v, want %v", k.text, got, want)
		}
	}
}

// Neighbours on a torus are as near as on a crossbar of half the delay. Without the
// wrap, every piece that comes by takes the whole way back.
func TestRingOnTorusCrossbarAndMesh(t *testing.T) {
	const p, n = 8, 8 * 4 * 1000
	hop := cluster.Cable{Rate: fast, Delay: 400 * cluster.Nanosecond}
	half := cluster.Cable{Rate: fast, Delay: 200 * cluster.Nanosecond}
	torus, err := cluster.Torus(1, p, hop)
	if err != nil {
		t.Fatal(err)
	}
	crossbar, err := cluster.Crossbar(p, half)
	if err != nil {
		t.Fatal(err)
	}
	fluid := func(n *cluster.Topology) cluster.Network { return cluster.Fluid{Wiring: cluster.Wiring{Topology: n}} }
	step := n/p*beta + hop.Delay
	// A piece goes 14 steps; the one that starts there takes the way back twice.
	for name, k := range map[string]struct {
		network cluster.Network
		want    cluster.Time
	}{
		"torus":                    {fluid(torus), 14 * step},
		"crossbar":                 {fluid(crossbar), 14 * step},
		"mesh":                     {cluster.Fluid{Wiring: line(t, p, hop)}, 14*step + 2*6*hop.Delay},
		"torus, store and forward": {cluster.StoreAndForward{Wiring: cluster.Wiring{Topology: torus}}, 14 * step},
		"mesh, store and forward":  {cluster.StoreAndForward{Wiring: line(t, p, hop)}, (12 + 2*7) * step},
	} {
		if got := run(t, p, k.network, allReduce(n, comm.Ring)).Time(); got != k.want {
			t.Errorf("%s: %v, want %v", name, got, k.want)
		}
	}
}

// Ranks that stand along a cycle are all neighbours; in rows, the end of one and the
// start of the next are not.
func TestRingAwarePlacement(t *testing.T) {
	topology := parse(t, "torus:4,4")
	both, err := cluster.HamiltonianCycles(4, 4)
	if err != nil {
		t.Fatal(err)
	}
	const n = 16 * 4 * 10
	took := func(hosts []int) cluster.Time {
		wiring := cluster.Wiring{Topology: topology, Hosts: hosts}
		return run(t, 16, cluster.Fluid{Wiring: wiring}, allReduce(n, comm.Ring)).Time()
	}
	cycle, rows := took(both[0]), took(nil)
	if want := 30 * (n/16*beta + cluster.FastCable.Delay); cycle != want || took(both[1]) != want {
		t.Errorf("along the cycles: %v and %v, want %v", cycle, took(both[1]), want)
	}
	if rows <= cycle {
		t.Errorf("in rows %v, along a cycle %v", rows, cycle)
	}
}

// Four rings, in both directions along both cycles, do not share links: an
// all-reduce runs at half the bandwidth of a host's four links.
func TestTwoCycles(t *testing.T) {
	const rows, cols, p = 8, 4, 32
	const n = 4 * 4 * p * 100 // bytes
	wiring := flat(t, fmt.Sprintf("torus:%d,%d", rows, cols))
	both, err := cluster.HamiltonianCycles(rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	next, before := map[[2]int]int{}, map[[2]int]int{}
	for i, cycle := range both {
		for j, h := range cycle {
			next[[2]int{i, h}] = cycle[(j+1)%p]
			before[[2]int{i, cycle[(j+1)%p]}] = h
		}
	}
	piece := sized(n / 4 / p)
	got := run(t, p, cluster.Fluid{Wiring: wiring}, func(r *cluster.Rank) error {
		for range 2 * (p - 1) {
			var requests []comm.Request
			for i := range both {
				ahead, back := next[[2]int{i, r.Rank()}], before[[2]int{i, r.Rank()}]
				requests = append(requests, r.Recv(back, 2*i, piece), r.Recv(ahead, 2*i+1, piece),
					r.Send(ahead, 2*i, piece), r.Send(back, 2*i+1, piece))
			}
			if err := comm.WaitAll(requests...); err != nil {
				return err
			}
		}
		return nil
	}).Time()
	if want := 2*(p-1)*alpha + (p-1)*n/p/2*beta; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// Two jobs on boards of different columns do not slow each other's rings, although
// they use the same switches.
func TestSubMeshes(t *testing.T) {
	wiring := flat(t, "hx:2,2,4,2")
	const n = 16 * 4 * 1000
	// took is when the ranks of the jobs are done; columns of boards are even or odd.
	took := func(jobs int) cluster.Time {
		return run(t, 32, cluster.Fluid{Wiring: wiring}, func(r *cluster.Rank) error {
			job := r.Rank() / 4 % 2
			c, err := r.Split(job, r.Rank())
			if err != nil || job >= jobs {
				return err
			}
			return comm.AllReduce(c, sized(n), comm.Ring)
		}).Time()
	}
	if one, two := took(1), took(2); one != two {
		t.Errorf("one job takes %v, next to another one %v", one, two)
	}
}

// An all-to-all reaches the bandwidth of the cables that leave a column of boards,
// within a fifth. Inner cables carry less and are no limit.
func TestAllToAll(t *testing.T) {
	for _, k := range []struct{ a, b, x, y int }{{2, 2, 4, 4}, {1, 1, 8, 8}, {4, 4, 2, 2}} {
		wiring := flat(t, fmt.Sprintf("hx:%d,%d,%d,%d", k.a, k.b, k.x, k.y))
		wiring.Alpha = 0
		const bytes = 4000
		p := wiring.Topology.Hosts
		got := run(t, p, cluster.Fluid{Wiring: wiring}, func(r *cluster.Rank) error {
			var requests []comm.Request
			for d := 1; d < p; d++ {
				requests = append(requests, r.Recv((r.Rank()+d)%p, 0, sized(bytes)), r.Send((r.Rank()+d)%p, 0, sized(bytes)))
			}
			return comm.WaitAll(requests...)
		}).Time()
		column := p / k.x
		bound := cluster.Time(column*(p-column)*bytes/(2*k.a*k.y)) * beta
		middle := cluster.Time(p/2*(p/2)*bytes/(k.a*k.y*k.x)) * beta
		if got < max(bound, middle) || bound.Seconds() < 0.8*got.Seconds() {
			t.Errorf("%s: %v, the cables of a column allow %v, those in the middle %v", wiring.Topology.Name, got, bound, middle)
		}
	}
}
