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

// Teams is the ranks of a job whose pieces of work, dates as a rule, do not depend on
// each other. The zero value is one rank alone.
type Teams struct {
	All *Team // nil for one rank alone
	Own *Team // the ranks that work on one piece together; nil if each works on its own
}

// SplitRanks parts the ranks of a job into teams of the size of a mesh, and makes each
// work on pieces of its own; a mesh of one rank gives each rank its own pieces.
//
// Errors: exit 64 for a mesh that does not divide the ranks, or with an axis "data".
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
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the mesh %v does not suit a job of %d ranks", m, ranks), At: "--mesh", Why: why, Fix: fix}
	}
	for _, a := range m {
		if a.Name == "data" {
			return w, bad("starts are dealt out to groups of ranks by themselves", "name only level, lat and lon")
		}
	}
	if ranks%m.Size() != 0 {
		return w, bad(fmt.Sprintf("each start takes %d ranks", m.Size()), "start a multiple of as many ranks under mpirun or srun, or choose another mesh")
	}
	w.All = New(c)
	if m.Size() == 1 {
		return w, nil
	}
	group, err := c.Split(c.Rank()/m.Size(), c.Rank())
	w.Own = &Team{Comm: group, Mesh: m}
	return w, err
}

// RunTeams calls f on the ranks of the job that an MPI launcher started, else on this
// process alone. A rank that waits for another for stall takes it for lost.
//
// Errors: those of newCrew and f; exit 71 if a rank was lost.
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

// IsLaunched tells whether an MPI launcher started this process.
func IsLaunched() bool {
	_, launched := mpi.Launched(os.Getenv)
	return launched
}

// Groups is how many pieces are under way at once, group which of them is this rank's.
func (w Teams) Groups() int {
	if w.All == nil {
		return 1
	}
	return w.All.Comm.Size() / w.Own.size()
}

func (w Teams) group() int {
	if w.All == nil {
		return 0
	}
	return w.All.Comm.Rank() / w.Own.size()
}

// Assigned are the pieces that deal gives this rank.
func Assigned[T any](w Teams, pieces []T) []T {
	var out []T
	for i := w.group(); i < len(pieces); i += w.Groups() {
		out = append(out, pieces[i])
	}
	return out
}

// Distribute lets the groups of a crew work on the pieces 0 to n-1 in turns: group g on the
// pieces g, g+groups and so on. All ranks are given all results, in the order of the
// pieces, whoever made them; of a group that of its first rank. After a turn with an
// error all end.
//
// Errors: that of the first piece with one, as one rank would have found it; exit 75
// if a rank's context is cancelled; what take gives; ranks that are lost.
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
