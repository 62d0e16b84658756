package product

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
)

// LockName is the file beside the folder of a start that is there while a process makes its
// products. It cannot lie in the folder, which appears with all its files at once.
func LockName(init ensemble.Init) string { return "." + InitName(init) + ".lock" }

// stagePrefix begins the name of the folder in which a start's files are made.
func stagePrefix(init ensemble.Init) string { return "." + InitName(init) + ".partial-" }

// Lock gives this process alone the right to make the products of a start below root, and
// removes what an owner left there that was killed.
//
// Errors: those of lease.Take.
func Lock(root string, init ensemble.Init) (*lease.Lease, error) {
	if err := os.MkdirAll(root, 0o777); err != nil {
		return nil, exit.CreateError(root, err)
	}
	l, err := lease.Take(filepath.Join(root, LockName(init)), "the folder of start "+InitName(init))
	if err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(globEscape(root), stagePrefix(init)+"*"))
	for _, stage := range left {
		err = errors.Join(err, os.RemoveAll(stage))
	}
	if err != nil {
		return nil, errors.Join(exit.CreateError(root, err), l.Release())
	}
	return l, nil
}

// RemoveAbandoned removes what an owner of the lock of a start left that was killed on this machine after
// it had published the start, which nobody makes again.
//
// Errors: those of Lock, but for a lock that is held; what cannot be removed.
func RemoveAbandoned(root string, init ensemble.Init) error {
	if !lease.IsAbandoned(filepath.Join(root, LockName(init))) {
		return nil
	}
	l, err := Lock(root, init)
	if errors.Is(err, lease.ErrHeld) { // by another one that came first
		return nil
	}
	return errors.Join(err, l.Release())
}

// globEscape is a path as a pattern that only it matches.
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
