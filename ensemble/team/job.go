package team

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// InProcess is the name of the transport between goroutines of one process.
const InProcess = "in-process"

// IsNonRoot reports whether an MPI launcher started this process as a rank other
// than 0. Such a process works but prints no results.
func IsNonRoot() bool {
	l, launched := mpi.Launched(os.Getenv)
	return launched && l.Rank > 0
}

// RunRanks calls f on the ranks of a job: on this process if an MPI launcher
// started it, else on n ranks within this process. If ranks exceeds the number of
// processes, each process hosts several of them. transport is the name of the
// connection. A rank that does not answer within stall counts as lost.
//
// After an error that only this rank has, the process ends without leaving the job, which
// makes the launcher end all ranks; otherwise they would wait for it.
//
// Errors: those of f; exit 64 if n is set and differs from the launcher's number; exit 71
// if a rank was lost.
func RunRanks(n, ranks int, stall time.Duration, f func(c *comm.Comm) error) (transport string, err error) {
	onOwn := func(c *comm.Comm) error { return RunHostedRanks(c, ranks, f) }
	l, launched := mpi.Launched(os.Getenv)
	if !launched {
		return InProcess, comm.Run(max(n, 1), comm.Parallel, onOwn)
	}
	name := l.Implementation.Name
	if n > 0 && n != l.Size {
		return name, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("--ranks %d contradicts the job of %d ranks", n, l.Size),
			Why: "the launcher determines the number of ranks", Fix: "omit --ranks"}
	}
	w, err := mpi.Join(l, stall)
	if err != nil {
		return name, err
	}
	if err = onOwn(comm.New(w)); err != nil && !canLeaveTogether(err) {
		return name, RankFailure(err) // no Close: a process that exits without leaving the job ends it for all ranks
	}
	closed := w.Close()
	if err != nil && w.Rank() > 0 {
		time.Sleep(exitDelay)
	}
	return name, errors.Join(err, closed)
}

// exitDelay is the time that other ranks wait before they exit, so that rank 0 can
// print the error: launchers kill a job when its first process fails.
const exitDelay = time.Second

// RankFailure converts the failure of another rank to an error with exit code 71.
func RankFailure(err error) error {
	var r *comm.RankError
	if !errors.As(err, &r) || exit.CodeOf(err) == exit.RankLost {
		return err
	}
	return &exit.Error{Code: exit.RankLost, What: fmt.Sprintf("rank %d was lost", r.Rank), Why: err.Error(),
		Fix: "check its messages and run the same command again; for train add --resume auto", Err: err}
}

// A mesh may have more ranks than the job has processes. Each process then hosts
// several ranks as goroutines, which do not depend on the number of processes.

// RunHostedRanks calls f on the given number of ranks, hosted by the processes of c, if they
// are more than the processes; else on c.
//
// Rank r runs in the process that comm.HostRanks assigns, and results do not depend on the
// assignment.
//
// Errors: the first error of f on a rank of this process.
func RunHostedRanks(c *comm.Comm, ranks int, f func(c *comm.Comm) error) error {
	if ranks <= c.Size() {
		return f(c)
	}
	// An error that all ranks have must not make the messages of
	// slower ranks fail: keep the error and return nil.
	var mu sync.Mutex
	var known error
	first := ranks
	err := comm.HostRanks(c, ranks, func(c *comm.Comm) error {
		err := f(c)
		if err == nil || !canLeaveTogether(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if c.Rank() < first {
			known, first = err, c.Rank()
		}
		return nil
	})
	if err == nil {
		err = known
	}
	return err
}

// ProcessCount returns the number of processes that run the ranks of c.
func ProcessCount(c *comm.Comm) int { return c.Process(c.Size()-1) + 1 }

// canLeaveTogether reports whether all ranks have the error, so that they can leave
// the job together.
func canLeaveTogether(err error) bool { return exit.CodeOf(err) == exit.SaveAndStop || IsAgreed(err) }
