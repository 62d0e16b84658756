package team

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// Teams partitions the ranks of a job into teams for independent tasks, usually one
// task per initialisation. The zero value is a single rank.
type Teams struct {
	All *Team // all ranks; nil for a single rank
	// the team of this rank, which works on one task together; nil if each rank
	// works alone
	Own *Team
}

// SplitRanks splits the ranks of a job into teams of the size of a mesh; a mesh of
// one rank gives each rank its own tasks.
//
// Errors: exit 64 for a mesh whose size does not divide the number of ranks, or
// with an axis "data".
func SplitRanks(c *comm.Comm, mesh string) (w Teams, err error) {
	m, err := spatial.ParseMesh(mesh)
	if err != nil {
		return w, err
	}
	ranks := 1
	if c != nil {
		ranks = c.Size()
	}
	bad := func(why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("mesh %v does not suit a job of %d ranks", m, ranks), At: "--mesh", Why: why, Fix: fix}
	}
	for _, a := range m {
		if a.Name == "data" {
			return w, bad("initialisations are distributed over the groups of ranks automatically", "use only the axes level, lat and lon")
		}
	}
	if ranks%m.Size() != 0 {
		return w, bad(fmt.Sprintf("each initialisation needs %d ranks", m.Size()), "start a multiple of that number of ranks with mpirun or srun, or change the mesh")
	}
	w.All = New(c)
	if m.Size() == 1 {
		return w, nil
	}
	group, err := c.Split(c.Rank()/m.Size(), c.Rank())
	w.Own = &Team{Comm: group, Mesh: m}
	return w, err
}

// RunTeams calls f on the ranks that an MPI launcher started, or else on this
// process alone. A rank that does not answer within stall counts as lost.
//
// Errors: those of SplitRanks and f; exit 71 if a rank was lost.
func RunTeams(mesh string, stall time.Duration, f func(w Teams) error) error {
	as := func(c *comm.Comm) error {
		w, err := SplitRanks(c, mesh)
		if err := New(c).AgreeOnError(err); err != nil {
			return err
		}
		return f(w)
	}
	if !IsLaunched() {
		return as(nil)
	}
	_, err := RunRanks(0, 0, stall, as)
	return err
}

// IsLaunched reports whether an MPI launcher started this process.
func IsLaunched() bool {
	_, launched := mpi.Launched(os.Getenv)
	return launched
}

// Groups returns the number of tasks in progress at a time.
func (w Teams) Groups() int {
	if w.All == nil {
		return 1
	}
	return w.All.Comm.Size() / w.Own.size()
}

// group returns the index of this rank's team.
func (w Teams) group() int {
	if w.All == nil {
		return 0
	}
	return w.All.Comm.Rank() / w.Own.size()
}

// Assigned returns the tasks that Distribute assigns to this rank's team.
func Assigned[T any](w Teams, pieces []T) []T {
	var out []T
	for i := w.group(); i < len(pieces); i += w.Groups() {
		out = append(out, pieces[i])
	}
	return out
}

// Distribute distributes the tasks 0 to n−1 over the teams in rounds: team g works
// on tasks g, g+groups, and so on. All ranks receive all results in the order of
// tasks; the first rank of a team supplies its result. All ranks stop after a round
// with an error.
//
// Errors: that of the first failed task, as a single rank would have found it; exit
// 75 if the context of a rank is cancelled; errors of take; lost ranks.
func Distribute[T any](ctx context.Context, w Teams, n int, work func(i int) (T, error), take func(i int, r T) error) error {
	for first := 0; first < n; first += w.Groups() {
		var o Outcome[T]
		err := ctx.Err()
		if i := first + w.group(); i < n && err == nil {
			o.Result, err = work(i)
		}
		if w.All == nil {
			if err != nil {
				return err
			}
			if err := take(first, o.Result); err != nil {
				return err
			}
			continue
		}
		all, err := AllGatherOutcomes(w.All, o, err)
		if err != nil {
			return err
		}
		for r := 0; r < len(all); r += w.Own.size() {
			if i := first + r/w.Own.size(); i < n {
				if err := take(i, all[r].Result); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
