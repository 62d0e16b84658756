package partial

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// The example of two ranks with f = (w − c)²/2, c = (0, 4), rate 0.5: rank 1 is late in steps
// 0 and 1, and step 2 is synchronous.
func TestEagerWorkedExample(t *testing.T) {
	arrivals := [2][3]cluster.Time{{10, 20, 30}, {15, 25, 40}} // ms
	var logs [2]*Log
	simulate(t, 2, network, func(r *cluster.Rank) error {
		e, err := NewEager(r.Comm, 1, EagerOptions{Period: 3})
		if err != nil {
			return err
		}
		if err := e.Start(3); err != nil {
			return err
		}
		var w float32
		var sums, weights []float32
		for step := range 3 {
			gradient := []float32{w - 4*float32(r.Rank())}
			computeUntil(r, arrivals[r.Rank()][step]*cluster.Millisecond)
			updates, err := e.Step(gradient)
			if err != nil {
				return err
			}
			for _, u := range updates {
				w -= 0.5 / 2 * u.Sum[0]
				sums, weights = append(sums, u.Sum[0]), append(weights, w)
			}
		}
		if got, want := fmt.Sprint(sums, weights), "[0 -4 -6] [0 1 2.5]"; got != want {
			return fmt.Errorf("sums and weights %s, want %s", got, want)
		}
		logs[r.Rank()] = e.Log()
		return nil
	})
	for rank, want := range []string{"{[1 2 3] [1 2 3] []} 0", "{[0 1 3] [1 2 3] []} 2"} {
		if got := fmt.Sprint(*logs[rank], logs[rank].Late()); got != want {
			t.Errorf("log of rank %d is %s, want %s", rank, got, want)
		}
	}
}

// A rank that computes step 0 for as long as the other one computes four steps gets their four
// sums at once, and its gradient is part of the next one.
func TestLateRankGetsAllSums(t *testing.T) {
	const steps = 6
	simulate(t, 2, network, func(r *cluster.Rank) error {
		e, err := NewEager(r.Comm, 1, EagerOptions{Period: steps})
		if err != nil {
			return err
		}
		if err := e.Start(steps); err != nil {
			return err
		}
		for step := range steps {
			r.Compute(cluster.Second)
			if r.Rank() == 1 && step == 0 {
				r.Compute(3500 * cluster.Millisecond)
			}
			updates, err := e.Step([]float32{1})
			if err != nil {
				return err
			}
			got, want := "", ""
			for _, u := range updates {
				got += fmt.Sprint(u.Step, u.Gradients, " ")
			}
			switch {
			case r.Rank() == 0:
				want = []string{"0 1 ", "1 1 ", "2 1 ", "3 1 ", "4 2 ", "5 6 "}[step]
			case step == 0:
				want = "0 1 1 1 2 1 3 1 "
			case step == 1:
				want = "4 2 "
			case step == steps-1:
				want = "5 6 "
			}
			if strings.Join(strings.Fields(got), " ") != strings.TrimSpace(want) {
				return fmt.Errorf("rank %d gets the sums %q in step %d, want %q", r.Rank(), got, step, want)
			}
		}
		return nil
	})
}

// A majority operation contains the gradients of the ranks that arrive no later than its
// initiator. So over all initiators (P+1)/2 are fresh on average, and at least P/2 with the
// probability of the paper.
func TestMajority(t *testing.T) {
	const steps = 400
	for _, k := range []struct {
		ranks             int
		mean, probability float64
	}{{4, 2.5, 0.75}, {8, 4.5, 0.625}, {16, 8.5, 0.5625}, {32, 16.5, 0.53125}} {
		fresh := make([]int, steps)
		place := func(step, rank int) int { return (rank*5 + step*3) % k.ranks } // in the order of arrival
		simulate(t, k.ranks, network, func(r *cluster.Rank) error {
			return runEager(r.Comm, EagerOptions{Initiator: Majority, Period: steps, Seed: 9}, steps, eagerRun{
				before: func(step int) {
					computeUntil(r, cluster.Time(step+1)*cluster.Second+cluster.Time(place(step, r.Rank()))*cluster.Millisecond)
				},
				update: func(u Update, _ []float32) error {
					fresh[u.Step] = u.Fresh
					return nil
				},
			})
		})
		byPlace, sum := map[int]int{}, 0
		for step, q := range fresh[:steps-1] { // the last one is synchronous
			want := place(step, initiatorOf(9, step, k.ranks)) + 1
			if q != want {
				t.Fatalf("%d ranks, step %d: %d gradients are fresh, want %d", k.ranks, step, q, want)
			}
			byPlace[q]++
			sum += q
		}
		var mean, probability float64
		for q := 1; q <= k.ranks; q++ {
			if byPlace[q] == 0 {
				t.Errorf("%d ranks: no step has %d fresh gradients", k.ranks, q)
			}
			mean += float64(q) / float64(k.ranks)
			if 2*q >= k.ranks {
				probability += 1 / float64(k.ranks)
			}
		}
		if mean != k.mean || probability != k.probability {
			t.Errorf("%d ranks: mean %g and probability %g, want %g and %g", k.ranks, mean, probability, k.mean, k.probability)
		}
		deviation := math.Sqrt(float64(k.ranks*k.ranks-1) / 12 / (steps - 1)) // of the mean of uniform draws
		if got := float64(sum) / (steps - 1); math.Abs(got-k.mean) > 4*deviation {
			t.Errorf("%d ranks: %g fresh gradients on average, want %g", k.ranks, got, k.mean)
		}
	}
}

