package liveness

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// The last message of a rank to each other one states why it leaves the job: nothing after LeaveTogether, or the report of
// Fail. Every rank receives them from the start, and looks for a report while it waits for any message, so that no wait
// outlasts the failure of another rank.

// reportBytes is the size of last messages; a longer report is cut.
const reportBytes = 4096

// LookEvery is how often a rank that waits should look for failures.
const LookEvery = 10 * time.Millisecond

// pause is the time between two looks at messages that leave or arrive.
const pause = 500 * time.Microsecond

// receiveLast starts to receive the last messages of all other ranks.
func (m *Monitor) receiveLast() {
	m.last, m.reports = make([]comm.Request, m.t.Size()), make([][]byte, m.t.Size())
	for r := range m.t.Size() {
		if r != m.t.Rank() {
			m.reports[r] = make([]byte, reportBytes)
			m.last[r] = m.t.Recv(r, tagLeave, m.reports[r])
		}
	}
}

// sendLast starts to send the last messages of this rank.
func (m *Monitor) sendLast(report []byte) (sent []comm.Request) {
	text := make([]byte, reportBytes)
	copy(text, report)
	for r := range m.t.Size() {
		if r != m.t.Rank() {
			sent = append(sent, m.t.Send(r, tagLeave, text))
		}
	}
	return sent
}

// leaveStalls is the time after which a rank leaves without the others, in stall timeouts: one that waits for a message of this rank
// reports that first.
const leaveStalls = 2

// LeaveTogether waits until all ranks have called it, at most for twice the stall timeout. Time in which this process was stopped
// does not count.
//
// Errors: a comm.RankError with a rank that was lost before it called LeaveTogether, or that wraps ErrStalled, with the first rank that has
// not called it.
func (m *Monitor) LeaveTogether() error {
	sent := m.sendLast(nil)
	quiet := time.Now()
	for last := quiet; ; time.Sleep(pause) {
		now := time.Now()
		if gap := now.Sub(last); gap > suspended {
			quiet = quiet.Add(gap)
		}
		last = now
		stays := m.staying(sent)
		if loss := m.loss.Load(); loss != nil {
			return loss
		}
		if stays < 0 {
			return nil
		}
		if m.stall > 0 && now.Sub(quiet) > leaveStalls*m.stall {
			return &comm.RankError{Rank: stays, Err: fmt.Errorf("%w: %v: it has not left the job", ErrStalled, leaveStalls*m.stall)}
		}
	}
}

// staying returns the first other rank whose last message has not arrived or that has not received the one of this rank, sent; −1
// for none.
func (m *Monitor) staying(sent []comm.Request) int {
	for r, last := range m.last {
		if r == m.t.Rank() {
			continue
		}
		mine := sent[0]
		sent = sent[1:]
		if !last.Test() || !mine.Test() {
			return r
		}
	}
	return -1
}

// Fail sends a report to all other ranks, whose waits end with a comm.FailedError that holds it, and waits until they have
// received it, or for the given time. The process must then end without LeaveTogether.
func (m *Monitor) Fail(report []byte, patience time.Duration) {
	sent := m.sendLast(report)
	for end := time.Now().Add(patience); len(sent) > 0 && time.Now().Before(end); {
		if !sent[0].Test() {
			time.Sleep(pause)
			continue
		}
		sent = sent[1:]
	}
}

// Failed returns the reports of ranks that have failed so far, by rank.
func (m *Monitor) Failed() map[int][]byte {
	var failed map[int][]byte
	for r, last := range m.last {
		if r == m.t.Rank() || !last.Test() {
			continue
		}
		if text := bytes.TrimRight(m.reports[r], "\x00"); len(text) > 0 {
			if failed == nil {
				failed = map[int][]byte{}
			}
			failed[r] = text
		}
	}
	return failed
}

// Failure returns the error of a wait if another rank has failed or was lost; of several that failed the one with the lowest
// number.
func (m *Monitor) Failure() error {
	failed := m.Failed()
	for r := range m.t.Size() {
		if text := failed[r]; text != nil {
			return &comm.RankError{Rank: r, Err: &comm.FailedError{Report: text}}
		}
	}
	if loss := m.loss.Load(); loss != nil {
		return loss
	}
	return nil
}

// HasLeft reports whether the last message of another rank has arrived.
func (m *Monitor) HasLeft(rank int) bool { return m.last[rank].Test() }
