package partial

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Synchronous steps are every period-th of a run and its last, whatever number its first step has.
func TestSynchronousSteps(t *testing.T) {
	for _, c := range []struct {
		period, first, last int
		want                string
	}{
		{4, 0, 9, "[3 7 9]"},
		{4, 10, 12, "[12]"},
		{4, 13, 22, "[16 20 22]"},
		{1, 5, 7, "[5 6 7]"},
		{10, 3, 12, "[12]"},
	} {
		s := schedule{period: c.period, first: c.first, last: c.last}
		var got []int
		for step := c.first; step <= c.last; step++ {
			if s.isSynchronous(step) {
				got = append(got, step)
			}
			if next := s.nextSynchronous(step); !s.isSynchronous(next) || next < step {
				t.Errorf("%+v: after step %d the next synchronous one is %d", c, step, next)
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%+v: steps %v are synchronous", c, got)
		}
	}
}

// A job that continues another one has its draws and groups.
func TestFirstStep(t *testing.T) {
	const ranks, taken, seed = 8, 7, 3
	err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
		e, err := NewEager(c, 1, EagerOptions{Initiator: Majority, Period: 2, Seed: seed, First: taken})
		whole, err2 := NewWAGMA(c, []float32{0}, WAGMAOptions{GroupSize: 2, Period: 2})
		rest, err3 := NewWAGMA(c, []float32{0}, WAGMAOptions{GroupSize: 2, Period: 2, First: taken})
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		differ := false
		for step := range 5 {
			if got, want := e.initiator(step), initiatorOf(seed, taken+step, ranks); got != want {
				return fmt.Errorf("rank %d starts step %d, want %d", got, step, want)
			}
			a, b := whole.group(taken+step), rest.group(step)
			if a.WorldRank(0) != b.WorldRank(0) || a.WorldRank(1) != b.WorldRank(1) {
				return fmt.Errorf("other groups in step %d", step)
			}
			differ = differ || whole.group(step).WorldRank(1) != b.WorldRank(1)
		}
		if c.Rank() == 0 && !differ {
			return errors.New("groups do not depend on the first step")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
