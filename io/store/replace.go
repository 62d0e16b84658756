package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// A store that replaces another one is written to a hidden folder with a fixed name, so that an interrupted writer is
// resumed, and takes its place in one step.
const (
	replacementName = ".partial-replacement"     // end of the name
	withinName      = ".store" + replacementName // of the folder within a store
)

// places are absolute paths, which hold when the store has changed its place.
type places struct {
	store  string // its folder, without symbolic links
	beside string // the folder beside it in which its replacement is written
	within string // the one within it that takes the place of beside where folders cannot be exchanged
}

// placesOf returns the places of a store that is written to an existing folder.
//
// Errors: those of filesystem.RealPath.
func placesOf(out string) (places, error) {
	store, err := filesystem.RealPath(out)
	if err != nil {
		return places{}, err
	}
	return places{store, filepath.Join(filepath.Dir(store), "."+filepath.Base(store)+replacementName), filepath.Join(store, withinName)}, nil
}

// beginReplacement makes the writer write to the folder of a replacement.
func (w *writer) beginReplacement() error {
	if w.dir = w.beside; !exchangeable(w.store) {
		w.dir = w.within
	}
	if st, err := filesystem.Lstat(w.dir); err == nil && !st.IsDir() {
		return w.refuse("the folder of the new store is no folder", "the new store is written there until it is complete", "remove it")
	}
	return exit.CreateError(w.dir, atomicfile.MkdirAll(w.dir, 0o777))
}

// exchangeable reports whether a folder is on the file system of the folder that has it, that one can be written, and this process
// does not work in the folder: it, and the shell that started it, would stay in the old store. Where the answer is wrong, putInPlace
// moves the files one by one.
func exchangeable(dir string) bool {
	var own, above unix.Stat_t
	parent := filepath.Dir(dir)
	working, err := filesystem.RealPath(".")
	err = errors.Join(err, unix.Stat(dir, &own), unix.Stat(parent, &above), unix.Access(parent, unix.W_OK))
	return err == nil && own.Dev == above.Dev && working != dir && !strings.HasPrefix(working, dir+string(filepath.Separator))
}

// putInPlace gives a replacement the name of the store, in one step. The lease has its file in both folders then, so that no
// other writer finds the store without one.
func (w *writer) putInPlace() error {
	if w.dir == w.out {
		return nil
	}
	if err := w.lease.Extend(w.dir); err != nil {
		return exit.CreateError(w.out, err)
	}
	err := w.lease.Guard(func() error {
		err := atomicfile.ReplaceDir(w.dir, w.store)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EBUSY) {
			return w.moveInPlace()
		}
		return exit.CreateError(w.store, err)
	})
	testHook("store replaced")
	return err
}

// moveInPlace removes the old store, its metadata first, and moves the files of the new one, the metadata last: a reader
// finds the old store, none, or the new one.
func (w *writer) moveInPlace() error {
	from := w.dir
	w.dir = w.out
	if err := w.clearFolder(); err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(filepath.Join(w.out, shardDir), 0o777); err != nil {
		return exit.CreateError(w.out, err)
	}
	move := func(name string) error {
		name = filepath.FromSlash(name)
		return exit.CreateError(w.out, filesystem.Rename(filepath.Join(from, name), filepath.Join(w.out, name)))
	}
	for _, name := range append(w.meta.files()[1:], inputsName) {
		if err := move(name); err != nil && (name != inputsName || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	if err := errors.Join(filesystem.SyncDir(filepath.Join(w.out, shardDir)), filesystem.SyncDir(w.out)); err != nil {
		return exit.CreateError(w.out, err)
	}
	return errors.Join(move(metaName), exit.CreateError(w.out, filesystem.SyncDir(w.out)))
}

// discardReplaced removes what a replacement has left: the old store, or a new one that was begun and is not wanted any more.
func (w *writer) discardReplaced() error {
	return exit.CreateError(w.out, errors.Join(filesystem.RemoveAll(w.beside), filesystem.RemoveAll(w.within)))
}
