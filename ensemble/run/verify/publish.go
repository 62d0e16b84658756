package verify

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/lease"
)

// publishFile writes a file of results: fill writes it under a name in a hidden folder beside it, and it gets its own name while
// this process has the lease of that name. A process that was suspended, and lost the lease, publishes nothing over its successor.
// What killed processes left of the same file is removed.
//
// Errors: those of fill, with path in place of the hidden file; exit 73 if another process writes the file, or took the lease; 73 and 74
// of the file system. The old file remains.
func publishFile(path string, fill func(path string) error) (err error) {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	l, err := lease.Take(filepath.Join(dir, "."+name+".lock"), "the file "+name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Release()) }()
	var stage string
	err = l.Guard(func() (err error) {
		if err = atomicfile.RemoveTemporary(dir, name); err == nil {
			stage, err = atomicfile.TempDir(dir, "."+name+".partial-")
		}
		return exit.CreateError(path, err)
	})
	if err != nil {
		return err
	}
	defer filesystem.RemoveAll(stage)
	if err := fill(filepath.Join(stage, name)); err != nil {
		if e := (*exit.Error)(nil); errors.As(err, &e) {
			e.At = strings.Replace(e.At, stage, dir, 1)
		}
		return err
	}
	return l.Guard(func() error {
		return exit.CreateError(path, errors.Join(filesystem.Rename(filepath.Join(stage, name), path), filesystem.SyncDir(dir)))
	})
}
