package team

import (
	"fmt"
	"os"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/launch"
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
		if a.Name == spatial.DataAxis {
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

// IsLaunched reports whether this process was started as a rank of a job.
func IsLaunched() bool {
	_, launched := launch.Detect(os.Getenv)
	return launched
}

// Groups returns the number of tasks in progress at a time.
func (w Teams) Groups() int {
	if w.All == nil {
		return 1
	}
	return w.All.Comm.Size() / w.Own.Size()
}

// group returns the index of this rank's team.
func (w Teams) group() int {
	if w.All == nil {
		return 0
	}
	return w.All.Comm.Rank() / w.Own.Size()
}
