package cluster_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

func ExampleRun() {
	network, err := cluster.Parse("torus:4,4", cluster.FastCable)
	if err != nil {
		fmt.Println(err)
		return
	}
	wiring := cluster.Wiring{Topology: network, Alpha: 5 * cluster.Microsecond}
	result, err := cluster.Run(16, cluster.Fluid{Wiring: wiring}, cluster.Options{}, func(r *cluster.Rank) error {
		r.Compute(20 * cluster.Millisecond)
		return comm.AllReduce(r.Comm, make([]comm.SizeOnly, 17_142_704), comm.Ring)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Time())
	// Output: 30.4451224 ms
}

// mixed is a program with concurrent messages of all sizes, which queue and
// overtake each other.
func mixed(r *cluster.Rank) error {
	p := r.Size()
	pieces := make([][]comm.SizeOnly, p)
	for i := range pieces {
		pieces[i] = make([]comm.SizeOnly, 100*((r.Rank()+i)%7))
	}
	var requests []comm.Request
	for d := 1; d < p; d++ {
		from := (r.Rank() + p - d) % p
		requests = append(requests, r.Send((r.Rank()+d)%p, d, sized(4000*d)), r.Recv(from, d, sized(4000*d)))
	}
	r.Compute(cluster.Time(r.Rank()%3) * cluster.Microsecond)
	if err := comm.AllToAll(r.Comm, pieces, pieces); err != nil {
		return err
	}
	if err := comm.WaitAll(requests...); err != nil {
		return err
	}
	return comm.AllReduce(r.Comm, sized(10_000), comm.Auto)
}

// The same program gives the same trace, bytes and times.
func TestDeterminism(t *testing.T) {
	for name, n := range networks(t) {
		first, second := run(t, 16, n, mixed), run(t, 16, n, mixed)
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%s: two runs differ", name)
		}
		if len(first.Trace) < 500 {
			t.Errorf("%s: a trace of %d spans", name, len(first.Trace))
		}
	}
}

// Bytes per link are those of the messages, once for each link of their route.
func TestBytesByLink(t *testing.T) {
	wiring := flat(t, "hx:2,2,2,2")
	for name, n := range map[string]cluster.Network{"fluid": cluster.Fluid{Wiring: wiring}, "packets": cluster.StoreAndForward{Wiring: wiring, Packet: 1000}} {
		result := run(t, 16, n, mixed)
		want := make([]int64, len(wiring.Topology.Links))
		for _, s := range result.Trace {
			if s.Kind == cluster.Message {
				for _, l := range wiring.Topology.Route(s.Rank, s.Peer) {
					want[l] += s.Bytes
				}
			}
		}
		if !reflect.DeepEqual(result.Links, want) {
			t.Errorf("%s: bytes by link %v, want %v", name, result.Links, want)
		}
	}
	const p, n = 8, 8 * 4 * 1000
	for l, bytes := range run(t, p, cluster.Fluid{Wiring: flat(t, "torus:1,8")}, allReduce(n, comm.Ring)).Links {
		if want := int64((1 - l%2) * 2 * (p - 1) * n / p); bytes != want {
			t.Errorf("a ring sends %d bytes over link %d, want %d", bytes, l, want)
		}
	}
}

// Messages and computing overlap: the longer one counts.
func TestOverlap(t *testing.T) {
	const bytes = 1_000_000
	transfer := alpha + bytes*beta
	for _, interior := range []cluster.Time{0, transfer / 2, transfer, 2 * transfer} {
		result := run(t, 2, cluster.AlphaBeta{Alpha: alpha, Rate: fast}, func(r *cluster.Rank) error {
			other := 1 - r.Rank()
			in, out := r.Recv(other, 0, sized(bytes)), r.Send(other, 0, sized(bytes))
			r.Compute(interior)
			return comm.WaitAll(in, out)
		})
		var waited, computed cluster.Time
		for _, s := range result.Trace {
			switch s.Kind {
			case cluster.Waiting:
				waited += s.End - s.Start
			case cluster.Compute:
				computed += s.End - s.Start
			}
		}
		if want := 2 * max(0, transfer-interior); result.Time() != max(interior, transfer) || waited != want || computed != 2*interior {
			t.Errorf("computing for %v: %v in all, %v waiting, want %v and %v", interior, result.Time(), waited, max(interior, transfer), want)
		}
	}
}

