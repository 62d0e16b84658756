package liveness

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// twoRanks is a transport that connects two ranks, without messages.
type twoRanks struct{ comm.Transport }

func (twoRanks) Size() int { return 2 }
func (twoRanks) Rank() int { return 0 }

// message is done from the third look on.
type message struct{ looks int }

func (m *message) Test() bool     { m.looks++; return m.looks > 3 }
func (m *message) Failure() error { return nil }
func (m *message) Peer() int      { return 1 }
func (m *message) Withdraw()      {}

// The time in which a process is stopped is no stall of the others: when it continues, it does not report them as lost.
func TestWaitOfAStoppedProcess(t *testing.T) {
	m := &Monitor{t: twoRanks{}, stall: 1200 * time.Millisecond}
	m.waits.running = 1
	stopped := false
	i, err := m.WaitAny(func() bool { return false }, func(time.Duration) {
		if !stopped {
			stopped = true
			time.Sleep(suspended + 100*time.Millisecond) // more than stallShare of the limit
		}
	}, &message{})
	if i != 0 || err != nil {
		t.Errorf("message %d, error %v", i, err)
	}
}
