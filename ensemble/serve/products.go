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

// tree is the finished products below a folder. Of each start there is what its manifest lists, the
// manifest, and the list of sums; nothing else, wherever links lead.
type tree struct {
	dir string

	mu   sync.Mutex
	kept map[string]*cycle
}

// cycle is the products of one start.
type cycle struct {
	name     string
	stamp    stamp // of the manifest
	manifest *product.Manifest
	files    map[string]manifest.File
	written  time.Time
}

// stamp tells one version of a file from another.
type stamp struct {
	device, inode uint64
	size          int64
	changed       time.Time
}

func stampOf(st fs.FileInfo) stamp {
	s := stamp{size: st.Size(), changed: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = uint64(sys.Dev), sys.Ino
	}
	return s
}

// Bounds of the tree.
const (
	maxManifest = 32 << 20
	maxKept     = 256 // manifests in memory
)

// errAbsent is said of all that is not there or not to be shown: who asks learns no difference.
var errAbsent = errors.New("there is no such product")

var cycleName = regexp.MustCompile(`^[0-9]{10}(?:[0-9]{2})?$`)

func newTree(dir string) *tree { return &tree{dir: dir, kept: map[string]*cycle{}} }

// names lists the folders that have the name of a start, the newest first.
func (t *tree) names() ([]string, error) {
	d, err := os.Open(t.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n string) bool { return !cycleName.MatchString(n) })
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(minutes(b), minutes(a)) })
	return all, nil
}

// minutes is the name of a start to the minute.
func minutes(name string) string {
	if len(name) == 10 {
		name += "00"
	}
	return name
}

// cycle finds the products of a start.
//
// Errors: errAbsent if they are not finished.
func (t *tree) cycle(name string) (*cycle, error) {
	if !cycleName.MatchString(name) {
		return nil, errAbsent
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return nil, absent(err)
	}
	defer root.Close()
	at := path.Join(name, manifest.Name)
	f, st, err := openRegular(root, at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t.mu.Lock()
	have := t.kept[name]
	t.mu.Unlock()
	if have != nil && have.stamp == stampOf(st) {
		return have, nil
	}
	if st.Size() > maxManifest {
		return nil, fmt.Errorf("the manifest of %s has %d bytes", name, st.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, absent(err)
	}
	m, err := product.ParseManifest(text, at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAbsent, err)
	}
	c := &cycle{name: name, stamp: stampOf(st), manifest: m, files: map[string]manifest.File{}, written: st.ModTime()}
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
	for n := range t.kept {
		if len(t.kept) < maxKept {
			break
		}
		delete(t.kept, n)
	}
	t.kept[name] = c
	return c, nil
}

// open opens a file of a start's products.
//
// Errors: errAbsent if no finished product lists it, or it is not what its manifest says.
func (t *tree) open(name, file string) (*os.File, manifest.File, fs.FileInfo, error) {
	for range 3 {
		c, err := t.cycle(name)
		if err != nil {
			return nil, manifest.File{}, nil, err
		}
		want, ok := c.files[file]
		if !ok {
			return nil, want, nil, errAbsent
		}
		f, st, same, err := t.openOf(c, file)
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
			err = fmt.Errorf("%w: %s/%s has %d bytes, its manifest says %d", errAbsent, name, file, st.Size(), want.Size)
		}
		if err != nil {
			return nil, want, nil, err
		}
		return f, want, st, nil
	}
	return nil, manifest.File{}, nil, errAbsent
}

// openOf opens a file, and tells whether the manifest is still that of c.
func (t *tree) openOf(c *cycle, file string) (f *os.File, st fs.FileInfo, same bool, err error) {
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return nil, nil, true, absent(err)
	}
	defer root.Close()
	f, st, err = openRegular(root, path.Join(c.name, file))
	now, merr := root.Lstat(path.Join(c.name, manifest.Name))
	return f, st, merr == nil && stampOf(now) == c.stamp, err
}

// openRegular opens a regular file below a folder, through folders alone: no part of its name is a
// link.
//
// Errors: errAbsent.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	dir := root
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		want, err := dir.Lstat(part)
		if err != nil || !want.IsDir() {
			return nil, nil, absent(err)
		}
		sub, err := dir.OpenRoot(part)
		if err != nil {
			return nil, nil, absent(err)
		}
		defer sub.Close()
		if got, err := sub.Stat("."); err != nil || !os.SameFile(want, got) {
			return nil, nil, absent(err)
		}
		dir = sub
	}
	last := parts[len(parts)-1]
	want, err := dir.Lstat(last)
	if err != nil || !want.Mode().IsRegular() {
		return nil, nil, absent(err)
	}
	f, err := dir.OpenFile(last, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that took its place does not stop us
	if err != nil {
		return nil, nil, absent(err)
	}
	got, err := f.Stat()
	if err != nil || !got.Mode().IsRegular() || !os.SameFile(want, got) {
		f.Close()
		return nil, nil, absent(err)
	}
	return f, got, nil
}

func absent(err error) error {
	if err == nil {
		return errAbsent
	}
	return fmt.Errorf("%w: %w", errAbsent, err)
}
