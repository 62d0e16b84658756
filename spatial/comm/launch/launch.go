// Package launch finds out how this process was started as a rank of a job, and joins it: by an MPI launcher, or over TCP.
package launch

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
	"github.com/ensemble-weather/ensemble/spatial/comm/tcp"
)

// Job connects the processes of a job.
type Job interface {
	comm.Transport
	// Fail sends a report to all other ranks, whose waits end with it, and waits for the given time at most. The process must
	// then end without Close.
	Fail(report []byte, patience time.Duration)
	Failed() map[int][]byte // Failed returns the reports of ranks that have failed so far, by rank.
	Close() error           // Close leaves the job, together with all others, at most after twice the stall timeout.
}

// Launch describes how this process was started.
type Launch struct {
	Transport string // such as "Open MPI" or "TCP"
	Size      int    // number of processes
	Rank      int    // of this process; −1 if unknown
	join      func(stall time.Duration) (Job, error)
}

// Join joins the job. A message that does not arrive within stall fails; 0 is without limit. A process calls it once.
//
// Errors: those of mpi.Join and tcp.Join.
func (l Launch) Join(stall time.Duration) (Job, error) { return l.join(stall) }

// The environment variables of a job over TCP.
const (
	coordinatorVariable = "ENSEMBLE_COORDINATOR" // HOST:PORT of rank 0; its presence selects TCP
	ranksVariable       = "ENSEMBLE_RANKS"
	rankVariable        = "ENSEMBLE_RANK"
	jobVariable         = "ENSEMBLE_JOB"       // a name that all processes share
	rateVariable        = "ENSEMBLE_LINK_RATE" // bytes per second that a process may send
)

// Detect reads from the environment how this process was started. getenv is os.Getenv. ok is false for a single process.
//
// Over TCP the number of ranks is ENSEMBLE_RANKS, or SLURM_NTASKS; the rank is ENSEMBLE_RANK, JOB_COMPLETION_INDEX of an
// indexed job of Kubernetes, or SLURM_PROCID.
func Detect(getenv func(string) string) (l Launch, ok bool) {
	if at := getenv(coordinatorVariable); at != "" {
		o := tcp.Launch{Coordinator: at, Token: getenv(jobVariable)}
		var missing []string
		number := func(what string, names ...string) int {
			for _, name := range names {
				if text := getenv(name); text != "" {
					n, err := strconv.Atoi(text)
					if err != nil {
						missing = append(missing, fmt.Sprintf("%s is %q, and no number", name, text))
					}
					return n
				}
			}
			missing = append(missing, fmt.Sprintf("%s is missing: the number of %s", names[0], what))
			return 0
		}
		o.Size = number("processes", ranksVariable, "SLURM_NTASKS")
		o.Rank = number("this process, from 0", rankVariable, "JOB_COMPLETION_INDEX", "SLURM_PROCID")
		if rate := getenv(rateVariable); rate != "" {
			var err error
			if o.Rate, err = strconv.ParseFloat(rate, 64); err != nil {
				missing = append(missing, fmt.Sprintf("%s is %q, and no number of bytes per second", rateVariable, rate))
			}
		}
		return Launch{"TCP", o.Size, o.Rank, func(stall time.Duration) (Job, error) {
			if len(missing) > 0 {
				return nil, &exit.Error{Code: exit.Usage, What: "the job over TCP is not described completely", At: coordinatorVariable, Why: strings.Join(missing, "; "),
					Fix: "set ENSEMBLE_RANKS, ENSEMBLE_RANK and ENSEMBLE_COORDINATOR for each process"}
			}
			return joined(tcp.Join(o, stall))
		}}, true
	}
	m, ok := mpi.Launched(getenv)
	if !ok {
		return Launch{}, false
	}
	return Launch{m.Implementation.Name, m.Size, m.Rank, func(stall time.Duration) (Job, error) { return joined(mpi.Join(m, stall)) }}, true
}

// joined returns a job as an interface that is nil after an error.
func joined[J Job](j J, err error) (Job, error) {
	if err != nil {
		return nil, err
	}
	return j, nil
}

// UnjoinedTasks returns the number of tasks that srun started without a PMI and without a coordinator, each of which would be
// a job of its own; 0 otherwise.
func UnjoinedTasks(getenv func(string) string) int {
	if _, launched := Detect(getenv); launched {
		return 0
	}
	return mpi.UnjoinedTasks(getenv)
}