// A message has the content of the time of Send, also if it is received after the
// sender changed its buffer.
func TestLateReceiver(t *testing.T) {
	run(t, 2, cluster.AlphaBeta{Alpha: alpha, Rate: fast}, func(r *cluster.Rank) error {
		x := []float32{1, 2, 3}
		if r.Rank() == 0 {
			err := r.Send(1, 0, x).Wait()
			clear(x)
			return err
		}
		r.Compute(cluster.Millisecond)
		if err := r.Recv(0, 0, x).Wait(); err != nil {
			return err
		}
		if x[0] != 1 || x[2] != 3 || r.Now() != cluster.Millisecond {
			return fmt.Errorf("%v at %v", x, r.Now())
		}
		return nil
	})
}

// Polling with Test advances the clock.
func TestPolling(t *testing.T) {
	polls := 0
	result := run(t, 2, cluster.AlphaBeta{Alpha: alpha, Rate: fast}, func(r *cluster.Rank) error {
		if r.Rank() == 0 {
			return r.Send(1, 0, make([]byte, 100)).Wait()
		}
		in := r.Recv(0, 0, make([]byte, 100))
		for !in.Test() {
			polls++
		}
		return in.Wait()
	})
	if polls < 2 || result.End[1] < result.End[0] || result.End[1] > result.End[0]+cluster.Microsecond {
		t.Errorf("%d polls, ends %v", polls, result.End)
	}
}

// Simulations of many ranks need seconds and little memory: a ring reduce-scatter
// of a network's weights, and halving.
func TestManyRanks(t *testing.T) {
	const n = 4096 * 4 * 4186
	half := func(r *cluster.Rank) error {
		x := sized(n)
		_, err := comm.ReduceScatterV(r.Comm, x, comm.SplitEvenly(len(x), r.Size()), comm.Ring)
		return err
	}
	hx := flat(t, "hx:2,2,16,16")
	for _, k := range []struct {
		name    string
		ranks   int
		network cluster.Network
		f       func(*cluster.Rank) error
		want    cluster.Time
	}{
		{"ring, alpha-beta", 1024, cluster.AlphaBeta{Alpha: alpha, Rate: fast}, half, closed[comm.Ring](1024, n) / 2},
		{"ring, fluid on " + hx.Topology.Name, 1024, cluster.Fluid{Wiring: hx}, half, closed[comm.Ring](1024, n) / 2},
		{"halving, alpha-beta", 4096, cluster.AlphaBeta{Alpha: alpha, Rate: fast}, allReduce(n, comm.Halving), closed[comm.Halving](4096, n)},
	} {
		begin := time.Now()
		result, err := cluster.Run(k.ranks, k.network, cluster.Options{}, k.f)
		if err != nil {
			t.Fatal(err)
		}
		if result.Time() != k.want {
			t.Errorf("%s, %d ranks: %v, want %v", k.name, k.ranks, result.Time(), k.want)
		}
		t.Logf("%s, %d ranks: %.0f events a second", k.name, k.ranks, float64(result.Events)/time.Since(begin).Seconds())
	}
}

