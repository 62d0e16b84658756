package liveness

import (
	"context"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Message is a message that WaitAny waits for.
type Message interface {
	Test() bool
	Failure() error // Failure returns the error of a message that is done; nil if it succeeded.
	Peer() int      // Peer returns the other rank; OwnProcess for a message within the process.
	Withdraw()      // Withdraw gives up the message, so that its memory is free if the transport can ensure that.
}

// suspended is the time between two looks at a message after which the process itself was stopped, as by SIGSTOP or a suspended
// virtual machine: pauses are shorter than LookEvery.
const suspended = 100 * LookEvery

// WaitAny waits until one of several messages is done and returns the index of the first one that is; −1 with an error if none
// is. Time counts as a stall only while no goroutine of this process can send what is waited for, and while the process runs. stopped reports whether the
// waiting goroutine was cancelled. pause waits for a moment, shorter than LookEvery, or until a message may be done.
//
// Errors: a comm.RankError that wraps ErrStalled, with the rank that causes the stall; a comm.FailedError, with a rank that
// failed; a rank that was lost; those of messages; context.Canceled.
func (m *Monitor) WaitAny(stopped func() bool, pause func(waited time.Duration), all ...Message) (int, error) {
	if i := firstDone(all); i >= 0 {
		return i, all[i].Failure()
	}
	ranks, other := peers(all)
	defer m.waits.begin(ranks...)()
	toItself := slices.Contains(ranks, OwnProcess)
	begin := time.Now()
	quiet, look, last := begin, time.Millisecond, begin
	for {
		if i := firstDone(all); i >= 0 {
			return i, all[i].Failure()
		}
		now := time.Now()
		if gap := now.Sub(last); gap > suspended { // others may have answered meanwhile: the gap is not theirs
			quiet = quiet.Add(gap)
		}
		last = now
		waited := now.Sub(begin)
		if waited > look {
			if err := m.Failure(); err != nil {
				return giveUp(all, err)
			}
			look = waited + LookEvery
		}
		if toItself && m.waits.isRunning() {
			quiet = time.Now()
		}
		if other != OwnProcess && (m.stallKnown.Load() || m.stall > 0 && time.Since(quiet) > time.Duration(stallShare*float64(m.stall))) {
			return giveUp(all, m.stallError(other))
		}
		if stopped() {
			if other == OwnProcess {
				other = m.t.Rank()
			}
			return giveUp(all, &comm.RankError{Rank: other, Err: context.Canceled})
		}
		pause(waited)
	}
}

// firstDone returns the index of the first message that is done; −1 for none.
func firstDone(all []Message) int {
	for i, m := range all {
		if m.Test() {
			return i
		}
	}
	return -1
}

// peers returns the ranks of messages, each once, and the first of them that is another rank; OwnProcess if there is none.
func peers(all []Message) (ranks []int, other int) {
	other = OwnProcess
	for _, m := range all {
		if !slices.Contains(ranks, m.Peer()) {
			ranks = append(ranks, m.Peer())
		}
		if other == OwnProcess {
			other = m.Peer()
		}
	}
	return ranks, other
}

// giveUp ends a wait for messages with an error.
func giveUp(all []Message, err error) (int, error) {
	for _, m := range all {
		m.Withdraw()
	}
	return -1, err
}
