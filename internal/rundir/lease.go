package rundir

import "strings"

// Lease is the right to write into a folder, which one process has at a time. It is for
// folders that are no run's; Open takes that of a run.
type Lease struct{ l *lease }

// Hold takes the lease of a folder, which must be there.
//
// Errors: 73 if its owner is alive or may be; those of exit.Create.
func Hold(dir string) (*Lease, error) {
	l, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	return &Lease{l}, nil
}

// Lost says whether another process took the lease over, as one may if this one was
// stopped for long.
func (l *Lease) Lost() error { return l.l.lost() }

// Release gives the lease back.
func (l *Lease) Release() error { return l.l.release() }

// OfLease tells whether a file belongs to the lease of its folder.
func OfLease(name string) bool { return name == lockFile || strings.HasPrefix(name, "."+lockFile) }
