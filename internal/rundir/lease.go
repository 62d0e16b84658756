package rundir

import (
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/lease"
)

// lockFile is the name of the lease in a run directory.
const lockFile = "run.lock"

// TakeLease takes the lease of an existing folder that is not a run directory; Open
// takes that of a run.
//
// Errors: those of lease.Take.
func TakeLease(dir string) (*lease.Lease, error) {
	return lease.Take(filepath.Join(dir, lockFile), "the run directory")
}

// IsLeaseFile reports whether a file name belongs to the lease of its folder.
func IsLeaseFile(name string) bool { return lease.IsLeaseFile(name, lockFile) }