// With τ = 1, and if all ranks are on time, sums have the bits of an all-reduce.
func TestEagerOnTimeIsSynchronous(t *testing.T) {
	const n, steps = 41, 3
	for _, p := range []int{1, 2, 3, 4, 7, 8} {
		for _, a := range []comm.Algorithm{comm.Auto, comm.Ring, comm.Doubling, comm.Halving} {
			for _, o := range []EagerOptions{{Period: 1}, {Period: steps}, {Initiator: Majority, Period: steps}} {
				o.Algorithm = a
				gradient := func(rank, step int) []float32 { return commtest.HardValues(rank+100*step, n) }
				simulate(t, p, network, func(r *cluster.Rank) error {
					seen := 0
					err := runEager(r.Comm, o, steps, eagerRun{
						values:   n,
						before:   func(step int) { computeUntil(r, cluster.Time(step+1)*cluster.Second) },
						gradient: func(step int, _ []float32) []float32 { return gradient(r.Rank(), step) },
						update: func(u Update, _ []float32) error {
							if u.Step != seen || u.Fresh != p || u.Gradients != p {
								return fmt.Errorf("update %d: %d gradients, %d fresh", u.Step, u.Gradients, u.Fresh)
							}
							seen++
							want := append(gradient(r.Rank(), u.Step), 1, 1)
							if err := comm.AllReduce(r.Comm, want, a); err != nil {
								return err
							}
							if !slices.Equal(bitsOf(u.Sum), bitsOf(want[:n])) {
								return fmt.Errorf("%d ranks, %+v, step %d: other bits", p, o, u.Step)
							}
							return nil
						},
					})
					return errors.Join(err, map[bool]error{false: fmt.Errorf("%d updates", seen)}[seen == steps])
				})
			}
		}
	}
}

