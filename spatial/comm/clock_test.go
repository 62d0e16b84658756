package comm_test

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// A rank's waits for messages and for tasks count, in groups that are split too; what a
// task waits for beside other work does not.
func TestClock(t *testing.T) {
	const late = 60 * time.Millisecond
	for name, wait := range map[string]struct {
		f     func(c *comm.Comm) error
		waits bool
	}{
		"a message": {func(c *comm.Comm) error { return c.Recv(0, 1, make([]byte, 1)).Wait() }, true},
		"a task": {func(c *comm.Comm) error {
			return c.Go(nil, func(c *comm.Comm) error { return c.Recv(0, 1, make([]byte, 1)).Wait() }).Wait(c)
		}, true},
		"a task beside work": {func(c *comm.Comm) error {
			task := c.Go(nil, func(c *comm.Comm) error { return c.Recv(0, 1, make([]byte, 1)).Wait() })
			time.Sleep(2 * late)
			return task.Wait(c)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := comm.Run(2, comm.Free, func(c *comm.Comm) error {
				c, clock := c.Clocked()
				half, err := c.Split(0, 0)
				if err != nil {
					return err
				}
				if c.Rank() == 0 {
					time.Sleep(late)
					return half.Send(1, 1, []byte{1}).Wait()
				}
				before := clock.Waited()
				if err := wait.f(half); err != nil {
					return err
				}
				if got := clock.Waited() - before; wait.waits != (got > late/2) {
					t.Errorf("waited %v for what came after %v", got, late)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
