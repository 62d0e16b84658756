package partial

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// butterflyOf returns groups whose sizes are valid.
func butterflyOf(t *testing.T, ranks, size int) butterfly {
	t.Helper()
	b, err := newButterfly(ranks, size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGroupsOfRankZero(t *testing.T) {
	for _, k := range []struct {
		ranks, size int
		want        [][]int // by step
	}{
		{8, 2, [][]int{{0, 1}, {0, 2}, {0, 4}, {0, 1}}},
		{16, 4, [][]int{{0, 1, 2, 3}, {0, 4, 8, 12}, {0, 1, 2, 3}}},
		{8, 4, [][]int{{0, 1, 2, 3}, {0, 1, 4, 5}}},
		{64, 8, [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 8, 16, 24, 32, 40, 48, 56}}},
		{4, 1, [][]int{{0}, {0}}},
		{1, 1, [][]int{{0}, {0}}},
	} {
		for step, want := range k.want {
			got := butterflyOf(t, k.ranks, k.size).members(0, step)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%d ranks, groups of %d, step %d: %v, want %v", k.ranks, k.size, step, got, want)
			}
		}
	}
}

// All ranks of a group list its members in the same order, and groups recur with the cycle.
func TestGroupsAgree(t *testing.T) {
	for ranks := 1; ranks <= 64; ranks *= 2 {
		for size := 1; size <= ranks; size *= 2 {
			b := butterflyOf(t, ranks, size)
			for step := range 12 {
				for rank := range ranks {
					m := b.members(rank, step)
					if len(m) != size || !slices.Contains(m, rank) || !slices.Equal(m, b.members(rank, step+b.cycle())) {
						t.Fatalf("%d ranks, groups of %d, step %d, rank %d: %v", ranks, size, step, rank, m)
					}
					for i, other := range m {
						if !slices.Equal(m, b.members(other, step)) || i^1 < size && m[i^1] != other^(1<<(step*b.own%b.all)) {
							t.Fatalf("%d ranks, groups of %d, step %d: rank %d and %d differ", ranks, size, step, rank, other)
						}
					}
				}
			}
		}
	}
}

// Groups that change spread each model over all ranks in ⌈log P/log S⌉ steps; fixed ones never
// do. The table has the largest difference of an entry of the product of mixing matrices from
// 1/P.
func TestMixing(t *testing.T) {
	for _, k := range []struct {
		ranks, size int
		want        []float64 // by number of steps
		fixed       float64
	}{
		{8, 2, []float64{.375, .125, 0}, .375},
		{8, 4, []float64{.125, 0, 0}, .125},
		{16, 4, []float64{.1875, 0, 0}, .1875},
		{32, 4, []float64{.21875, .03125, 0}, .21875},
		{64, 8, []float64{.109375, 0, 0}, .109375},
	} {
		b := butterflyOf(t, k.ranks, k.size)
		mix := func(m [][]float64, step int) [][]float64 {
			out := make([][]float64, len(m))
			for rank := range m {
				out[rank] = make([]float64, len(m))
				for _, other := range b.members(rank, step) {
					for j, v := range m[other] {
						out[rank][j] += v / float64(k.size)
					}
				}
			}
			return out
		}
		worst := func(m [][]float64) (d float64) {
			for _, row := range m {
				for _, v := range row {
					d = max(d, math.Abs(v-1/float64(len(m))))
				}
			}
			return d
		}
		m, fixed := make([][]float64, k.ranks), make([][]float64, k.ranks)
		for r := range m {
			m[r], fixed[r] = make([]float64, k.ranks), make([]float64, k.ranks)
			m[r][r], fixed[r][r] = 1, 1
		}
		for step, want := range k.want {
			m, fixed = mix(m, step), mix(fixed, 0)
			if worst(m) != want || worst(fixed) != k.fixed {
				t.Errorf("%d ranks, groups of %d, step %d: %g and %g in fixed groups, want %g and %g", k.ranks, k.size, step, worst(m), worst(fixed), want, k.fixed)
			}
		}
	}
}

