package team

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/launch"
)

// LaunchedProcesses is the number of processes of the job that this one was started in; 1 without a launcher.
func LaunchedProcesses() (n int, launched bool) {
	l, launched := launch.Detect(os.Getenv)
	if !launched {
		return 1, false
	}
	return l.Size, true
}

// CheckJoined refuses tasks of srun that have no interface to each other. why is what would happen.
//
// Errors: exit 64.
func CheckJoined(why string) error {
	n := launch.UnjoinedTasks(os.Getenv)
	if n == 0 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("srun started %d tasks without an MPI interface", n), Why: why,
		Fix: "srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH, or ENSEMBLE_COORDINATOR=HOST:PORT for TCP"}
}

// InProcess is the name of the transport between goroutines of one process.
const InProcess = "in-process"

// IsNonRoot reports whether this process was started as a rank other than 0 of a job. Such a process works but prints no results.
func IsNonRoot() bool {
	l, launched := launch.Detect(os.Getenv)
	return launched && l.Rank > 0
}

// RunRanks calls f on the ranks of a job: on this process if it was
// started as one of several (launch.Detect), else on n ranks within this process. If ranks exceeds the number of
// processes, each process hosts several of them. transport is the name of the
// connection. A rank that does not answer within stall counts as lost.
//
// After an error that only this rank has, the other ranks receive it, and all processes end with its exit code; the rank
// with the error reports it (IsReportedElsewhere).
//
// Errors: those of f, or of the first rank that has one; exit 64 if n is set and differs from the launcher's number; exit 71
// if a rank was lost.
func RunRanks(n, ranks int, stall time.Duration, f func(c *comm.Comm) error) (transport string, err error) {
	l, launched := launch.Detect(os.Getenv)
	if !launched {
		return InProcess, comm.Run(max(n, 1), comm.Parallel, func(c *comm.Comm) error { return RunHostedRanks(c, ranks, f) })
	}
	name := l.Transport
	if n > 0 && n != l.Size {
		return name, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("--ranks %d contradicts the job of %d ranks", n, l.Size),
			Why: "the launcher determines the number of ranks", Fix: "omit --ranks"}
	}
	joined.Store(true)
	w, err := l.Join(stall)
	if err != nil {
		return name, err
	}
	defer reportPanic(w) // hosted ranks return theirs as errors
	if err = RunHostedRanks(comm.New(w), ranks, f); err != nil && !canLeaveTogether(err) {
		return name, failTogether(w, err) // no Close: a process that exits without leaving the job ends it for all ranks
	}
	closed := RankFailure(w.Close())
	if err != nil && w.Rank() > 0 {
		time.Sleep(exitDelay)
	}
	return name, errors.Join(err, closed)
}

// joined: RunRanks was called under a launcher.
var joined atomic.Bool

// EndTogether joins the job that this process was started in, to end it on all ranks with the error that this process found before,
// such as a wrong configuration; one rank reports it. Without an error or a launcher, and after RunRanks, it returns err.
func EndTogether(err error) error {
	if err == nil || !IsLaunched() || joined.Load() {
		return err
	}
	_, err = RunRanks(0, 0, endStall, func(*comm.Comm) error { return err })
	return err
}

// endStall is the stall timeout of a job that ends.
const endStall = 10 * time.Minute

// exitDelay is the time that other ranks wait before they exit, so that rank 0 can
// print the error: launchers kill a job when its first process fails.
const exitDelay = time.Second

// failTogether ends a job in which this rank has an error that others may lack. It sends the error to them, and returns the
// one to end with: of the ranks that fail by themselves at the same time, the first reports its error.
func failTogether(w launch.Job, err error) error {
	err = RankFailure(err)
	if e := firstReport(w, w.Rank()); e != nil {
		time.Sleep(2 * exitDelay) // the rank that failed must end first, or the launcher ends it before it has printed
		return e
	}
	own := *answer.Error(err)
	if own.Code != exit.RankLost {
		atRank(&own, w.Rank())
	}
	text, _ := json.Marshal(withoutCauses(&own)) // texts and numbers only
	begin := time.Now()
	w.Fail(text, exitDelay)
	if w.Rank() > 0 {
		time.Sleep(exitDelay/2 - time.Since(begin)) // a report of a lower rank may be under way
	}
	if e := firstReport(w, w.Rank()); e != nil && e.rank < w.Rank() {
		time.Sleep(2 * exitDelay)
		return e
	}
	return &own
}

// firstReport returns the error of the first other rank that has failed; nil if none has.
func firstReport(w launch.Job, rank int) *reportedError {
	failed := w.Failed()
	for r := range w.Size() {
		if text := failed[r]; text != nil && r != rank {
			e := &exit.Error{}
			if json.Unmarshal(text, e) != nil { // a longer report was cut
				e = &exit.Error{Code: exit.RankLost, What: fmt.Sprintf("rank %d failed", r), Why: string(text), Fix: "check its messages"}
			}
			return &reportedError{r, e}
		}
	}
	return nil
}

// reportPanic sends a panic of this rank to the others and continues it.
func reportPanic(w launch.Job) {
	p := recover()
	if p == nil {
		return
	}
	text, _ := json.Marshal(&exit.Error{Code: exit.Bug, What: fmt.Sprintf("internal error: %v", p), At: fmt.Sprintf("rank %d", w.Rank()), Why: "a bug in the program", Fix: "report it with the messages of this rank"})
	w.Fail(text, exitDelay)
	panic(fmt.Sprintf("rank %d: %v", w.Rank(), p))
}

// reportedError is the error of another rank, which reports it.
type reportedError struct {
	rank int
	err  *exit.Error
}

func (e *reportedError) Error() string { return e.err.Error() }

// Unwrap returns the error of the rank where it occurred.
func (e *reportedError) Unwrap() error { return e.err }

// IsReportedElsewhere reports whether another process of the job prints the result or the error of this one.
func IsReportedElsewhere(err error) bool {
	var other *reportedError
	return errors.As(err, &other) || IsNonRoot() && (err == nil || IsAgreed(err))
}

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
