package cluster_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

const (
	alpha = 5 * cluster.Microsecond
	beta  = 80 * cluster.Picosecond // a byte, at the rate fast
)

// run runs a program, which must not fail.
func run(t *testing.T, ranks int, n cluster.Network, f func(*cluster.Rank) error) *cluster.Result {
	t.Helper()
	result, err := cluster.Run(ranks, n, cluster.Options{Trace: true}, f)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// sized returns a message of the given size, a multiple of 4.
func sized(bytes int) []comm.SizeOnly { return make([]comm.SizeOnly, bytes/4) }

func allReduce(bytes int, a comm.Algorithm) func(*cluster.Rank) error {
	return func(r *cluster.Rank) error { return comm.AllReduce(r.Comm, sized(bytes), a) }
}

// log2 returns the logarithm of a power of two.
func log2(p int) int { return int(math.Round(math.Log2(float64(p)))) }

// closed holds closed forms of the times of collectives for P = 2^q ranks and n
// bytes, a multiple of 4P (Thakur, Rabenseifner and Gropp 2005,
// doi:10.1177/1094342005051521).
var closed = map[comm.Algorithm]func(p, n int) cluster.Time{
	comm.Ring: func(p, n int) cluster.Time {
		return cluster.Time(2*(p-1))*alpha + cluster.Time(2*(p-1)*n/p)*beta
	},
	comm.Doubling: func(p, n int) cluster.Time {
		return cluster.Time(log2(p)) * (alpha + cluster.Time(n)*beta)
	},
	comm.Halving: func(p, n int) cluster.Time {
		return cluster.Time(2*log2(p))*alpha + cluster.Time(2*(p-1)*n/p)*beta
	},
}

// Simulated collectives take the time of their closed forms, to the picosecond.
func TestAllReduceClosedForms(t *testing.T) {
	network := cluster.AlphaBeta{Alpha: alpha, Rate: fast}
	for _, k := range []struct {
		ranks       int
		long, short map[comm.Algorithm]float64 // of 68,570,756 B in ms, of 4,096 B in µs
		breakEven   int                        // bytes above which the ring beats doubling
	}{
		{4, times(8.258491, 10.981321, 8.248491), times(30.492, 10.655, 20.492), 500_000},
		{8, times(9.669906, 16.471981, 9.629906), times(70.573, 15.983, 30.573), 550_000},
		{16, times(10.435613, 21.962642, 10.325613), times(150.614, 21.311, 40.614), 764_706},
		{32, times(10.938467, 27.453302, 10.678467), times(310.635, 26.638, 50.635), 1_163_265},
	} {
		unit := 4 * k.ranks
		pad := func(n int) int { return (n + unit - 1) / unit * unit }
		for a, form := range closed {
			for _, n := range []int{4096, pad(68_570_756)} {
				if got, want := run(t, k.ranks, network, allReduce(n, a)).Time(), form(k.ranks, n); got != want {
					t.Errorf("%v of %d bytes on %d ranks: %v, want %v", a, n, k.ranks, got, want)
				}
			}
			if got := form(k.ranks, 4096).Seconds() * 1e6; math.Abs(got-k.short[a]) > 6e-4 {
				t.Errorf("%v of 4096 bytes on %d ranks: %v µs, want %v", a, k.ranks, got, k.short[a])
			}
			// The table is of the unpadded size: a step differs by at most one
			// value, 0.32 ns, and the table is rounded to 1 ns.
			got := run(t, k.ranks, network, allReduce(68_570_756, a)).Time().Seconds() * 1e3
			if slack := float64(2*k.ranks)*0.32e-6 + 6e-7; math.Abs(got-k.long[a]) > slack {
				t.Errorf("%v on %d ranks: %v ms, want %v ± %v", a, k.ranks, got, k.long[a], slack)
			}
		}
		for _, n := range []int{k.breakEven/unit*unit - unit, pad(k.breakEven) + unit} {
			ring := run(t, k.ranks, network, allReduce(n, comm.Ring)).Time()
			doubling := run(t, k.ranks, network, allReduce(n, comm.Doubling)).Time()
			if (ring < doubling) != (n > k.breakEven) {
				t.Errorf("%d bytes on %d ranks: ring %v, doubling %v, equal at %d bytes", n, k.ranks, ring, doubling, k.breakEven)
			}
		}
	}
}

func times(ring, doubling, halving float64) map[comm.Algorithm]float64 {
	return map[comm.Algorithm]float64{comm.Ring: ring, comm.Doubling: doubling, comm.Halving: halving}
}

func TestCollectiveClosedForms(t *testing.T) {
	const n = 8 * 1024
	network := cluster.AlphaBeta{Alpha: alpha, Rate: fast}
	for _, k := range []struct {
		name string
		f    func(c *comm.Comm) error
		want func(p cluster.Time) cluster.Time
	}{
		{"broadcast of 1 MiB", func(c *comm.Comm) error { return comm.Broadcast(c, 1, sized(1<<20)) },
			func(p cluster.Time) cluster.Time { return cluster.Time(log2(int(p))) * (alpha + beta<<20) }},
		{"reduce-scatter", func(c *comm.Comm) error {
			x := sized(n)
			_, err := comm.ReduceScatterV(c, x, comm.SplitEvenly(len(x), c.Size()), comm.Ring)
			return err
		}, func(p cluster.Time) cluster.Time { return (p-1)*alpha + (p-1)*n/p*beta }},
		{"all-gather", func(c *comm.Comm) error { _, err := comm.AllGather(c, sized(n/c.Size())); return err },
			func(p cluster.Time) cluster.Time { return (p-1)*alpha + (p-1)*n/p*beta }},
		{"all-to-all", func(c *comm.Comm) error {
			pieces := make([][]comm.SizeOnly, c.Size())
			for i := range pieces {
				pieces[i] = sized(n / c.Size())
			}
			return comm.AllToAll(c, pieces, pieces)
		}, func(p cluster.Time) cluster.Time { return (p - 1) * (alpha + n/p*beta) }},
		{"barrier", comm.Barrier,
			func(p cluster.Time) cluster.Time { return cluster.Time(log2(int(p))) * (alpha + beta) }},
	} {
		for _, p := range []int{2, 4, 8, 16, 32} {
			got := run(t, p, network, func(r *cluster.Rank) error { return k.f(r.Comm) }).Time()
			if want := k.want(cluster.Time(p)); got != want {
				t.Errorf("%s on %d ranks: %v, want %v", k.name, p, got, want)
			}
		}
	}
	got := run(t, 8, network, func(r *cluster.Rank) error { return comm.Broadcast(r.Comm, 0, sized(1<<20)) }).Time()
	if ms := got.Seconds() * 1e3; math.Abs(ms-0.266658) > 5e-7 {
		t.Errorf("broadcast of 1 MiB to 8 ranks: %v ms, want 0.266658", ms)
	}
}

// A rank sends one message at a time and receives one at a time.
func TestAlphaBetaPorts(t *testing.T) {
	network := cluster.AlphaBeta{Alpha: alpha, Rate: fast}
	one := alpha + 4000*beta
	gather := run(t, 4, network, func(r *cluster.Rank) error {
		if r.Rank() > 0 {
			return r.Send(0, 0, sized(4000)).Wait()
		}
		return comm.WaitAll(r.Recv(1, 0, sized(4000)), r.Recv(2, 0, sized(4000)), r.Recv(3, 0, sized(4000)))
	})
	scatter := run(t, 4, network, func(r *cluster.Rank) error {
		if r.Rank() > 0 {
			return r.Recv(0, 0, sized(4000)).Wait()
		}
		return comm.WaitAll(r.Send(1, 0, sized(4000)), r.Send(2, 0, sized(4000)), r.Send(3, 0, sized(4000)))
	})
	for name, got := range map[string][]cluster.Time{"gather": gather.End, "scatter": scatter.End} {
		if want := []cluster.Time{3 * one, one, 2 * one, 3 * one}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// oneMessage returns the time of a message of the given size between two ranks.
func oneMessage(t *testing.T, n cluster.Network, ranks, from, to, bytes int) cluster.Time {
	t.Helper()
	return run(t, ranks, n, func(r *cluster.Rank) error {
		x := make([]byte, bytes)
		switch r.Rank() {
		case from:
			return r.Send(to, 0, x).Wait()
		case to:
			return r.Recv(from, 0, x).Wait()
		}
		return nil
	}).Time()
}

func TestLogGP(t *testing.T) {
	network := cluster.LogGP{Latency: 2 * cluster.Microsecond, Overhead: cluster.Microsecond, Gap: 3 * cluster.Microsecond, Rate: fast}
	for bytes, want := range map[int]cluster.Time{1: 4_000_000, 1024: 4_081_840, 1 << 20: 87_886_000} {
		if got := oneMessage(t, network, 2, 0, 1, bytes); got != want {
			t.Errorf("%d bytes: %v, want %v", bytes, got, want)
		}
	}
	// The second message starts after the gap, or after the bytes of the first.
	for bytes, start := range map[int]cluster.Time{1: 3_000_000, 1 << 20: 1_000_000 + (1<<20-1)*beta} {
		result := run(t, 2, network, func(r *cluster.Rank) error {
			x, y := make([]byte, bytes), make([]byte, bytes)
			if r.Rank() == 0 {
				return comm.WaitAll(r.Send(1, 0, x), r.Send(1, 1, y))
			}
			return comm.WaitAll(r.Recv(0, 0, x), r.Recv(0, 1, y))
		})
		if got, want := result.Time(), start+4_000_000+cluster.Time(bytes-1)*beta; got != want {
			t.Errorf("two of %d bytes: %v, want %v", bytes, got, want)
		}
	}
	// A message to itself does not touch the network.
	self := run(t, 1, network, func(r *cluster.Rank) error {
		in, out := r.Recv(0, 0, make([]byte, 9)), r.Send(0, 0, make([]byte, 9))
		return comm.WaitAll(in, out)
	})
	if self.Time() != 0 {
		t.Errorf("a message to itself takes %v", self.Time())
	}
	// Overheads occupy the rank; the flight of a message does not.
	result := run(t, 2, network, func(r *cluster.Rank) error {
		x := make([]byte, 1)
		if r.Rank() == 0 {
			s := r.Send(1, 0, x)
			if r.Now() != cluster.Microsecond {
				return fmt.Errorf("sending took %v", r.Now())
			}
			return s.Wait()
		}
		s := r.Recv(0, 0, x)
		r.Compute(10 * cluster.Microsecond)
		return s.Wait()
	})
	if want := 11 * cluster.Microsecond; result.End[0] != cluster.Microsecond || result.End[1] != want {
		t.Errorf("ends %v, want 1 µs and %v", result.End, want)
	}
}

// line is a row of hosts joined to their neighbours.
func line(t *testing.T, hosts int, c cluster.Cable) cluster.Wiring {
	t.Helper()
	topology, err := cluster.HammingMesh(1, hosts, 1, 1, c)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Wiring{Topology: topology}
}

func TestOneMessageOverLinks(t *testing.T) {
	const m = 6000
	cable := cluster.Cable{Rate: fast, Delay: 300 * cluster.Nanosecond}
	wiring := line(t, 6, cable)
	wiring.Alpha = alpha
	for h := 1; h <= 5; h++ {
		hops := cluster.Time(h)
		for _, k := range []struct {
			name    string
			network cluster.Network
			want    cluster.Time
		}{
			{"one packet", cluster.StoreAndForward{Wiring: wiring}, alpha + hops*(cable.Delay+m*beta)},
			{"four packets", cluster.StoreAndForward{Wiring: wiring, Packet: m / 4}, alpha + hops*cable.Delay + (hops+3)*m/4*beta},
			{"fluid", cluster.Fluid{Wiring: wiring}, alpha + hops*cable.Delay + m*beta},
		} {
			if got := oneMessage(t, k.network, 6, 0, h, m); got != k.want {
				t.Errorf("%s over %d links: %v, want %v", k.name, h, got, k.want)
			}
		}
	}
}

// A packet queues behind those that reached the link before it.
func TestQueue(t *testing.T) {
	const m = 4000
	cable := cluster.Cable{Rate: fast, Delay: cluster.Microsecond}
	result := run(t, 3, cluster.StoreAndForward{Wiring: line(t, 3, cable)}, func(r *cluster.Rank) error {
		switch r.Rank() {
		case 0:
			return r.Send(2, 0, sized(m)).Wait()
		case 1:
			r.Compute(cluster.Microsecond) // and be there before the other one
			return r.Send(2, 0, sized(10*m)).Wait()
		}
		if err := r.Recv(1, 0, sized(10*m)).Wait(); err != nil {
			return err
		}
		return r.Recv(0, 0, sized(m)).Wait()
	})
	if want := cluster.Microsecond + 11*m*beta + cable.Delay; result.Time() != want {
		t.Errorf("%v, want %v", result.Time(), want)
	}
}

// Packets of messages from one host take turns.
func TestPacketsTakeTurns(t *testing.T) {
	const packet = 1000
	network := cluster.StoreAndForward{Wiring: line(t, 2, cluster.Cable{Rate: fast}), Packet: packet}
	result := run(t, 2, network, func(r *cluster.Rank) error {
		if r.Rank() == 0 {
			return comm.WaitAll(r.Send(1, 0, sized(10*packet)), r.Send(1, 1, sized(2*packet)))
		}
		if err := r.Recv(0, 1, sized(2*packet)).Wait(); err != nil {
			return err
		}
		if want := 4 * packet * beta; r.Now() != want {
			return fmt.Errorf("the short message came at %v, want %v", r.Now(), want)
		}
		return r.Recv(0, 0, sized(10*packet)).Wait()
	})
	if want := 12 * packet * beta; result.Time() != want {
		t.Errorf("%v, want %v", result.Time(), want)
	}
}

// Times are rounded up to whole picoseconds.
func TestRounding(t *testing.T) {
	for bytes, want := range map[int]cluster.Time{0: 0, 1: 334, 2: 667, 3: 1000, 3_000_000_000: cluster.Second} {
		got := run(t, 2, cluster.AlphaBeta{Rate: 3_000_000_000}, func(r *cluster.Rank) error {
			x := make([]byte, min(bytes, 3))
			switch {
			case bytes > 3 && r.Rank() == 0:
				return r.Send(1, 0, sized(bytes)).Wait()
			case bytes > 3:
				return r.Recv(0, 0, sized(bytes)).Wait()
			case r.Rank() == 0:
				return r.Send(1, 0, x).Wait()
			}
			return r.Recv(0, 0, x).Wait()
		}).Time()
		if got != want {
			t.Errorf("%d bytes at 3 GB/s: %v, want %v", bytes, got, want)
		}
	}
}

// flows runs messages that start together, each from its own rank or tag, and
// returns their arrival times.
func flows(t *testing.T, topology *cluster.Topology, messages [][3]int) []cluster.Time {
	t.Helper()
	network := cluster.Fluid{Wiring: cluster.Wiring{Topology: topology}}
	result := run(t, topology.Hosts, network, func(r *cluster.Rank) error {
		var requests []comm.Request
		for tag, m := range messages {
			if m[1] == r.Rank() {
				requests = append(requests, r.Recv(m[0], tag, sized(m[2])))
			}
			if m[0] == r.Rank() {
				requests = append(requests, r.Send(m[1], tag, sized(m[2])))
			}
		}
		return comm.WaitAll(requests...)
	})
	ends := make([]cluster.Time, len(messages))
	for _, s := range result.Trace {
		if s.Kind == cluster.Message {
			ends[s.Tag] = s.End
		}
	}
	return ends
}

func TestFairShares(t *testing.T) {
	const gb = 1_000_000_000
	crossbar, err := cluster.Crossbar(5, cluster.Cable{Rate: fast})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name     string
		messages [][3]int // from, to, bytes
		want     []float64
	}{
		{"two over one link", [][3]int{{0, 2, gb}, {1, 2, gb}}, []float64{0.16, 0.16}},
		{"both ways", [][3]int{{0, 2, gb}, {2, 0, gb}}, []float64{0.08, 0.08}},
		{"the longer has the link for itself at last", [][3]int{{0, 2, gb}, {1, 2, 2 * gb}}, []float64{0.16, 0.24}},
		{"what three cannot use, a fourth gets", [][3]int{{0, 3, gb}, {1, 3, gb}, {2, 3, gb}, {2, 4, gb}}, []float64{0.24, 0.24, 0.24, 0.12}},
	} {
		for i, got := range flows(t, crossbar, k.messages) {
			if math.Abs(got.Seconds()-k.want[i]) > 1e-9*k.want[i] {
				t.Errorf("%s: message %d after %v, want %v s", k.name, i, got, k.want[i])
			}
		}
	}
}
