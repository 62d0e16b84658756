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
)

// Limits of what a store may have; real ones stay far below.
const (
	maxMetadata = 64 << 20 // bytes of one text
	maxArrays   = 100_000
	maxDepth    = 30      // groups in groups
	maxEntries  = 1 << 20 // names in one group
)

// storage is where the keys of a store lie. Keys are paths with slashes, without a
// leading one.
type storage interface {
	// open gives the bytes of a key; fs.ErrNotExist if there are none, errChanged if they
	// were written while the store was open.
	open(key string) (*object, error)
	// has tells whether there is something under a key.
	has(key string) bool
	// list gives the names directly below a prefix: those of keys, of further prefixes,
	// and of links, which are not followed.
	list(prefix string) (names, prefixes, links []string, err error)
	close() error
}

// errChanged marks bytes that were written while the store was open.
var errChanged = errors.New("it was written to while it was read")

// object is the bytes of one key.
type object struct {
	io.ReaderAt
	size     int64
	modified time.Time // when it was last written; zero where that cannot change
	check    func() error
	close    func() error
}

// bytes are all bytes of an object, which is closed.
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

// directoryStorage is a store in a folder. Nothing outside the folder is opened, whatever links
// say.
type directoryStorage struct {
	root   *os.Root
	opened time.Time
}

func openDirectory(dir string) (*directoryStorage, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &directoryStorage{root, time.Now()}, nil
}

func (f *directoryStorage) close() error { return f.root.Close() }

func (f *directoryStorage) open(key string) (*object, error) {
	// A pipe in the place of a chunk must not hold the reader up.
	file, err := f.root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	st, err := file.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%s is no file", key)
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

func (f *directoryStorage) has(key string) bool {
	_, err := f.root.Lstat(key)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

func (f *directoryStorage) list(prefix string) (names, prefixes, links []string, err error) {
	dir, err := f.root.Open(path.Join(".", prefix))
	if err != nil {
		return nil, nil, nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxEntries)
	if err != nil && err != io.EOF {
		return nil, nil, nil, err
	}
	if len(entries) == maxEntries {
		return nil, nil, nil, fmt.Errorf("more than %d names in one group", maxEntries)
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

// zipStorage is a store in a zip file.
type zipStorage struct {
	file     *os.File
	stamp    fs.FileInfo
	files    map[string]*zip.File
	children map[string]map[string]bool // prefix → its names; true for further prefixes
}

func openZip(name string) (*zipStorage, error) {
	file, err := os.Open(name)
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

// indexFiles looks through the directory of the archive.
func (a *zipStorage) indexFiles() error {
	r, err := zip.NewReader(a.file, a.stamp.Size())
	if err != nil {
		return fmt.Errorf("the zip archive is damaged: %w", err)
	}
	for _, f := range r.File {
		key, isPrefix := strings.CutSuffix(f.Name, "/")
		if !fs.ValidPath(key) || strings.Contains(key, "\\") {
			return fmt.Errorf("the zip archive holds the name %q, which leads elsewhere", f.Name)
		}
		if !isPrefix {
			a.files[key] = f // the last of several, as zarr-python takes it
		}
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

func (a *zipStorage) close() error { return a.file.Close() }

func (a *zipStorage) open(key string) (*object, error) {
	if err := a.verifyUnchanged(); err != nil {
		return nil, err
	}
	f := a.files[key]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	if f.UncompressedSize64 > maxChunk {
		return nil, fmt.Errorf("%d bytes, more than %d", f.UncompressedSize64, int64(maxChunk))
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// What is read, not what the directory says, decides how much memory is taken.
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(r, int64(f.UncompressedSize64)+1)); err != nil {
		return nil, err
	}
	nothing := func() error { return nil }
	return &object{ReaderAt: bytes.NewReader(b.Bytes()), size: int64(b.Len()), check: a.verifyUnchanged, close: nothing}, nil
}

func (a *zipStorage) has(key string) bool { return a.files[key] != nil }

// verifyUnchanged verifies that the archive is as it was.
func (a *zipStorage) verifyUnchanged() error {
	if now, err := a.file.Stat(); err != nil {
		return err
	} else if now.Size() != a.stamp.Size() || !now.ModTime().Equal(a.stamp.ModTime()) {
		return errChanged
	}
	return nil
}

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
