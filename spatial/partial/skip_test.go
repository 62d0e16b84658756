package partial

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// A rank continues with the first operation that has not been taken, and never computes a step in which all wait for it.
func TestFollowing(t *testing.T) {
	s := schedule{period: 5, last: 11, skips: true} // 4, 9 and 11 are synchronous
	for _, c := range []struct{ step, taken, want int }{
		{0, 0, 1}, // its operation has not been taken
		{0, 1, 1},
		{0, 3, 3},
		{0, 4, 5},
		{3, 4, 5},
		{4, 4, 5},
		{5, 9, 10},
		{10, 11, 12},
	} {
		if got := s.following(c.step, c.taken); got != c.want {
			t.Errorf("after step %d with %d operations: step %d, want %d", c.step, c.taken, got, c.want)
		}
		whole := s
		whole.skips = false
		if got := whole.following(c.step, c.taken); got != c.step+1 {
			t.Errorf("without skips, after step %d: step %d", c.step, got)
		}
	}
}

// Rank 1 computes step 0 while rank 0 computes the steps 0 to 3. It continues with step 4, before rank 0, so its sum has its gradients of the steps 0
// and 4, and rank 0 is late. It computes step 5 until rank 0 waits in the synchronous step 7, of which it has no gradient.
func TestSkippedSteps(t *testing.T) {
	const steps = 8
	const ms = cluster.Millisecond
	ends := [2]map[int]cluster.Time{
		{0: 10, 1: 20, 2: 30, 3: 40, 4: 50, 5: 60, 6: 70, 7: 80},
		{0: 45, 4: 48, 5: 85},
	}
	var logs [2]*Log
	for _, replay := range []bool{false, true} {
		simulate(t, 2, network, func(r *cluster.Rank) error {
			o := EagerOptions{Period: steps, Skip: true}
			if replay { // other times
				o.Replay = logs[r.Rank()]
			}
			var computed []int
			got := ""
			e, err := eagerOf(r.Comm, o, steps, eagerRun{
				gradient: func(step int, _ []float32) []float32 { return []float32{float32(1 + 9*r.Rank())} },
				before: func(step int) {
					computed = append(computed, step)
					if at, ok := ends[r.Rank()][step]; ok && !replay {
						computeUntil(r, at*ms)
					}
				},
				update: func(u Update, _ []float32) error {
					got += fmt.Sprintf(" %d:%g/%d,%d", u.Step, u.Sum[0], u.Gradients, u.Fresh)
					return nil
				},
			})
			if err != nil {
				return err
			}
			want := " 0:1/1,1 1:1/1,1 2:1/1,1 3:1/1,1 4:20/2,1 5:2/2,1 6:1/1,1 7:11/2,1"
			steps := []string{"[0 1 2 3 4 5 6 7]", "[0 4 5]"}[r.Rank()]
			if got != want || fmt.Sprint(computed) != steps {
				return fmt.Errorf("rank %d computes %v and gets %s, want %s and %s", r.Rank(), computed, got, steps, want)
			}
			logs[r.Rank()] = e.Log()
			return nil
		})
	}
	for rank, want := range []string{"{[1 2 3 4 4 6 7 8] [1 2 3 4 5 6 7 8] []} 1", "{[0 0 0 0 5 5 5 8] [4 4 4 4 5 8 8 8] [1 2 3 6 7]} 7"} {
		if got := fmt.Sprint(*logs[rank], logs[rank].Late()); got != want {
			t.Errorf("log of rank %d is %s, want %s", rank, got, want)
		}
	}
}

// skippingRun is a simulated training by eager-SGD or WAGMA-SGD with delays of random ranks.
type skippingRun struct {
	ranks, steps, period int
	delay                cluster.Time
	skip                 bool
}

// timeOf is the time of a rank for a step: 200 ms, of one rank in each step more.
func (s skippingRun) timeOf(rank, step int) cluster.Time {
	const usual = 200 * cluster.Millisecond
	if initiatorOf(77, step, s.ranks) == rank {
		return usual + s.delay
	}
	return usual
}

// ideal is the time of all steps if none is delayed.
func (s skippingRun) ideal() cluster.Time { return cluster.Time(s.steps) * 200 * cluster.Millisecond }

// eager returns the time that eager-SGD takes, and the share of steps that are left out. Gradients are whole numbers; it checks that
// each is summed once.
func (s skippingRun) eager(t *testing.T, initiator Initiator) (took cluster.Time, left float64) {
	t.Helper()
	given, got, gradients := make([]float32, s.ranks), make([]float32, s.ranks), make([]int, s.ranks)
	skipped := 0
	result := simulate(t, s.ranks, network, func(r *cluster.Rank) error {
		e, err := eagerOf(r.Comm, EagerOptions{Initiator: initiator, Period: s.period, Skip: s.skip}, s.steps, eagerRun{
			gradient: func(step int, _ []float32) []float32 {
				g := float32((r.Rank()*7+step)%5 - 2)
				given[r.Rank()] += g
				return []float32{g}
			},
			before: func(step int) { r.Compute(s.timeOf(r.Rank(), step)) },
			update: func(u Update, _ []float32) error {
				got[r.Rank()] += u.Sum[0]
				gradients[r.Rank()] += u.Gradients
				return nil
			},
		})
		if err == nil {
			skipped += len(e.Log().Skipped)
		}
		return err
	})
	var sum float32
	for _, v := range given {
		sum += v
	}
	for r := range s.ranks {
		if got[r] != sum || gradients[r] != s.ranks*s.steps-skipped {
			t.Errorf("%+v, %v: rank %d has the sum %g of %d gradients, want %g of %d", s, initiator, r, got[r], gradients[r], sum, s.ranks*s.steps-skipped)
		}
	}
	return result.Time(), float64(skipped) / float64(s.ranks*s.steps)
}

