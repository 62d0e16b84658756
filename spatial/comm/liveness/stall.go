package liveness

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Tags beyond those of groups: for the exchange of wait states after a stall, and
// for the last message of a rank.
const (
	tagStall = comm.MaxTag - iota
	tagLeave
)

// stallShare is the share of the stall timeout after which a rank starts to
// exchange wait states with the others. The rest of the timeout is for that
// exchange.
const stallShare = 0.8

// stallCause is the rank that keeps the others waiting.
type stallCause struct {
	rank int
	left bool // it has called LeaveTogether
}

// OwnProcess stands for another goroutine of the same process as the target of a wait.
const OwnProcess = -1

// ErrStalled means that another rank did not answer within the stall timeout.
var ErrStalled = errors.New("no answer in time")

// waitCounts counts the waits of the goroutines of a rank, those that Go started
// included.
type waitCounts struct {
	mu      sync.Mutex
	running int         // goroutines that do not wait
	ranks   map[int]int // number of waits by rank
}

// add counts goroutines that start (n > 0) or end.
func (w *waitCounts) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += n
}

// isRunning reports whether a goroutine does not wait.
func (w *waitCounts) isRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running > 0
}

// begin starts to count a wait for one of several ranks; end stops.
func (w *waitCounts) begin(ranks ...int) (end func()) {
	count := func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running -= n
		if w.ranks == nil {
			w.ranks = map[int]int{}
		}
		for _, r := range ranks {
			w.ranks[r] += n
		}
	}
	count(1)
	return func() { count(-1) }
}

// fill sets ranks[r] to 1 for each rank that this one waits for, else to 0. It
// reports whether all goroutines wait.
func (w *waitCounts) fill(ranks []int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range ranks {
		ranks[r] = int64(min(w.ranks[r], 1))
	}
	return w.running == 0
}

// stallError returns the error of a wait for rank other that timed out. A rank that
// waits itself reports its targets, and the search continues with these. All other
// waits of this rank then end with the same result.
func (m *Monitor) stallError(other int) error {
	m.stallOnce.Do(func() {
		m.stallCause = m.findStallCause(other)
		m.stallKnown.Store(true)
	})
	err := fmt.Errorf("%w: %v", ErrStalled, m.stall)
	if m.stallCause.left {
		err = fmt.Errorf("%w: it has already finished", err)
	}
	if m.stallCause.rank != other {
		err = fmt.Errorf("%w; rank %d also waits", err, other)
	}
	return &comm.RankError{Rank: m.stallCause.rank, Err: err}
}

// findStallCause follows the waits from rank to rank until it finds a rank that
// does not report that it waits. The result is other if all ranks wait in a cycle,
// and this rank if one of its own goroutines does not wait.
func (m *Monitor) findStallCause(other int) stallCause {
	n := m.t.Size()
	waits, reports, left := make([]int64, n*n), make([]comm.Request, n), m.last
	row := func(r int) []int64 { return waits[r*n : (r+1)*n] }
	for r := range n {
		if r != m.t.Rank() {
			reports[r] = m.t.Recv(r, tagStall, row(r))
		}
	}
	reported := false
	last := stallCause{rank: other}
	for end := time.Now().Add(time.Duration((1 - stallShare) * float64(m.stall))); time.Now().Before(end); time.Sleep(pause) {
		if !reported && m.waits.fill(row(m.t.Rank())) {
			reported = true
			for r := range n {
				if r != m.t.Rank() {
					m.t.Send(r, tagStall, row(m.t.Rank())) // the request is not waited for: the process ends soon
				}
			}
		}
		if !reported {
			last = stallCause{rank: m.t.Rank()}
			continue
		}
		seen := make([]bool, n)
		seen[m.t.Rank()] = true
		silent := OwnProcess
		for next := []int{m.t.Rank()}; len(next) > 0 && silent == OwnProcess; next = next[1:] {
			for r, waited := range row(next[0]) {
				switch {
				case waited == 0 || seen[r]:
				case left[r].Test():
					return stallCause{r, true}
				case reports[r].Test():
					seen[r] = true
					next = append(next, r)
				case silent == OwnProcess:
					silent = r
				}
			}
		}
		if silent == OwnProcess {
			return stallCause{rank: other}
		}
		last = stallCause{rank: silent}
	}
	return last
}
