package zarr

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Limits of a store, far above real ones.
const (
	maxMetadata = 64 << 20 // bytes of one metadata document
	maxArrays   = 100_000
	maxDepth    = 30      // nesting of groups
	maxEntries  = 1 << 20 // names in one group
)

// storage holds the keys of a store. Keys are paths with slashes, without a leading
// one.
//
// Source: Zarr storage specification version 2, storage; Zarr core specification 3.0,
// abstract store interface.
type storage interface {
	// open returns the data of a key. It returns fs.ErrNotExist if the key does not
	// exist, errChanged if it was written while the store was open.
	open(key string) (*object, error)
	has(key string) bool // has reports whether a key exists.
	// list returns the names directly below a prefix: keys, further prefixes, and
	// symbolic links, which are not followed.
	list(prefix string) (names, prefixes, links []string, err error)
	close() error
}

// errChanged reports data that were written while the store was open.
var errChanged = errors.New("it was modified while it was read")

// object is the data of one key.
type object struct {
	io.ReaderAt
	// size is the number of bytes.
	size int64
	// modified is the modification time; zero in a zip archive.
	modified time.Time
	// check returns errChanged if the data were modified since open. It is called
	// after reading.
	check func() error
	// close releases the file.
	close func() error
}

// bytes reads all data and closes the object.
func (o *object) bytes() ([]byte, error) {
	defer o.close()
	b := make([]byte, o.size)
	if n, err := o.ReadAt(b, 0); int64(n) < o.size {
		if err == io.EOF {
			err = errChanged
		}
		return nil, err
	}
	return b, o.check()
}

// directoryStorage is a store in a directory. Links to files outside of the
// directory are not followed (os.Root).
type directoryStorage struct {
	// root confines all accesses to the directory.
	root *os.Root
	// opened is the time of opening, against which modification times are compared.
	opened time.Time
}

// openDirectory opens a directory.
func openDirectory(dir string) (*directoryStorage, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &directoryStorage{root, time.Now()}, nil
}

// close closes the directory.
func (f *directoryStorage) close() error { return f.root.Close() }

// open opens a file. A modification after the store was opened is an error.
func (f *directoryStorage) open(key string) (*object, error) {
	// O_NONBLOCK: opening a named pipe must not block.
	file, err := filesystem.OpenIn(f.root, key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		// A path through a file does not exist.
		if errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	st, err := file.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", key)
	// A time in the future is a wrong clock, not a modification.
	case st.ModTime().After(f.opened) && !st.ModTime().After(time.Now()):
		err = errChanged
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	check := func() error {
		if now, err := file.Stat(); err != nil {
			return err
		} else if now.Size() != st.Size() || !now.ModTime().Equal(st.ModTime()) {
			return errChanged
		}
		return nil
	}
	return &object{ReaderAt: file, size: st.Size(), modified: st.ModTime(), check: check, close: file.Close}, nil
}

// has treats errors other than a missing file as an existing key, so that open
// reports them.
func (f *directoryStorage) has(key string) bool {
	_, err := f.root.Lstat(key)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// list reads the directory of a prefix.
func (f *directoryStorage) list(prefix string) (names, prefixes, links []string, err error) {
	dir, err := f.root.Open(path.Join(".", prefix))
	if err != nil {
		return nil, nil, nil, err
	}
	defer dir.Close()
	// Chunks of an array can be millions of names; groups have few.
	entries, err := dir.ReadDir(maxEntries)
	if err != nil && err != io.EOF {
		return nil, nil, nil, err
	}
	if len(entries) == maxEntries {
		return nil, nil, nil, fmt.Errorf("a group has more than %d names", maxEntries)
	}
	for _, e := range entries {
		switch {
		case e.IsDir():
			prefixes = append(prefixes, e.Name())
		case e.Type()&fs.ModeSymlink != 0:
			links = append(links, e.Name())
		default:
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	slices.Sort(prefixes)
	slices.Sort(links)
	return names, prefixes, links, nil
}

// zipStorage is a store in a zip archive.
//
// Source: PKWARE, APPNOTE.TXT, section 4.3 (central directory); zarr-python, ZipStore.
type zipStorage struct {
	file filesystem.File
	// stamp identifies the archive when it was opened.
	stamp fs.FileInfo
	// files holds the entries by key.
	files map[string]*zip.File
	// children holds the names below each prefix; true marks a further prefix.
	children map[string]map[string]bool
}

// openZip opens a zip archive and indexes it.
func openZip(name string) (*zipStorage, error) {
	file, err := filesystem.Open(name)
	if err != nil {
		return nil, err
	}
	a := &zipStorage{file: file, files: map[string]*zip.File{}, children: map[string]map[string]bool{}}
	if a.stamp, err = file.Stat(); err == nil {
		err = a.indexFiles()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return a, nil
}

// indexFiles reads the central directory of the archive.
func (a *zipStorage) indexFiles() error {
	r, err := zip.NewReader(a.file, a.stamp.Size())
	if err != nil {
		return fmt.Errorf("the zip archive is damaged: %w", err)
	}
	for _, f := range r.File {
		key, isPrefix := strings.CutSuffix(f.Name, "/")
		// Names such as ../x or /x would lead out of the store when extracted.
		if !fs.ValidPath(key) || strings.ContainsAny(key, "\\\x00") {
			return fmt.Errorf("the zip archive has the invalid name %q", f.Name)
		}
		if !isPrefix {
			a.files[key] = f // the last of several entries counts, as in zarr-python
		}
		// Register the key with all its parents, since archives need not contain
		// entries for directories.
		for at := key; at != "."; at = path.Dir(at) {
			up := path.Dir(at)
			if up == "." {
				up = ""
			}
			if a.children[up] == nil {
				a.children[up] = map[string]bool{}
			}
			a.children[up][path.Base(at)] = a.children[up][path.Base(at)] || at != key || isPrefix
			if up == "" {
				break
			}
		}
	}
	return nil
}

// close closes the archive.
func (a *zipStorage) close() error { return a.file.Close() }

// open decompresses an entry completely, because zip entries cannot be read at an
// offset.
func (a *zipStorage) open(key string) (*object, error) {
	if err := a.verifyUnchanged(); err != nil {
		return nil, err
	}
	f := a.files[key]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	if f.UncompressedSize64 > maxChunk {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d", f.UncompressedSize64, int64(maxChunk))
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// Memory grows with the data that are read, not with the size that the
	// directory states.
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(r, int64(f.UncompressedSize64)+1)); err != nil {
		return nil, err
	}
	nothing := func() error { return nil }
	return &object{ReaderAt: bytes.NewReader(b.Bytes()), size: int64(b.Len()), check: a.verifyUnchanged, close: nothing}, nil
}

// has looks the key up in the index.
func (a *zipStorage) has(key string) bool { return a.files[key] != nil }

// verifyUnchanged returns errChanged if the archive was modified.
func (a *zipStorage) verifyUnchanged() error {
	if now, err := a.file.Stat(); err != nil {
		return err
	} else if now.Size() != a.stamp.Size() || !now.ModTime().Equal(a.stamp.ModTime()) {
		return errChanged
	}
	return nil
}

// list returns the children of a prefix.
func (a *zipStorage) list(prefix string) (names, prefixes, links []string, err error) {
	for name, isPrefix := range a.children[prefix] {
		if isPrefix {
			prefixes = append(prefixes, name)
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Sort(prefixes)
	return names, prefixes, nil, nil
}