// wagmaOf trains weights by WAGMA-SGD. local updates them before each average, after sees the
// average, once for each step that it is of.
func wagmaOf(c *comm.Comm, w []float32, o WAGMAOptions, steps int, local func(step int, w []float32), after func(step int, a Average, w []float32) error) (*WAGMA, error) {
	a, err := NewWAGMA(c, w, o)
	if err != nil {
		return nil, err
	}
	if err := a.Start(steps); err != nil {
		return nil, err
	}
	for step := 0; step < steps; step = a.Next() {
		local(step, w)
		average, err := a.Step(w)
		for s := step; s < a.Next() && err == nil && after != nil; s++ {
			err = after(s, average, w)
		}
		if err != nil {
			a.Cancel()
			return nil, err
		}
	}
	return a, nil
}

// Rank 1 is late: it contributes 1, the model that it left in its buffer, and merges the sum 5
// with its model 2.
func TestLateMerge(t *testing.T) {
	simulate(t, 2, network, func(r *cluster.Rank) error {
		start, model := []float32{9, 1}[r.Rank()], []float32{4, 2}[r.Rank()]
		a, err := wagmaOf(r.Comm, []float32{start}, WAGMAOptions{GroupSize: 2, Period: 5}, 2, func(step int, w []float32) {
			if step == 0 {
				w[0] = model
				r.Compute(cluster.Time(1+r.Rank()) * cluster.Second)
			}
		}, func(step int, a Average, w []float32) error {
			if step > 0 {
				return nil
			}
			if want := []float32{2.5, 7. / 3}[r.Rank()]; w[0] != want || a.Late != (r.Rank() == 1) || a.OnTime != 1 {
				return fmt.Errorf("rank %d: %v, %+v, want %v", r.Rank(), w[0], a, want)
			}
			return nil
		})
		if err == nil && a.Log().Late() != r.Rank() {
			err = fmt.Errorf("rank %d was late %d times", r.Rank(), a.Log().Late())
		}
		return err
	})
}

// inTime computes until the same time on all ranks.
func inTime(r *cluster.Rank, step int) { computeUntil(r, cluster.Time(step+1)*cluster.Second) }

// With one group of all ranks that are on time, models have the bits of an all-reduce. With
// values that are exact they equal the model with averaged gradients.
func TestOneGroupIsSynchronous(t *testing.T) {
	const n, steps = 33, 4
	for _, p := range []int{1, 2, 4, 8} {
		for _, a := range []comm.Algorithm{comm.Doubling, comm.Halving} {
			simulate(t, p, network, func(r *cluster.Rank) error {
				want := make([]float32, n)
				values := func(step int) []float32 { return commtest.HardValues(r.Rank()+100*step, n) }
				_, err := wagmaOf(r.Comm, make([]float32, n), WAGMAOptions{GroupSize: p, Period: 100, Algorithm: a}, steps, func(step int, w []float32) {
					inTime(r, step)
					copy(w, values(step))
				}, func(step int, _ Average, w []float32) error {
					copy(want, values(step))
					if err := comm.AllReduce(r.Comm, want, a); err != nil {
						return err
					}
					for i := range want {
						want[i] /= float32(p)
					}
					if !slices.Equal(bitsOf(w), bitsOf(want)) {
						return fmt.Errorf("%d ranks, %v, step %d: other bits", p, a, step)
					}
					return nil
				})
				return err
			})
		}
		simulate(t, p, network, func(r *cluster.Rank) error {
			gradient := func(w float32, step int) float32 { return w - float32(8*r.Rank()+16*step) } // multiples of 1/8 at rate 1/2
			var model float32
			_, err := wagmaOf(r.Comm, []float32{0}, WAGMAOptions{GroupSize: p, Period: 100}, steps, func(step int, w []float32) {
				inTime(r, step)
				w[0] -= gradient(w[0], step) / 2
			}, func(step int, _ Average, w []float32) error {
				sum := []float32{gradient(model, step)}
				if err := comm.AllReduce(r.Comm, sum, comm.Auto); err != nil {
					return err
				}
				if model -= sum[0] / float32(2*p); w[0] != model {
					return fmt.Errorf("%d ranks, step %d: %v, with averaged gradients %v", p, step, w[0], model)
				}
				return nil
			})
			return err
		})
	}
}

