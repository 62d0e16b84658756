package comm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// A cancelled task ends although its message never arrives; so does the task after
// it.
func TestCancel(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2), comm.Replay(3)} {
		err := comm.Run(2, mode, func(c *comm.Comm) error {
			tasks, err := c.Split(0, c.Rank())
			if err != nil {
				return err
			}
			x := make([]float32, 1)
			first := tasks.Go(nil, func(g *comm.Comm) error { return g.Recv(1-g.Rank(), 0, x).Wait() })
			second := tasks.Go(first, func(*comm.Comm) error { panic("the task before it failed") })
			if err := comm.Barrier(c); err != nil {
				return err
			}
			first.Cancel()
			var other *comm.RankError
			if err := second.Wait(c); !errors.Is(err, context.Canceled) || !errors.As(err, &other) || other.Rank != 1-c.Rank() {
				return fmt.Errorf("cancelled: %v", err)
			}
			return comm.Barrier(c)
		})
		if err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// A deadlock of a task is reported with its rank; a rank that fails ends the tasks
// of others.
func TestTasksEnd(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2)} {
		for name, k := range map[string]struct {
			last func() error
			want string
		}{
			"returns": {func() error { return nil }, "rank 0 waits for its own task, rank 0 waits for a message from rank 1, tag 0"},
			"fails":   {func() error { return errors.New("broken") }, "rank 1: broken"},
		} {
			err := comm.Run(2, mode, func(c *comm.Comm) error {
				if c.Rank() == 1 {
					return k.last()
				}
				x := make([]float32, 1)
				return c.Go(nil, func(g *comm.Comm) error { return g.Recv(1, 0, x).Wait() }).Wait(c)
			})
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("rank 1 %s, %v: %v, want %q", name, mode, err, k.want)
			}
		}
	}
}

// A wait for any message ends with the run: with the first message, when a rank fails, in a
// deadlock, whose report lists all messages, and in a cancelled task.
func TestWaitAnyEnds(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2)} {
		wait := func(c *comm.Comm) error {
			i, err := c.WaitAny(c.Recv(1, 0, make([]byte, 1)), c.Recv(1, 1, make([]byte, 1)))
			if i != -1 {
				return fmt.Errorf("message %d", i)
			}
			return err
		}
		for name, k := range map[string]struct {
			last func() error
			want string
		}{
			"returns": {func() error { return nil }, "rank 0 waits for a message from rank 1, tag 0 or for a message from rank 1, tag 1"},
			"fails":   {func() error { return errors.New("broken") }, "rank 1: broken"},
		} {
			err := comm.Run(2, mode, func(c *comm.Comm) error {
				if c.Rank() == 1 {
					return k.last()
				}
				return wait(c)
			})
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("rank 1 %s, %v: %v, want %q", name, mode, err, k.want)
			}
		}
		err := comm.Run(2, mode, func(c *comm.Comm) error {
			if c.Rank() == 1 {
				return nil
			}
			task := c.Go(nil, wait)
			task.Cancel()
			var other *comm.RankError
			if err := task.Wait(c); !errors.Is(err, context.Canceled) || !errors.As(err, &other) || other.Rank != 1 {
				return fmt.Errorf("cancelled: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
