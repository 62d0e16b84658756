// Package liveness detects ranks that fail, and ranks that keep others waiting, for transports between processes.
//
// A rank that fails reports its error to all others, whose waits then end with it (Monitor.Fail). A rank that does not
// answer within the stall timeout is found by following the waits from rank to rank, so that the one that causes the stall is
// named and not one that waits itself. A transport states a connection that ends (Monitor.Lose).
//
//	w.Monitor = liveness.New(w, stall) // w is the transport
//	...
//	i, err := w.Monitor.WaitAny(isCanceled, pause, messages...)
package liveness

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Monitor is the view of one process on the processes of a job.
//
// Concurrency: any goroutine may call its methods.
type Monitor struct {
	t       comm.Transport // accepts messages from any goroutine, with tags up to comm.MaxTag
	stall   time.Duration  // stall timeout; 0 is without limit
	waits   waitCounts
	last    []comm.Request // last messages of the other ranks, by rank
	reports [][]byte       // their content

	loss       atomic.Pointer[comm.RankError]
	stallOnce  sync.Once   // determines the cause of a stall once
	stallKnown atomic.Bool // the cause is known
	stallCause stallCause
}

// New returns the monitor of a transport that connects all processes. The calling goroutine counts as running.
func New(t comm.Transport, stall time.Duration) *Monitor {
	m := &Monitor{t: t, stall: stall}
	m.waits.running = 1
	m.receiveLast()
	return m
}

// StallTimeout returns how long a rank waits for another before that counts as lost; 0 is without limit.
func (m *Monitor) StallTimeout() time.Duration { return m.stall }

// BeginWait starts to count a wait of a goroutine for others of its process; end stops.
func (m *Monitor) BeginWait() (end func()) { return m.waits.begin(OwnProcess) }

// Lose ends the waits of this process, because the transport has found a rank lost. The first loss counts.
func (m *Monitor) Lose(err *comm.RankError) { m.loss.CompareAndSwap(nil, err) }
