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

// InProcess is the transport of ranks that are goroutines of one process.
const InProcess = "in-process"

// IsNonRoot tells whether an MPI launcher started this process as a rank other than 0.
// Such a process does its part of the work and leaves the answer to rank 0.
func IsNonRoot() bool {
	l, launched := mpi.Launched(os.Getenv)
	return launched && l.Rank > 0
}

// RunRanks calls f on the ranks of a job: on this process's rank if an MPI launcher
// started it, else on n ranks of this process; on parts of these if there are more parts.
// transport names what joins them. A rank that waits for another for stall takes it for
// lost.
//
// Errors: what f gives on a rank; exit 64 if n is given and differs from the launcher's
// number; exit 71 if a rank was lost.
func RunRanks(n, parts int, stall time.Duration, f func(c *comm.Comm) error) (transport string, err error) {
	onOwn := func(c *comm.Comm) error { return RunHostedRanks(c, parts, f) }
	l, launched := mpi.Launched(os.Getenv)
	if !launched {
		return InProcess, comm.Run(max(n, 1), comm.Parallel, onOwn)
	}
	name := l.Implementation.Name
	if n > 0 && n != l.Size {
		return name, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("--ranks %d in a job of %d ranks", n, l.Size),
			Why: "the launcher says how many ranks there are", Fix: "leave out --ranks"}
	}
	w, err := mpi.Join(l, stall)
	if err != nil {
		return name, err
	}
	if err = onOwn(comm.New(w)); err != nil && !canLeaveTogether(err) {
		return name, RankFailure(err) // a process that ends without leaving the job ends the job
	}
	closed := w.Close()
	if err != nil && w.Rank() > 0 {
		time.Sleep(exitDelay)
	}
	return name, errors.Join(err, closed)
}

// exitDelay is the time that rank 0 has to say why all ranks stop, before another one ends with
// its exit code: launchers kill a job when its first process fails. A launcher that does so
// when rank 0 ends cuts the wait short.
const exitDelay = time.Second

// RankFailure gives the failure of another rank its exit code.
func RankFailure(err error) error {
	var r *comm.RankError
	if !errors.As(err, &r) || exit.CodeOf(err) == exit.RankLost {
		return err
	}
	return &exit.Error{Code: exit.RankLost, What: fmt.Sprintf("rank %d was lost", r.Rank), Why: err.Error(),
		Fix: "look at its messages, and run the same command again, train with --resume auto", Err: err}
}

// A mesh may have more parts than there are processes. Each process then runs several, as
// goroutines: they are the ranks of the mesh, and do not see how many processes there are.

// RunHostedRanks calls f on that many parts, if they are more than the processes of c; else on c.
//
// Errors: what f gives on a part of this process.
func RunHostedRanks(c *comm.Comm, parts int, f func(c *comm.Comm) error) error {
	if parts <= c.Size() {
		return f(c)
	}
	// A part that ends with what all know must not take messages from those that are not
	// yet as far.
	var mu sync.Mutex
	var known error
	first := parts
	err := comm.HostRanks(c, parts, func(c *comm.Comm) error {
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

// ProcessCount is how many run the ranks of c.
func ProcessCount(c *comm.Comm) int { return c.Process(c.Size()-1) + 1 }

// canLeaveTogether tells whether an error is one that all ranks have, so that they leave the job
// together.
func canLeaveTogether(err error) bool { return exit.CodeOf(err) == exit.SaveAndStop || IsAgreed(err) }
