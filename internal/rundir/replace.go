package rundir

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// A run that is replaced stays in a hidden folder of its directory until the new one has a checkpoint or is finished. Its
// files only change their names, which needs no space.
const (
	replacedDir  = ".replaced"  // a whole run
	replacingDir = ".replacing" // a run that is moved to replacedDir or back
)

// Locate returns the folder with the finished run of a run directory: the directory itself, or the folder in it with a
// finished run that another one is replacing, or was replacing when it was killed. Open, with any options, brings that run
// back if the new one has no checkpoint.
//
// Errors: exit 66 if the finished run is in parts, which Open puts together; those of the file system.
func Locate(dir string) (string, error) {
	d := View(dir)
	found, err := d.has([]string{manifest.Name}, []string{replacedDir, manifest.Name}, []string{replacingDir, manifest.Name})
	switch {
	case err != nil:
		return "", exit.ReadError(dir, err)
	case found[0]:
		return dir, nil
	case found[1]:
		return d.File(replacedDir), nil
	case found[2]:
		return "", ReplacedError(dir, d.File(replacingDir))
	}
	return dir, nil
}

// ReplacedError returns the error of a run directory whose finished run has been moved to the folder at: exit 66.
func ReplacedError(dir, at string) error {
	return &exit.Error{Code: exit.NotYet, What: "the run is being replaced by another one", At: at,
		Why: "`ensemble train --overwrite always` is running or was ended there, and files of the run are in this folder",
		Fix: "bring the run back: ensemble train -c FILE --run-dir " + dir + " --resume auto"}
}

// IsReplaced reports whether a folder that Locate returned has a run that another one is replacing.
func IsReplaced(dir string) bool { return filepath.Base(dir) == replacedDir }

// setAside moves the run to replacedDir, the manifest first, so that an interrupted move does not leave a run that looks
// finished. settle ends what it began.
func (d *Dir) setAside() error {
	d.replaces = true
	if err := errors.Join(filesystem.Mkdir(d.File(replacingDir), 0o777), filesystem.SyncDir(d.Path)); err != nil {
		return err
	}
	for _, group := range [][]string{{manifest.Name}, files} {
		if err := moveAll(group, d.Path, d.File(replacingDir)); err != nil {
			return err
		}
	}
	return errors.Join(filesystem.Rename(d.File(replacingDir), d.File(replacedDir)), filesystem.SyncDir(d.Path))
}

// settle removes a run that was replaced if the new one has a checkpoint or is finished. Otherwise it removes the new one, and
// the old one comes back. It does nothing if no run was replaced. Each step may be interrupted, and is done again then.
func (d *Dir) settle() error {
	switch found, err := d.has([]string{replacingDir}, []string{replacedDir}, []string{"checkpoints", "LATEST"}, []string{manifest.Name}); {
	case err != nil:
		return err
	case found[0]:
		return d.moveBack()
	case !found[1]:
		return nil
	case found[2] || found[3]:
		return d.remove([]string{replacedDir})
	}
	if err := d.clear(); err != nil {
		return err
	}
	if err := errors.Join(filesystem.Rename(d.File(replacedDir), d.File(replacingDir)), filesystem.SyncDir(d.Path)); err != nil {
		return err
	}
	return d.moveBack()
}

// moveBack moves a run from replacingDir to its place, the manifest last.
func (d *Dir) moveBack() error {
	others := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return name == manifest.Name })
	for _, group := range [][]string{others, {manifest.Name}} {
		if err := moveAll(group, d.File(replacingDir), d.Path); err != nil {
			return err
		}
	}
	return errors.Join(filesystem.Remove(d.File(replacingDir)), filesystem.SyncDir(d.Path))
}

// moveAll moves those of the files that exist to another folder, and makes that durable.
func moveAll(names []string, from, to string) error {
	for _, name := range names {
		if err := filesystem.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(filesystem.SyncDir(to), filesystem.SyncDir(from))
}

// has reports which of the paths exist.
func (d *Dir) has(paths ...[]string) (found []bool, err error) {
	for _, parts := range paths {
		_, e := filesystem.Lstat(d.File(parts...))
		found = append(found, e == nil)
		if !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return found, err
}
