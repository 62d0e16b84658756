package comm_test

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Spans have the messages of a rank, its waits and its tasks while they are recorded, and no others. Messages of tasks are within
// their task.
func TestSpans(t *testing.T) {
	const late = 20 * time.Millisecond
	var spans [2][]comm.Span
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		c, clock := c.WithWaitClock()
		tasks, err := c.Split(0, c.Rank())
		if err != nil {
			return err
		}
		talk := func(g *comm.Comm, n int) error {
			x := make([]float32, n)
			if g.Rank() == 0 {
				time.Sleep(late)
				return g.Send(1, 3, x).Wait()
			}
			return g.Recv(0, 3, x).Wait()
		}
		if err := talk(c, 5); err != nil { // not recorded
			return err
		}
		clock.Record()
		task := tasks.Go(nil, func(g *comm.Comm) error { return talk(g, 1000) })
		if err := talk(c, 10); err != nil {
			return err
		}
		if err := task.Wait(c); err != nil {
			return err
		}
		spans[c.Rank()] = clock.Spans()
		if err := talk(c, 5); err != nil { // not recorded
			return err
		}
		if again := clock.Spans(); again != nil {
			t.Errorf("rank %d: spans after the record: %v", c.Rank(), again)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for rank, all := range spans {
		count := map[comm.SpanKind]int{}
		for _, s := range all {
			count[s.Kind]++
			if s.End.Before(s.Begin) {
				t.Errorf("rank %d: %+v ends before it begins", rank, s)
			}
			switch s.Kind {
			case comm.SendSpan, comm.ReceiveSpan:
				if s.Peer != 1-rank || s.Bytes != 40 || (s.Kind == comm.SendSpan) != (rank == 0) {
					t.Errorf("rank %d: %+v", rank, s)
				}
			case comm.TaskSpan:
				if want := int64(4000 * (1 - rank)); s.Bytes != want {
					t.Errorf("rank %d: a task sent %d bytes, want %d", rank, s.Bytes, want)
				}
			}
		}
		if count[comm.TaskSpan] != 1 || count[comm.WaitSpan] != 2 || count[comm.SendSpan]+count[comm.ReceiveSpan] != 1 {
			t.Errorf("rank %d: %v", rank, count)
		}
	}
	for _, s := range spans[1] {
		if s.Kind == comm.ReceiveSpan && s.End.Sub(s.Begin) < late/2 {
			t.Errorf("the message came after %v, its span is %v", late, s.End.Sub(s.Begin))
		}
	}
}
