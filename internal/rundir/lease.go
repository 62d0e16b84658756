package rundir

import (
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/lease"
)

const lockFile = "run.lock"

// TakeLease takes the lease of a folder, which must be there. It is for folders that are no
// run's; Open takes that of a run.
//
// Errors: those of lease.Take.
func TakeLease(dir string) (*lease.Lease, error) {
	return lease.Take(filepath.Join(dir, lockFile), "the run directory")
}

// IsLeaseFile tells whether a file belongs to the lease of its folder.
func IsLeaseFile(name string) bool { return lease.IsLeaseFile(name, lockFile) }
