//go:build cgo && linux

package mpi

import (
	"bytes"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// The last message of a rank to each other one states why it leaves the job: nothing after Close, or the report of Fail. Every
// rank receives them from the start, and looks for a report while it waits for any message, so that no wait outlasts the
// failure of another rank.

// reportBytes is the size of last messages; a longer report is cut.
const reportBytes = 4096

// lookEvery is how often a rank that waits looks for last messages.
const lookEvery = 10 * time.Millisecond

// receiveLast starts to receive the last messages of all other ranks.
func (w *World) receiveLast() {
	w.last, w.reports = make([]comm.Request, w.size), make([][]byte, w.size)
	for r := range w.size {
		if r != w.rank {
			w.reports[r] = make([]byte, reportBytes)
			w.last[r] = w.Recv(r, tagLeave, w.reports[r])
		}
	}
}

// sendLast starts to send the last messages of this rank.
func (w *World) sendLast(report []byte) (sent []comm.Request) {
	text := make([]byte, reportBytes)
	copy(text, report)
	for r := range w.size {
		if r != w.rank {
			sent = append(sent, w.Send(r, tagLeave, text))
		}
	}
	return sent
}

// leaveTogether waits without a timeout until all ranks have called Close. A rank
// that waits inside MPI_Finalize could bring down the launcher when another rank
// fails.
func (w *World) leaveTogether() {
	all := w.sendLast(nil)
	for r, last := range w.last {
		if r != w.rank {
			all = append(all, last)
		}
	}
	for _, r := range all {
		for !r.Test() {
			time.Sleep(maxSleep)
		}
	}
}

// Fail sends a report to all other ranks, whose waits end with a comm.FailedError that holds it, and waits until they have
// received it, or for the given time. The process must then end without Close.
func (w *World) Fail(report []byte, patience time.Duration) {
	sent := w.sendLast(report)
	for end := time.Now().Add(patience); len(sent) > 0 && time.Now().Before(end); {
		if !sent[0].Test() {
			time.Sleep(maxSleep)
			continue
		}
		sent = sent[1:]
	}
}

// Failed returns the reports of ranks that have failed so far, by rank.
func (w *World) Failed() map[int][]byte {
	var failed map[int][]byte
	for r, last := range w.last {
		if r == w.rank || !last.Test() {
			continue
		}
		if text := bytes.TrimRight(w.reports[r], "\x00"); len(text) > 0 {
			if failed == nil {
				failed = map[int][]byte{}
			}
			failed[r] = text
		}
	}
	return failed
}

// failure returns the error of a wait if another rank has failed; of several the one with the lowest number.
func (w *World) failure() error {
	failed := w.Failed()
	for r := range w.size {
		if text := failed[r]; text != nil {
			return &comm.RankError{Rank: r, Err: &comm.FailedError{Report: text}}
		}
	}
	return nil
}
