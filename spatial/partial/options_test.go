package partial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Invalid options are refused before a message is sent; the error has the nearest valid ones.
func TestOptions(t *testing.T) {
	eager := func(o EagerOptions) func(c *comm.Comm) error {
		return func(c *comm.Comm) error { _, err := NewEager(c, 1, o); return err }
	}
	wagma := func(o WAGMAOptions) func(c *comm.Comm) error {
		return func(c *comm.Comm) error { _, err := NewWAGMA(c, []float32{0}, o); return err }
	}
	local := func(o LocalOptions) func(c *comm.Comm) error {
		return func(c *comm.Comm) error { _, err := NewLocal(c, []float32{0}, o); return err }
	}
	for _, k := range []struct {
		ranks int
		f     func(c *comm.Comm) error
		want  []string
	}{
		{2, eager(EagerOptions{}), []string{"period of synchronous steps 0", "set 1 or more"}},
		{4, wagma(WAGMAOptions{GroupSize: 2}), []string{"period of synchronous steps 0"}},
		{6, wagma(WAGMAOptions{GroupSize: 2, Period: 3}), []string{"6 ranks cannot average in groups", "use 4 or 8 ranks"}},
		{8, wagma(WAGMAOptions{GroupSize: 3, Period: 3}), []string{"groups of 3", "use groups of 2 or 4"}},
		{8, wagma(WAGMAOptions{GroupSize: 16, Period: 3}), []string{"groups of 16 in 8 ranks", "use groups of 8 or fewer"}},
		{8, wagma(WAGMAOptions{Period: 3}), []string{"groups of 0", "use groups of 1 or more"}},
		{2, local(LocalOptions{Rate: 1}), []string{"0 steps", "set 1 step or more"}},
		{2, local(LocalOptions{Steps: 3, Rate: 1, Momentum: 1}), []string{"momentum 1"}},
		{2, local(LocalOptions{Steps: 3}), []string{"rate 0"}},
	} {
		err := comm.Run(k.ranks, comm.Parallel, func(c *comm.Comm) error {
			err := k.f(c)
			if c.Traffic().Messages > 0 {
				return errors.New("messages were sent")
			}
			return err
		})
		for _, want := range k.want {
			if err == nil || exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
}

// Steps without Start, a second Start, and vectors of another length are refused, as are logs
// of other runs.
func TestMisuse(t *testing.T) {
	err := comm.Run(1, comm.Parallel, func(c *comm.Comm) error {
		e, err := NewEager(c, 2, EagerOptions{Period: 3})
		if err != nil {
			return err
		}
		expect := func(want string, err error) error {
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%v, want %q", err, want)
			}
			return nil
		}
		_, unstarted := e.Step(make([]float32, 2))
		none := e.Start(0)
		if err := e.Start(2); err != nil {
			return err
		}
		_, long := e.Step(make([]float32, 3))
		again := e.Start(1)
		e.Cancel()
		return errors.Join(expect("step 0 was not started", unstarted), expect("start of 0 steps", none), expect("gradient of 3 values, want 2", long), expect("start of 1 steps at step 0", again))
	})
	if err != nil {
		t.Error(err)
	}
	for name, log := range map[string]*Log{
		"short":               {Versions: []int{1, 2}, Applied: []int{1, 2}},
		"future version":      {Versions: []int{2, 2, 3}, Applied: []int{1, 2, 3}},
		"late at the end":     {Versions: []int{1, 2, 2}, Applied: []int{1, 2, 3}},
		"fewer versions":      {Versions: []int{1, 0, 3}, Applied: []int{1, 2, 3}},
		"result of no step":   {Versions: []int{1, 2, 3}, Applied: []int{0, 2, 3}},
		"beyond synchronous":  {Versions: []int{1, 2, 3}, Applied: []int{3, 3, 3}},
		"results of the next": {Versions: []int{1, 2, 3}, Applied: []int{1, 2, 4}},
		"skipped steps":       {Versions: []int{1, 2, 3}, Applied: []int{1, 2, 3}, Skipped: []int{1}},
	} {
		err := comm.Run(1, comm.Parallel, func(c *comm.Comm) error {
			e, err := NewEager(c, 1, EagerOptions{Period: 3, Replay: log})
			if err != nil {
				return err
			}
			return e.Start(3)
		})
		if exit.CodeOf(err) != exit.BadData {
			t.Errorf("log that is wrong (%s): %v", name, err)
		}
	}
}

// With Skip a log states which steps a rank left out as its arrivals say.
func TestLogOfSkips(t *testing.T) {
	for _, k := range []struct {
		log Log
		ok  bool
	}{
		{Log{Versions: []int{1, 2, 3, 4}, Applied: []int{1, 2, 3, 4}}, true},
		{Log{Versions: []int{0, 0, 2, 4}, Applied: []int{2, 2, 4, 4}, Skipped: []int{1, 3}}, true}, // late in step 2, before one that waits
		{Log{Versions: []int{0, 0, 3, 4}, Applied: []int{2, 2, 3, 4}, Skipped: []int{1}}, true},
		{Log{Versions: []int{0, 0, 3, 4}, Applied: []int{2, 2, 3, 4}}, false},
		{Log{Versions: []int{0, 0, 3, 4}, Applied: []int{1, 2, 3, 4}, Skipped: []int{1}}, false},
		{Log{Versions: []int{0, 0, 1, 4}, Applied: []int{2, 2, 3, 4}, Skipped: []int{1}}, false}, // it never continues with step 1
		{Log{Versions: []int{0, 0, 0, 4}, Applied: []int{4, 4, 4, 4}, Skipped: []int{1, 2, 3}}, true},
		{Log{Versions: []int{0, 0, 0, 4}, Applied: []int{3, 3, 3, 4}, Skipped: []int{1, 2}}, false}, // step 3 waits for all
	} {
		err := k.log.check(schedule{period: 4, last: 3, skips: true}, 0)
		if k.ok != (err == nil) || !k.ok && exit.CodeOf(err) != exit.BadData {
			t.Errorf("%+v: %v", k.log, err)
		}
	}
}

// A rank that fails ends the steps of the others with an error; one that cancels its steps
// ends them itself.
func TestFailures(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2)} {
		for _, o := range []EagerOptions{{Period: 4}, {Initiator: Majority, Period: 100}} {
			err := comm.Run(3, mode, func(c *comm.Comm) error {
				return runEager(c, o, 20, eagerRun{update: func(u Update, _ []float32) error {
					if c.Rank() == 1 && u.Step == 6 {
						return errors.New("broken")
					}
					return nil
				}})
			})
			if err == nil || !strings.Contains(err.Error(), "rank 1: broken") {
				t.Errorf("%v, %+v: %v", mode, o, err)
			}
		}
		err := comm.Run(1, mode, func(c *comm.Comm) error {
			e, err := NewEager(c, 1, EagerOptions{Period: 4})
			if err != nil {
				return err
			}
			if err := e.Start(5); err != nil {
				return err
			}
			e.Cancel()
			if _, err := e.Step([]float32{1}); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("after Cancel: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