// In groups of one rank the models are independent until a global step.
func TestGroupsOfOne(t *testing.T) {
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		_, err := wagmaOf(c, []float32{0}, WAGMAOptions{GroupSize: 1, Period: 3}, 3, func(_ int, w []float32) { w[0] += float32(c.Rank()) }, func(step int, a Average, w []float32) error {
			want := float32((step + 1) * c.Rank())
			if step == 2 {
				want = 3 * 1.5
			}
			if w[0] != want || a.Late {
				return fmt.Errorf("step %d, rank %d: %v, want %v", step, c.Rank(), w[0], want)
			}
			return nil
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// f = (w − c)²/2 with c = rank, rate 0.1: the mean follows 0.9·mean + 0.35 whatever the groups
// are. After the global step all models are 3.5·(1 − 0.9⁸) = 1.9933….
func TestWAGMAQuadratic(t *testing.T) {
	const ranks, steps = 8, 8
	for _, size := range []int{1, 2, 4, 8} {
		simulate(t, ranks, network, func(r *cluster.Rank) error {
			mean := 0.0
			_, err := wagmaOf(r.Comm, []float32{0}, WAGMAOptions{GroupSize: size, Period: steps}, steps, func(step int, w []float32) {
				inTime(r, step)
				w[0] -= 0.1 * (w[0] - float32(r.Rank()))
			}, func(step int, _ Average, w []float32) error {
				sum := []float64{float64(w[0])}
				if err := comm.AllReduce(r.Comm, sum, comm.Auto); err != nil {
					return err
				}
				mean = 0.9*mean + 0.35
				if math.Abs(sum[0]/ranks-mean) > 1e-6 {
					return fmt.Errorf("step %d: mean %v, want %v", step, sum[0]/ranks, mean)
				}
				if want := 3.5 * (1 - math.Pow(0.9, 8)); step == steps-1 && (math.Abs(float64(w[0])-want) > 1e-6 || math.Floor(1e4*float64(w[0])) != 19933) {
					return fmt.Errorf("model %v, want %v", w[0], want)
				}
				return nil
			})
			return err
		})
	}
}

// V of models 0, 1, 2, 3 is 1.25 in each value. It is 0 after a global step.
func TestDivergence(t *testing.T) {
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		expect := func(w []float32, want float64) error {
			if v, err := Divergence(c, w); err != nil || v != want {
				return fmt.Errorf("divergence of %v is %v, want %v, %v", w, v, want, err)
			}
			return nil
		}
		own := float32(c.Rank())
		if err := expect([]float32{own, 5 - own}, 2.5); err != nil {
			return err
		}
		_, err := wagmaOf(c, []float32{0}, WAGMAOptions{GroupSize: 1, Period: 2}, 4, func(_ int, w []float32) { w[0] += own }, func(step int, _ Average, w []float32) error {
			return expect(w, []float64{1.25, 0}[step%2])
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Ranks 2 and 3 are slow. Ranks 0 and 1 average with them in step 1, while those still compute
// step 0, in which they are a group of their own: the notice of step 1 starts that too. Step 2
// has the groups of step 0 again, and step 3 is global.
func TestLaterStepStartsEarlierOnes(t *testing.T) {
	simulate(t, 4, network, func(r *cluster.Rank) error {
		_, err := wagmaOf(r.Comm, []float32{0}, WAGMAOptions{GroupSize: 2, Period: 4}, 4, func(step int, _ []float32) {
			r.Compute(cluster.Millisecond)
			if r.Rank() >= 2 && step == 0 {
				r.Compute(10 * cluster.Second)
			}
		}, func(step int, a Average, _ []float32) error {
			slow := r.Rank() >= 2
			if early := r.Now() < cluster.Second; early != (!slow && step < 3) || a.Late != (slow && step < 2) {
				return fmt.Errorf("rank %d ends step %d at %v, %+v", r.Rank(), step, r.Now(), a)
			}
			return nil
		})
		return err
	})
}

// The average over 4096 simulated ranks in groups of 64 is complete after two steps.
func TestManyRanks(t *testing.T) {
	const ranks = 4096
	simulate(t, ranks, network, func(r *cluster.Rank) error {
		_, err := wagmaOf(r.Comm, []float32{0}, WAGMAOptions{GroupSize: 64, Period: 3}, 3, func(step int, w []float32) {
			inTime(r, step)
			if step == 0 {
				w[0] = float32(r.Rank())
			}
		}, func(step int, a Average, w []float32) error {
			if want := float32(ranks-1) / 2; step > 0 && w[0] != want || a.Late {
				return fmt.Errorf("step %d: %v, want %v", step, w[0], want)
			}
			return nil
		})
		return err
	})
}

// Each operation that is not global has S⌈log₂S⌉ notices in a group.
func TestNoticesOfGroups(t *testing.T) {
	const steps, period = 20, 5
	for _, k := range [][2]int{{4, 2}, {8, 1}, {8, 4}, {16, 4}, {16, 16}} {
		p, size := k[0], k[1]
		var total [16]int64
		err := comm.Run(p, comm.Parallel, func(c *comm.Comm) error {
			before := c.Traffic()
			_, err := wagmaOf(c, []float32{0}, WAGMAOptions{GroupSize: size, Period: period, Algorithm: comm.Doubling}, steps, func(int, []float32) {}, nil)
			total[c.Rank()] = c.Traffic().Sub(before).Messages
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var messages int64
		for _, n := range total {
			messages += n
		}
		s, g := int(math.Log2(float64(size))), int(math.Log2(float64(p)))
		partial, global := steps-steps/period, steps/period
		if want := int64(p * (partial*2*s + global*g)); messages != want {
			t.Errorf("%d ranks, groups of %d: %d messages, want %d", p, size, messages, want)
		}
	}
}

// Under random delays contributions are at most τ−1 steps old, all models have the same bits
// after a global step, and no rank waits without limit.
func TestWAGMAFuzz(t *testing.T) { wagmaFuzz(t, 60, 8) }

func wagmaFuzz(t *testing.T, steps, fewer int) {
	late := 0
	for p := 2; p <= 16; p *= 2 {
		for size := 2; size <= p; size *= 2 {
			for _, skip := range []bool{false, true} {
				o := WAGMAOptions{GroupSize: size, Period: 3 + p/2, Skip: skip}
				late += wagmaTrial(t, p, steps, o, comm.Parallel)
				late += wagmaTrial(t, p, fewer, o, comm.Parallel.WithFaults(comm.Faults{Seed: uint64(p + size), Delay: 50 * time.Microsecond}))
				for seed := range uint64(3) {
					late += wagmaTrial(t, p, fewer, o, comm.Replay(seed))
				}
			}
		}
	}
	if late == 0 {
		t.Error("no rank was ever late")
	}
}

func wagmaTrial(t *testing.T, p, steps int, o WAGMAOptions, mode comm.Mode) (late int) {
	t.Helper()
	hashes, logs := make([][]uint64, p), make([]*Log, p)
	err := comm.Run(p, mode, func(c *comm.Comm) error {
		random := randomOf(c.Rank(), steps)
		a, err := wagmaOf(c, make([]float32, 3), o, steps, func(step int, w []float32) {
			sleepAtRandom(random)
			for i, v := range pull(c.Rank(), step, w) {
				w[i] -= rate * v
			}
		}, func(_ int, _ Average, w []float32) error {
			hashes[c.Rank()] = append(hashes[c.Rank()], hashOf(w))
			return nil
		})
		if err == nil {
			logs[c.Rank()] = a.Log()
		}
		return err
	})
	if err != nil {
		t.Fatalf("%d ranks, %+v, %v: %v", p, o, mode, err)
	}
	for r := range p {
		if len(logs[r].Versions) != steps {
			t.Errorf("%d ranks, %+v: rank %d served %d operations", p, o, r, len(logs[r].Versions))
		}
		for step := range steps {
			global := (step+1)%o.Period == 0 || step == steps-1
			if age := logs[r].Age(step); age < 0 || age > o.Period-1 || global && age > 0 {
				t.Errorf("%d ranks, %+v, %v: rank %d contributed a model of %d steps before to step %d", p, o, mode, r, age, step)
			}
			if global && hashes[r][step] != hashes[0][step] {
				t.Errorf("%d ranks, %+v, %v: rank %d has another model after global step %d", p, o, mode, r, step)
			}
		}
		late += logs[r].Late()
	}
	return late
}

// A run with the log of another one has its bits, although other ranks are late.
func TestWAGMAReplay(t *testing.T) {
	const n, steps = 7, 40
	for i, k := range [][2]int{{1, 1}, {2, 2}, {4, 2}, {8, 2}, {8, 4}, {2, 2}, {8, 2}, {8, 4}} {
		p, skip := k[0], i >= 5
		run := func(seed int, logs []*Log) (bits [][]uint32, recorded []*Log) {
			bits, recorded = make([][]uint32, p), make([]*Log, p)
			simulate(t, p, network, func(r *cluster.Rank) error {
				o, random := WAGMAOptions{GroupSize: k[1], Period: 9, Skip: skip}, randomOf(r.Rank(), seed)
				if logs != nil {
					o.Replay = logs[r.Rank()]
				}
				a, err := wagmaOf(r.Comm, make([]float32, n), o, steps, func(step int, w []float32) {
					for i, v := range pull(r.Rank(), step, w) {
						w[i] -= rate * v
					}
					r.Compute(cluster.Time(random.IntN(1000)) * cluster.Microsecond)
				}, func(_ int, _ Average, w []float32) error {
					bits[r.Rank()] = append(bits[r.Rank()], bitsOf(w)...)
					return nil
				})
				if err == nil {
					recorded[r.Rank()] = a.Log()
				}
				return err
			})
			return bits, recorded
		}
		first, logs := run(1, nil)
		other, _ := run(2, nil)
		again, recorded := run(2, logs)
		if p > 1 && slices.Equal(first[0], other[0]) {
			t.Errorf("%d ranks: other delays give the same bits", p)
		}
		for r := range p {
			if skip != (len(logs[r].Skipped) > 0) {
				t.Errorf("%d ranks in groups of %d: rank %d leaves out the steps %v", p, k[1], r, logs[r].Skipped)
			}
			if !slices.Equal(first[r], again[r]) || fmt.Sprint(*recorded[r]) != fmt.Sprint(*logs[r]) {
				t.Errorf("%d ranks in groups of %d: rank %d has other bits, or another log, in a replay", p, k[1], r)
			}
		}
	}
}

// A rank that is late in the first step of a run is represented by the model in which the last run ended: 2, the average of
// the models 0 and 4 of a run of one step. Its own model is 5, that of the other rank 3.
func TestWAGMALateInTheFirstStep(t *testing.T) {
	simulate(t, 2, network, func(r *cluster.Rank) error {
		w := []float32{float32(4 * r.Rank())}
		a, err := NewWAGMA(r.Comm, w, WAGMAOptions{GroupSize: 2, Period: 4})
		if err != nil {
			return err
		}
		if err := a.Start(1); err != nil {
			return err
		}
		if _, err := a.Step(w); err != nil || w[0] != 2 {
			return fmt.Errorf("the first run ends with %g: %w", w[0], err)
		}
		if err := a.Start(2); err != nil {
			return err
		}
		w[0] = float32(3 + 2*r.Rank())
		computeUntil(r, cluster.Time(1+r.Rank())*cluster.Second)
		if _, err := a.Step(w); err != nil {
			return err
		}
		if want := []float32{(3 + 2) / 2.0, (3 + 2 + 5) / 3.0}[r.Rank()]; w[0] != want {
			return fmt.Errorf("rank %d has %g, want %g", r.Rank(), w[0], want)
		}
		if _, err := a.Step(w); err != nil {
			return err
		}
		if l := a.RunLog(); fmt.Sprint(l) != fmt.Sprintf("{[%d 0] [0 0] [0 0]}", r.Rank()) {
			return fmt.Errorf("rank %d: arrivals %v", r.Rank(), l)
		}
		return nil
	})
}
