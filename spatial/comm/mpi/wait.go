//go:build cgo && linux

package mpi

/*
#include <sched.h>
*/
import "C"

import (
	"runtime"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/liveness"
)

// A rank first polls and yields the core in between, because a message within a
// machine takes microseconds. Then it sleeps for increasing times. The OS thread
// itself sleeps: Go timers have a resolution of a millisecond in an otherwise idle
// process.
const (
	spinTime = time.Millisecond
	minSleep = 20 * time.Microsecond
	maxSleep = 500 * time.Microsecond
)

// WaitAny waits for the first of several messages.
func (v view) WaitAny(requests []comm.Request) (int, error) {
	all := make([]liveness.Message, len(requests))
	for i, r := range requests {
		all[i] = r.(liveness.Message)
	}
	return v.waitAny(v.by, all...)
}

// waitAny waits until one of several messages of a goroutine is done.
//
// Errors: those of liveness.Monitor.WaitAny.
func (w *World) waitAny(by *liveness.Task, all ...liveness.Message) (int, error) {
	sleep := minSleep
	return w.Monitor.WaitAny(by.IsCanceled, func(waited time.Duration) {
		if waited <= spinTime {
			runtime.Gosched()
			C.sched_yield()
			return
		}
		t := syscall.NsecToTimespec(int64(sleep))
		_ = syscall.Nanosleep(&t, nil) // a signal may end it early
		sleep = min(2*sleep, maxSleep)
	}, all...)
}

// Failure returns the error of a message that is done.
func (r *request) Failure() error {
	if r.err != nil {
		return &comm.RankError{Rank: r.other, Err: r.err}
	}
	return nil
}

// Peer returns the other rank.
func (r *request) Peer() int { return r.other }

// Withdraw does nothing: MPI keeps the memory of a message, see pending.
func (r *request) Withdraw() {}

// Failure returns the error of a message that is done.
func (m *selfMessage) Failure() error {
	if m.err != nil {
		return &comm.RankError{Rank: m.rank, Err: m.err}
	}
	return nil
}

// Peer returns the own process.
func (m *selfMessage) Peer() int { return liveness.OwnProcess }

// Withdraw removes the message.
func (m *selfMessage) Withdraw() { m.letters.remove(m) }