func TestFailures(t *testing.T) {
	network := cluster.AlphaBeta{Alpha: alpha, Rate: fast}
	for _, k := range []struct {
		name string
		f    func(r *cluster.Rank) error
		want string
	}{
		{"both receive", func(r *cluster.Rank) error { return r.Recv(1-r.Rank()%2, 4, make([]byte, 1)).Wait() },
			"deadlock: rank 0 waits for a message from rank 1, tag 4, rank 1 waits for a message from rank 0, tag 4, "},
		{"too many to name", func(r *cluster.Rank) error { return r.Recv(0, 1, make([]byte, 1)).Wait() },
			"rank 7 waits for a message from rank 0, tag 1, and 4 more"},
		{"an error", func(r *cluster.Rank) error {
			if r.Rank() == 2 {
				return errors.New("broken")
			}
			return comm.Barrier(r.Comm)
		}, "rank 2: broken"},
		{"a panic", func(r *cluster.Rank) error {
			if r.Rank() == 3 {
				r.Compute(-1)
			}
			return comm.Barrier(r.Comm)
		}, "rank 3: panic: cluster: computing for -1 ps"},
		{"another type", func(r *cluster.Rank) error {
			switch r.Rank() {
			case 0:
				return r.Send(1, 1, []float32{1, 2}).Wait()
			case 1:
				return r.Recv(0, 1, make([]int64, 1)).Wait()
			}
			return nil
		}, "rank 1: posted []int64 of 8 bytes from rank 0 with tag 1, got []float32 of 8 bytes"},
		{"never received", func(r *cluster.Rank) error {
			if r.Rank() == 0 {
				return r.Send(1, 1, []float32{1, 2}).Wait()
			}
			return nil
		}, "message from rank 0 to rank 1 with tag 1 was never received"},
	} {
		if _, err := cluster.Run(12, network, cluster.Options{}, k.f); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v, want %q", k.name, err, k.want)
		}
	}
}

func TestWrongNetworks(t *testing.T) {
	wiring := func(hosts ...int) cluster.Wiring {
		return cluster.Wiring{Topology: parse(t, "crossbar:4"), Hosts: hosts}
	}
	for _, k := range []struct {
		ranks   int
		network cluster.Network
		want    string
	}{
		{0, cluster.AlphaBeta{Rate: fast}, "invalid number of ranks 0"},
		{1, cluster.AlphaBeta{}, "invalid rate of 0 bytes per second"},
		{1, cluster.AlphaBeta{Alpha: -1, Rate: fast}, "negative message time -1 ps"},
		{1, cluster.LogGP{Rate: 3}, "invalid rate of 3 bytes per second"},
		{1, cluster.LogGP{Gap: -1, Rate: fast}, "negative message time -1 ps"},
		{1, cluster.Fluid{}, "the network has no topology"},
		{5, cluster.Fluid{Wiring: wiring()}, "5 ranks do not fit on crossbar:4"},
		{2, cluster.Fluid{Wiring: wiring(1)}, "1 hosts are listed"},
		{2, cluster.Fluid{Wiring: wiring(1, 1)}, "host 1 of rank 1 does not exist or is used twice"},
		{2, cluster.StoreAndForward{Wiring: wiring(0, 4)}, "host 4 of rank 1"},
		{2, cluster.StoreAndForward{Wiring: wiring(), Packet: -1}, "packets of fewer than 0 bytes"},
	} {
		_, err := cluster.Run(k.ranks, k.network, cluster.Options{}, func(*cluster.Rank) error { return nil })
		if exit.CodeOf(err) != exit.Usage || err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%d ranks, %+v: %v, want a usage error with %q", k.ranks, k.network, err, k.want)
		}
	}
}

func TestTime(t *testing.T) {
	for d, want := range map[cluster.Time]string{
		0: "0 ps", 999: "999 ps", 4_081_840: "4.08184 µs", -1500: "-1.5 ns", 160 * cluster.Millisecond: "160 ms", 90 * cluster.Second: "90 s",
		2 * cluster.Microsecond: "2 µs",
	} {
		if got := d.String(); got != want {
			t.Errorf("%d: %q, want %q", int64(d), got, want)
		}
	}
}
