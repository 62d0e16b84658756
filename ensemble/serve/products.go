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

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// productTree gives access to the finished products in a directory. Of each initialisation only the
// files listed in its manifest, the manifest and the list of checksums are visible. Symbolic links
// are never followed.
type productTree struct {
	dir string

	mu    sync.Mutex
	cache map[string]*initProducts
}

// initProducts describes the products of one initialisation.
type initProducts struct {
	name     string
	version  fileVersion // version of the manifest file
	manifest *product.Manifest
	files    map[string]manifest.File
	written  time.Time
}

// missing lists the expected members that were not complete; not nil.
func (c *initProducts) missing() []ensemble.Member {
	names := []ensemble.Member{}
	for _, m := range c.manifest.MembersMissing {
		names = append(names, m.Member)
	}
	return names
}

// fileVersion identifies one version of a file.
type fileVersion struct {
	device, inode uint64
	size          int64
	changed       time.Time
}

// fileVersionOf returns the version of a file.
func fileVersionOf(st fs.FileInfo) fileVersion {
	s := fileVersion{size: st.Size(), changed: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = uint64(sys.Dev), sys.Ino
	}
	return s
}

// Limits of the tree.
const (
	maxManifest = 32 << 20
	maxCached   = 256 // cached manifests
)

// errNotFound is returned for missing and for invisible files alike, so that clients cannot
// distinguish them.
var errNotFound = errors.New("product not found")

var initNamePattern = regexp.MustCompile(`^[0-9]{10}(?:[0-9]{2})?$`)

func newProductTree(dir string) *productTree {
	return &productTree{dir: dir, cache: map[string]*initProducts{}}
}

// names lists the directories with the name of an initialisation, the newest first.
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

// nameToMinute extends a name of ten digits (to the hour) to twelve (to the minute).
func nameToMinute(name string) string {
	if len(name) == 10 {
		name += "00"
	}
	return name
}

// find returns the products of an initialisation. Manifests are cached by file version.
//
// Errors: errNotFound for an invalid name or unfinished products.
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
		return nil, fmt.Errorf("manifest of %s: %d bytes exceed the limit of %d", name, st.Size(), int64(maxManifest))
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

// open opens a product file of an initialisation.
//
// Errors: errNotFound if the manifest does not list it, or if its size differs from the manifest.
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
		// Products are replaced in the order: remove the manifest, replace files, write the manifest.
		// A file belongs to a manifest that did not change while the file was opened.
		if !same {
			if f != nil {
				f.Close()
			}
			continue
		}
		if err == nil && st.Size() != want.Size {
			f.Close()
			err = fmt.Errorf("%w: %s/%s has %d bytes, want %d as in its manifest", errNotFound, name, file, st.Size(), want.Size)
		}
		if err != nil {
			return nil, want, nil, err
		}
		return f, want, st, nil
	}
	return nil, manifest.File{}, nil, errNotFound
}

// openListed opens a file, and reports whether the manifest is still that of c.
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

// openRegular opens a regular file within root. No component of its path may be a symbolic link.
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
	f, err := dir.OpenFile(last, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: a pipe in its place must not block
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

// notFoundError wraps err in errNotFound.
func notFoundError(err error) error {
	if err == nil {
		return errNotFound
	}
	return fmt.Errorf("%w: %w", errNotFound, err)
}
