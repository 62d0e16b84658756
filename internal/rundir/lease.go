package rundir

import (
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/lease"
)

const lockFile = "run.lock"

// Hold takes the lease of a folder, which must be there. It is for folders that are no
// run's; Open takes that of a run.
//
// Errors: those of lease.Take.
func Hold(dir string) (*lease.Lease, error) {
	return lease.Take(filepath.Join(dir, lockFile), "the run directory")
}

// OfLease tells whether a file belongs to the lease of its folder.
func OfLease(name string) bool { return lease.Part(name, lockFile) }