// A step has P⌈log₂P⌉ notices if the first rank starts it, P−1 if a known one does, and none
// if it is synchronous.
func TestNotices(t *testing.T) {
	const steps, period = 30, 10
	for p := 1; p <= 17; p++ {
		for initiator, perStep := range map[Initiator]int{Solo: p * int(math.Ceil(math.Log2(float64(p)))), Majority: p - 1} {
			messages := make([]comm.Traffic, p)
			err := comm.Run(p, comm.Parallel, func(c *comm.Comm) error {
				before := c.Traffic()
				err := runEager(c, EagerOptions{Initiator: initiator, Period: period, Algorithm: comm.Ring}, steps, eagerRun{})
				messages[c.Rank()] = c.Traffic().Sub(before)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, m := range messages {
				total += int(m.Messages)
			}
			sums := steps * p * 2 * (p - 1)
			if want := (steps - steps/period) * perStep; total-sums != want {
				t.Errorf("%d ranks, %v: %d notices, want %d", p, initiator, total-sums, want)
			}
		}
	}
}

// Eight ranks compute for 100 ms, one at random for 300 ms more, and sums take 10 ms. A
// synchronous step takes 410 ms. Solo steps take as long as an undelayed rank, until a
// synchronous one waits for all steps of all ranks.
func TestEagerSpeed(t *testing.T) {
	const ranks, steps, period = 8, 12, 6
	const ms = cluster.Millisecond
	const notices = 4 * ms // of three sends and three receives
	// Halving of 4000 bytes: six exchanges of 2·250.5 µs and 1 µs for each byte but one, of
	// 2·(2000 + 1000 + 500) bytes. Both ranks are busy from its begin to its end.
	slow := cluster.LogGP{Overhead: 250_500 * cluster.Nanosecond, Rate: 1_000_000}
	compute := func(rank, step int) cluster.Time {
		if initiatorOf(5, step, ranks) == rank {
			return 400 * ms
		}
		return 100 * ms
	}
	ends := func(period int) []cluster.Time { // by step: time of the first rank that gets its result
		var first [steps]cluster.Time
		simulate(t, ranks, slow, func(r *cluster.Rank) error {
			return runEager(r.Comm, EagerOptions{Period: period, Algorithm: comm.Halving}, steps, eagerRun{
				values: 4000/4 - gradientTail,
				before: func(step int) { r.Compute(compute(r.Rank(), step)) },
				after: func(step int) {
					if first[step] == 0 || r.Now() < first[step] {
						first[step] = r.Now()
					}
				},
			})
		})
		return first[:]
	}
	for step, end := range ends(1) {
		if want := cluster.Time(step+1) * 410 * ms; end != want {
			t.Errorf("synchronous step %d ends at %v, want %v", step, end, want)
		}
	}
	solo := ends(period)
	for step := range period - 1 { // some rank has not been delayed yet
		if took := solo[step] - cluster.Time(step)*solo[0]; took < 110*ms || took > 110*ms+notices {
			t.Errorf("solo step %d takes %v, want 110 ms and notices", step, took)
		}
	}
	for last := period - 1; last < steps; last += period {
		var slowest cluster.Time
		for rank := range ranks {
			var own cluster.Time
			for step := last + 1 - period; step <= last; step++ {
				own += compute(rank, step)
			}
			slowest = max(slowest, own)
		}
		begin := cluster.Time(0)
		if last >= period {
			begin = solo[last-period]
		}
		if took := solo[last] - begin; took < slowest+10*ms || took > slowest+period*(10*ms+notices) {
			t.Errorf("%d steps take %v, the slowest rank computes for %v", period, took, slowest)
		}
	}
}

// Under random delays all gradients arrive once, all models are equal after every step, and
// the same log gives the same bits.
func TestEagerFuzz(t *testing.T) { eagerFuzz(t, 40, 6) }

// eagerFuzz trains in steps with random delays of the ranks, and in fewer steps with delayed
// messages and with one rank at a time, in random order.
func eagerFuzz(t *testing.T, steps, fewer int) {
	late := 0
	for p := 2; p <= 16; p++ {
		for _, initiator := range []Initiator{Solo, Majority} {
			for _, skip := range []bool{false, true} {
				o := EagerOptions{Initiator: initiator, Period: 1 + p, Seed: uint64(p), Skip: skip}
				late += eagerTrial(t, p, steps, o, comm.Parallel)
				late += eagerTrial(t, p, fewer, o, comm.Parallel.WithFaults(comm.Faults{Seed: uint64(p), Delay: 50 * time.Microsecond}))
				late += eagerTrial(t, p, fewer, o, comm.Replay(uint64(p)))
			}
		}
	}
	if late == 0 {
		t.Error("no rank was ever late")
	}
}

// eagerTrial trains with random delays and returns the number of late contributions.
func eagerTrial(t *testing.T, p, steps int, o EagerOptions, mode comm.Mode) (late int) {
	t.Helper()
	const n = 5
	hashes, logs := make([][]uint64, p), make([]*Log, p)
	totals := make([][]float32, 2*p)
	err := comm.Run(p, mode, func(c *comm.Comm) error {
		random := randomOf(c.Rank(), steps)
		given, got := make([]float32, n), make([]float32, n)
		e, err := eagerOf(c, o, steps, eagerRun{
			values: n, before: func(int) { sleepAtRandom(random) },
			gradient: func(int, []float32) []float32 {
				g := make([]float32, n)
				for i := range g {
					g[i] = float32(random.IntN(7) - 3)
					given[i] += g[i]
				}
				return g
			},
			update: func(u Update, w []float32) error {
				for i, v := range u.Sum {
					got[i] += v
				}
				hashes[c.Rank()] = append(hashes[c.Rank()], hashOf(w))
				return nil
			},
		})
		if err != nil {
			return err
		}
		logs[c.Rank()], totals[2*c.Rank()], totals[2*c.Rank()+1] = e.Log(), given, got
		return nil
	})
	if err != nil {
		t.Fatalf("%d ranks, %+v, %v: %v", p, o, mode, err)
	}
	sum := make([]float32, n)
	for r := range p {
		for i, v := range totals[2*r] {
			sum[i] += v
		}
	}
	for r := range p {
		if !slices.Equal(totals[2*r+1], sum) {
			t.Errorf("%d ranks, %+v, %v: rank %d got %v in all, the gradients are %v", p, o, mode, r, totals[2*r+1], sum)
		}
		if !slices.Equal(hashes[r], hashes[0]) || len(hashes[r]) != steps {
			t.Errorf("%d ranks, %+v, %v: rank %d has other models than rank 0", p, o, mode, r)
		}
		if len(logs[r].Versions) != steps || len(logs[r].Applied) != steps {
			t.Errorf("%d ranks: log of %d operations", p, len(logs[r].Versions))
		}
		for step := range steps {
			if age := logs[r].Age(step); age < 0 || age > o.Period-1 || age > 0 && ((step+1)%o.Period == 0 || step == steps-1) {
				t.Errorf("%d ranks, %+v, %v: rank %d contributed %d steps late to step %d", p, o, mode, r, age, step)
			}
		}
		late += logs[r].Late()
	}
	return late
}

// A run with the log of another one has its bits, although other ranks are late.
func TestEagerReplay(t *testing.T) {
	const n, steps = 9, 60
	for _, p := range []int{1, 2, 3, 5, 8} {
		for _, o := range []EagerOptions{{Period: 7}, {Initiator: Majority, Period: 20, Seed: 3}, {Period: 7, Skip: true}, {Initiator: Majority, Period: 20, Seed: 3, Skip: true}} {
			run := func(seed uint64, logs []*Log) (bits [][]uint32, recorded []*Log) {
				bits, recorded = make([][]uint32, p), make([]*Log, p)
				simulate(t, p, network, func(r *cluster.Rank) error {
					o, random := o, randomOf(r.Rank(), int(seed))
					if logs != nil {
						o.Replay = logs[r.Rank()]
					}
					e, err := eagerOf(r.Comm, o, steps, eagerRun{
						values: n, before: func(int) { r.Compute(cluster.Time(random.IntN(1000)) * cluster.Microsecond) },
						gradient: func(step int, w []float32) []float32 { return pull(r.Rank(), step, w) },
						update: func(u Update, w []float32) error {
							bits[r.Rank()] = append(bits[r.Rank()], bitsOf(w)...)
							return nil
						},
					})
					if err == nil {
						recorded[r.Rank()] = e.Log()
					}
					return err
				})
				return bits, recorded
			}
			first, logs := run(1, nil)
			other, _ := run(2, nil)
			again, recorded := run(2, logs)
			if p > 1 && slices.Equal(first[0], other[0]) {
				t.Errorf("%d ranks, %+v: other delays give the same bits", p, o)
			}
			for r := range p {
				if !slices.Equal(first[r], again[r]) {
					t.Errorf("%d ranks, %+v: rank %d has other bits in a replay", p, o, r)
				}
				if fmt.Sprint(*recorded[r]) != fmt.Sprint(*logs[r]) {
					t.Errorf("%d ranks, %+v: rank %d records another log in a replay", p, o, r)
				}
			}
		}
	}
}

// Runs follow each other; the gradients of each are in its sums.
func TestEagerRuns(t *testing.T) {
	err := comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		e, err := NewEager(c, 1, EagerOptions{Period: 4})
		if err != nil {
			return err
		}
		for _, steps := range []int{1, 6, 4} {
			if err := e.Start(steps); err != nil {
				return err
			}
			var sum float32
			for range steps {
				updates, err := e.Step([]float32{1})
				if err != nil {
					return err
				}
				for _, u := range updates {
					sum += u.Sum[0]
				}
			}
			if sum != float32(3*steps) {
				return fmt.Errorf("%v of %d gradients", sum, 3*steps)
			}
			if err := comm.Barrier(c); err != nil { // the groups of the caller are its own
				return err
			}
		}
		if err := e.Start(1); err != nil {
			return err
		}
		updates, err := e.Step(nil)
		if err != nil || len(updates) != 1 || updates[0].Gradients != 0 || updates[0].Fresh != 3 || updates[0].Sum[0] != 0 {
			return fmt.Errorf("without gradients: %+v, %v", updates, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
