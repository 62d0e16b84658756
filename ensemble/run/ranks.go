package run

import (
	"fmt"
	"os"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// stallTimeout is how long a rank waits for another before the job ends.
const stallTimeout = 10 * time.Minute

// InProcess is the transport of ranks that are goroutines of one process.
const InProcess = "in-process"

// onRanks calls f on the ranks of a job: on this process's rank if an MPI launcher
// started it, else on n ranks of this process. transport names what joins them.
//
// Errors: what f gives on a rank; exit 64 if n is given and differs from the launcher's
// number.
func onRanks(n int, f func(c *comm.Comm) error) (transport string, err error) {
	l, launched := mpi.Launched(os.Getenv)
	if !launched {
		return InProcess, comm.Run(max(n, 1), comm.Free, f)
	}
	name := l.Implementation.Name
	if n > 0 && n != l.Size {
		return name, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("--ranks %d in a job of %d ranks", n, l.Size),
			Why: "the launcher says how many ranks there are", Fix: "leave out --ranks"}
	}
	w, err := mpi.Join(l, stallTimeout)
	if err != nil {
		return name, err
	}
	if err := f(comm.New(w)); err != nil {
		return name, err // a process that ends without leaving the job ends the job
	}
	return name, w.Close()
}
