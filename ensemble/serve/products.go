package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// productTree is the finished products below a folder. Of each start there is what its manifest lists, the
// manifest, and the list of sums; nothing else, wherever links lead.
type productTree struct {
	dir string

	mu    sync.Mutex
	cache map[string]*initProducts
}

// initProducts is the products of one start.
type initProducts struct {
	name     string
	version  fileVersion // of the manifest
	manifest *product.Manifest
	files    map[string]manifest.File
	written  time.Time
}

// fileVersion tells one version of a file from another.
type fileVersion struct {
	device, inode uint64
	size          int64
	changed       time.Time
}

func fileVersionOf(st fs.FileInfo) fileVersion {
	s := fileVersion{size: st.Size(), changed: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = uint64(sys.Dev), sys.Ino
	}
	return s
}

// Bounds of the tree.
const (
	maxManifest = 32 << 20
	maxCached   = 256 // manifests in memory
)

// errNotFound is said of all that is not there or not to be shown: who asks learns no difference.
var errNotFound = errors.New("there is no such product")

var initNamePattern = regexp.MustCompile(`^[0-9]{10}(?:[0-9]{2})?$`)

func newProductTree(dir string) *productTree {
	return &productTree{dir: dir, cache: map[string]*initProducts{}}
}

// names lists the folders that have the name of a start, the newest first.
func (t *productTree) names() ([]string, error) {
	d, err := os.Open(t.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n string) bool { return !initNamePattern.MatchString(n) })
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(nameToMinute(b), nameToMinute(a)) })
	return all, nil
}

// nameToMinute is the name of a start to the minute.
func nameToMinute(name string) string {
	if len(name) == 10 {
		name += "00"
	}
	return name
}

// find finds the products of a start.
//
// Errors: errNotFound if they are not finished.
func (t *productTree) find(name string) (*initProducts, error) {
	if !initNamePattern.MatchString(name) {
		return nil, errNotFound
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return nil, notFoundError(err)
	}
	defer root.Close()
	at := path.Join(name, manifest.Name)
	f, st, err := openRegular(root, at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t.mu.Lock()
	have := t.cache[name]
	t.mu.Unlock()
	if have != nil && have.version == fileVersionOf(st) {
		return have, nil
	}
	if st.Size() > maxManifest {
		return nil, fmt.Errorf("the manifest of %s has %d bytes", name, st.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, notFoundError(err)
	}
	m, err := product.ParseManifest(text, at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotFound, err)
	}
	c := &initProducts{name: name, version: fileVersionOf(st), manifest: m, files: map[string]manifest.File{}, written: st.ModTime()}
	for _, o := range m.Outputs {
		c.files[o.Path] = o
	}
	add := func(name string, text []byte) {
		sum := sha256.Sum256(text)
		c.files[name] = manifest.File{Path: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
	}
	add(manifest.Name, text)
	add(manifest.SumsName, manifest.Sums(m.Outputs))
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.cache {
		if len(t.cache) < maxCached {
			break
		}
		delete(t.cache, n)
	}
	t.cache[name] = c
	return c, nil
}

// open opens a file of a start's products.
//
// Errors: errNotFound if no finished product lists it, or it is not what its manifest says.
func (t *productTree) open(name, file string) (*os.File, manifest.File, fs.FileInfo, error) {
	for range 3 {
		c, err := t.find(name)
		if err != nil {
			return nil, manifest.File{}, nil, err
		}
		want, ok := c.files[file]
		if !ok {
			return nil, want, nil, errNotFound
		}
		f, st, same, err := t.openListed(c, file)
		// Files are replaced between the old manifest, which goes first, and the new one. What was
		// opened under one manifest that is still there belongs to it.
		if !same {
			if f != nil {
				f.Close()
			}
			continue
		}
		if err == nil && st.Size() != want.Size {
			f.Close()
			err = fmt.Errorf("%w: %s/%s has %d bytes, its manifest says %d", errNotFound, name, file, st.Size(), want.Size)
		}
		if err != nil {
			return nil, want, nil, err
		}
		return f, want, st, nil
	}
	return nil, manifest.File{}, nil, errNotFound
}

// openListed opens a file, and tells whether the manifest is still that of c.
func (t *productTree) openListed(c *initProducts, file string) (f *os.File, st fs.FileInfo, same bool, err error) {
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return nil, nil, true, notFoundError(err)
	}
	defer root.Close()
	f, st, err = openRegular(root, path.Join(c.name, file))
	now, merr := root.Lstat(path.Join(c.name, manifest.Name))
	return f, st, merr == nil && fileVersionOf(now) == c.version, err
}

// openRegular opens a regular file below a folder, through folders alone: no part of its name is a
// link.
//
// Errors: errNotFound.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	dir := root
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		want, err := dir.Lstat(part)
		if err != nil || !want.IsDir() {
			return nil, nil, notFoundError(err)
		}
		sub, err := dir.OpenRoot(part)
		if err != nil {
			return nil, nil, notFoundError(err)
		}
		defer sub.Close()
		if got, err := sub.Stat("."); err != nil || !os.SameFile(want, got) {
			return nil, nil, notFoundError(err)
		}
		dir = sub
	}
	last := parts[len(parts)-1]
	want, err := dir.Lstat(last)
	if err != nil || !want.Mode().IsRegular() {
		return nil, nil, notFoundError(err)
	}
	f, err := dir.OpenFile(last, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that took its place does not stop us
	if err != nil {
		return nil, nil, notFoundError(err)
	}
	got, err := f.Stat()
	if err != nil || !got.Mode().IsRegular() || !os.SameFile(want, got) {
		f.Close()
		return nil, nil, notFoundError(err)
	}
	return f, got, nil
}

func notFoundError(err error) error {
	if err == nil {
		return errNotFound
	}
	return fmt.Errorf("%w: %w", errNotFound, err)
}