// wagma returns the time that WAGMA-SGD takes, and the share of steps that are left out. It checks that models are equal at the end.
func (s skippingRun) wagma(t *testing.T) (took cluster.Time, left float64) {
	t.Helper()
	skipped, models := 0, make([]float32, s.ranks)
	result := simulate(t, s.ranks, network, func(r *cluster.Rank) error {
		w := []float32{0}
		a, err := wagmaOf(r.Comm, w, WAGMAOptions{GroupSize: 2, Period: s.period, Skip: s.skip}, s.steps, func(step int, w []float32) {
			w[0] -= rate * pull(r.Rank(), step, w)[0]
			r.Compute(s.timeOf(r.Rank(), step))
		}, nil)
		if err == nil {
			models[r.Rank()] = w[0]
			skipped += len(a.Log().Skipped)
		}
		return err
	})
	for r, w := range models {
		if w != models[0] {
			t.Errorf("%+v: rank %d ends with %g, rank 0 with %g", s, r, w, models[0])
		}
	}
	return result.Time(), float64(skipped) / float64(s.ranks*s.steps)
}

// One random rank of each step is delayed by a quarter to one and a half of a step. Ranks that leave steps out take more steps in a
// second than those that compute all: with a sum 9 of 10 that undelayed ranks take, if they wait for each other every 20 steps. In
// pairs fewer: both ranks may be behind. Without a delay nothing is left out.
func TestSkipSpeed(t *testing.T) {
	for _, c := range []struct {
		ranks, period int
		delays        []cluster.Time // ms
		solo, wagma   float64        // least rate, of that of undelayed ranks
	}{
		{4, 10, []cluster.Time{0, 50, 100}, 0.94, 0.9}, {4, 10, []cluster.Time{300}, 0.88, 0.82},
		{4, 20, []cluster.Time{0, 50, 100}, 0.94, 0.9}, {4, 20, []cluster.Time{300}, 0.92, 0.84}, {64, 20, []cluster.Time{300}, 0.92, 0.92},
	} {
		for _, ms := range c.delays {
			s := skippingRun{ranks: c.ranks, steps: 120, period: c.period, delay: ms * cluster.Millisecond}
			for name, least := range map[string]float64{"solo": c.solo, "wagma": c.wagma} {
				run := func() (cluster.Time, float64) {
					if name == "wagma" {
						return s.wagma(t)
					}
					return s.eager(t, Solo)
				}
				s.skip = false
				whole, none := run()
				s.skip = true
				took, left := run()
				speed := func(of cluster.Time) float64 { return float64(s.ideal()) / float64(of) }
				t.Logf("%d ranks, %d ms, every %d steps, %s: %.3f, and %.3f without %.1f %% of the steps", s.ranks, ms, s.period, name, speed(whole), speed(took), 100*left)
				if none != 0 || (left > 0) != (ms > 0) || speed(took) < least || took > whole {
					t.Errorf("%+v, %s: %g of the rate, %g with all steps; want %g", s, name, speed(took), speed(whole), least)
				}
			}
		}
	}
}

// A drawn rank starts each sum, so nobody leaves a step out that it has not missed: gradients are summed once.
func TestSkipMajority(t *testing.T) {
	s := skippingRun{ranks: 4, steps: 120, period: 20, delay: 300 * cluster.Millisecond}
	whole, _ := s.eager(t, Majority)
	s.skip = true
	if took, left := s.eager(t, Majority); left == 0 || took > whole {
		t.Errorf("%v and %g left out, %v with all steps", took, left, whole)
	}
}

// A rank that always takes two and a half steps' time leaves out more than half of its steps, and the others wait for it at the end
// of a period only.
func TestSlowRank(t *testing.T) {
	const steps, period, usual, slow = 40, 20, 200 * cluster.Millisecond, 500 * cluster.Millisecond
	skipped := make([]int, 4)
	result := simulate(t, 4, network, func(r *cluster.Rank) error {
		e, err := eagerOf(r.Comm, EagerOptions{Period: period, Skip: true}, steps, eagerRun{before: func(int) {
			if r.Rank() == 3 {
				r.Compute(slow)
			} else {
				r.Compute(usual)
			}
		}})
		if err == nil {
			skipped[r.Rank()] = len(e.Log().Skipped)
		}
		return err
	})
	if skipped[0]+skipped[1]+skipped[2] > 0 || skipped[3] <= steps/2 {
		t.Errorf("%v steps are left out", skipped)
	}
	if most := steps*usual + steps/period*slow; result.Time() > most+cluster.Second/10 {
		t.Errorf("the steps take %v, want at most %v", result.Time(), most)
	}
}
