package product

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/lease"
)

// StateDir is the hidden folder below the root of products in which a service keeps its state.
const StateDir = ".serve"

// LockName returns the name of the lock file of an initialisation. It is in the
// parent directory, because the directory of the initialisation appears with all
// its files at once.
func LockName(init ensemble.Init) string { return "." + InitName(init) + ".lock" }

// stagePrefix returns the prefix of the temporary directory of an initialisation.
func stagePrefix(init ensemble.Init) string { return "." + InitName(init) + ".partial-" }

// Lock takes the exclusive right to write the products of an initialisation below
// root, and removes files of an owner that was killed.
//
// Directories with the prefix of stagePrefix are those of earlier owners, so the holder
// of the lock may delete them.
//
// Errors: those of lease.Take.
func Lock(root string, init ensemble.Init) (*lease.Lease, error) {
	if err := atomicfile.MkdirAll(root, 0o777); err != nil {
		return nil, exit.CreateError(root, err)
	}
	l, err := lease.Take(filepath.Join(root, LockName(init)), "the directory of initialisation "+InitName(init))
	if err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(globEscape(root), stagePrefix(init)+"*"))
	for _, stage := range left {
		err = errors.Join(err, filesystem.RemoveAll(stage))
	}
	if err != nil {
		return nil, errors.Join(exit.CreateError(root, err), l.Release())
	}
	return l, nil
}

// RemoveAbandoned removes files that owners of the lock of an initialisation left, if they were killed after publication
// or lost power: locks of this machine, temporary files of locks, and replaced products.
//
// Errors: those of Lock, except for a lock that is held; files that cannot be
// removed.
func RemoveAbandoned(root string, init ensemble.Init) error {
	lock := filepath.Join(root, LockName(init))
	_, err := filesystem.Lstat(lock)
	abandoned := lease.IsAbandoned(lock)
	if errors.Is(err, fs.ErrNotExist) {
		if abandoned, err = lease.HasTemporary(lock, stagePrefix(init)); err != nil {
			return exit.ReadError(root, err)
		}
	}
	if !abandoned {
		return nil
	}
	l, err := Lock(root, init)
	if errors.Is(err, lease.ErrHeld) { // by another process
		return nil
	}
	return errors.Join(err, l.Release())
}

// globEscape returns a pattern that matches only this path. Only the syntax of
// filepath.Match on Unix is escaped.
func globEscape(path string) string {
	var out []byte
	for i := range len(path) {
		if c := path[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			out = append(out, '\\')
		}
		out = append(out, path[i])
	}
	return string(out)
}
