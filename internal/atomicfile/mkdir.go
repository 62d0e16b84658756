package atomicfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// MkdirAll creates a folder, and those above it that do not exist. It syncs the folders in which it creates one: files that
// are synced in a new folder are lost in a power failure if the folder's own name is.
//
// Errors: those of os.MkdirAll, and of syncing.
func MkdirAll(path string, perm fs.FileMode) error {
	if st, err := filesystem.Stat(path); err == nil {
		if !st.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		return nil
	}
	parent := filepath.Dir(filepath.Clean(path))
	if parent != path {
		if err := MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	if err := filesystem.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return filesystem.SyncDir(parent)
}
