package comm_test

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Waits of a rank for messages and tasks count, also in groups that are split
// later. Waits within a task that runs concurrently with other work do not count.
func TestClock(t *testing.T) {
	const late = 60 * time.Millisecond
	for name, wait := range map[string]struct {
		f     func(c *comm.Comm, sent <-chan struct{}) error
		waits bool
	}{
		"a message": {func(c *comm.Comm, _ <-chan struct{}) error { return c.Recv(0, 1, make([]byte, 1)).Wait() }, true},
		"a task": {func(c *comm.Comm, _ <-chan struct{}) error {
			return c.Go(nil, func(c *comm.Comm) error { return c.Recv(0, 1, make([]byte, 1)).Wait() }).Wait(c)
		}, true},
		"a task during work": {func(c *comm.Comm, sent <-chan struct{}) error {
			task := c.Go(nil, func(c *comm.Comm) error { return c.Recv(0, 1, make([]byte, 1)).Wait() })
			<-sent
			time.Sleep(late)
			return task.Wait(c)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var got time.Duration
			for range 5 { // on a busy machine a rank may reach its wait late, or a task its end
				ready, sent := make(chan struct{}), make(chan struct{})
				err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
					c, clock := c.WithWaitClock()
					half, err := c.Split(0, 0)
					if err != nil {
						return err
					}
					if c.Rank() == 0 {
						<-ready
						time.Sleep(late)
						defer close(sent)
						return half.Send(1, 1, []byte{1}).Wait()
					}
					before := clock.Waited()
					close(ready)
					err = wait.f(half, sent)
					got = clock.Waited() - before
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if wait.waits == (got > late/2) {
					return
				}
			}
			t.Errorf("waited %v for a message that came after %v", got, late)
		})
	}
}
