package store

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// ownFiles are patterns of the files that a writer makes, in the order in which a store is removed: the metadata first,
// so that an interruption leaves no store.
var ownFiles = []string{metaName, manifest.SumsName, indexName, inputsName, journalDir + "/" + planName, journalDir + "/[0-9]*.json", shardDir + "/[0-9]*.bin"}

const anotherFolder = "choose another directory, or start over with --overwrite always"

// prepareFolder examines the content of the directory, and begins or resumes the store. It returns a result if the store
// already exists.
func (w *writer) prepareFolder() (*Result, error) {
	old, err := filesystem.ReadFile(filepath.Join(w.out, metaName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, w.begin()
	case err != nil:
		return nil, exit.CreateError(w.out, err)
	}
	// The same store exists. Only the journal may be left from an interruption
	// after the last stage.
	if m, err := readMeta(w.out, old); err == nil && m.Identity == w.meta.Identity && filesComplete(w.out, m) {
		return &Result{Meta: m, Complete: true, Reused: w.layout.shards()}, w.discardJournal()
	}
	if !w.opt.Overwrite {
		return nil, w.refuse("the directory holds another store", "it is damaged, or has other inputs or another configuration", anotherFolder)
	}
	if err := w.refuseForeign(); err != nil {
		return nil, err
	}
	if err := w.beginReplacement(); err != nil {
		return nil, err
	}
	// A writer may have been killed before its complete store took the place of the old one.
	if text, err := filesystem.ReadFile(filepath.Join(w.dir, metaName)); err == nil {
		if m, err := readMeta(w.dir, text); err == nil && m.Identity == w.meta.Identity && filesComplete(w.dir, m) {
			w.meta = m
			w.reused.Store(int64(w.layout.shards()))
			return w.result(), w.discardJournal()
		}
	}
	return nil, w.begin()
}

// refuse returns the error of a folder that cannot be used.
func (w *writer) refuse(what, why, fix string) error {
	return &exit.Error{Code: exit.CannotWrite, What: what, At: w.dir, Why: why, Fix: fix}
}

// begin makes the journal, or keeps that of an interrupted writer of the same store.
func (w *writer) begin() error {
	file := filepath.Join(w.dir, journalDir, planName)
	plan, err := filesystem.ReadFile(file)
	switch {
	case err == nil:
		var begun Meta
		switch err := decodeSealed(plan, file, &begun, "start over with --overwrite always"); {
		case err == nil && begun.Identity == w.meta.Identity:
			return w.removePartial()
		case w.opt.Overwrite:
		case err != nil:
			return err
		default:
			return w.refuse("the directory holds another unfinished store", "it has other inputs or another configuration", anotherFolder)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return exit.CreateError(w.dir, err)
	}
	if err := w.refuseForeign(); err != nil {
		return err
	}
	if err := w.clearFolder(); err != nil { // also files of a run that was killed before it wrote its plan
		return err
	}
	for _, sub := range []string{shardDir, journalDir} {
		if err := atomicfile.MkdirAll(filepath.Join(w.dir, sub), 0o777); err != nil {
			return exit.CreateError(filepath.Join(w.dir, sub), err)
		}
	}
	return w.writeSealed(filepath.Join(journalDir, planName), w.meta, &w.meta.Checksum)
}

// refuseForeign rejects a directory with files that do not belong to a store: they would be removed with one that is
// replaced.
func (w *writer) refuseForeign() error {
	err := fs.WalkDir(os.DirFS(w.dir), ".", func(name string, e fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil || name == "." || e.IsDir() && (name == shardDir || name == journalDir):
			return err
		case e.IsDir() && name == withinName: // of an interrupted writer
			return fs.SkipDir
		case !e.IsDir() && (isOwn(name) || rundir.IsLeaseFile(base) || atomicfile.IsTemporary(base)):
			return nil
		}
		return w.refuse("the directory is not empty", "it holds "+name+", which is no part of a store", "move it elsewhere, or choose another directory")
	})
	return exit.CreateError(w.dir, err)
}

// isOwn reports whether a name below the folder is that of a file that a writer makes.
func isOwn(name string) bool {
	return slices.ContainsFunc(ownFiles, func(pattern string) bool {
		own, err := path.Match(pattern, name)
		return own && err == nil
	})
}

// filesComplete reports whether all files of a store exist, by their sizes.
func filesComplete(dir string, m *Meta) bool {
	for _, f := range append(slices.Clone(m.Shards), m.Index) {
		if s, err := filesystem.Stat(filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil || s.Size() != f.Size {
			return false
		}
	}
	return true
}

// clearFolder removes a store. Other files stay, and their directories with them.
func (w *writer) clearFolder() error {
	if err := w.removePartial(); err != nil {
		return err
	}
	for _, pattern := range ownFiles {
		if err := w.remove(pattern); err != nil {
			return err
		}
		if pattern == metaName { // a power failure must not leave it without its shards
			if err := filesystem.SyncDir(w.dir); err != nil {
				return exit.CreateError(w.dir, err)
			}
		}
	}
	return nil
}

// removePartial removes unfinished files of a writer that was killed. The lease
// ensures that it does not run any more.
func (w *writer) removePartial() error {
	for _, dir := range []string{"", shardDir + "/", journalDir + "/"} {
		if err := w.remove(dir + ".*.partial-*"); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the files of the store that match a pattern.
func (w *writer) remove(pattern string) error {
	names, err := fs.Glob(os.DirFS(w.dir), pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, replacementName) {
			continue // a folder
		}
		file := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := filesystem.Remove(file); err != nil {
			return exit.CreateError(file, err)
		}
	}
	return nil
}
