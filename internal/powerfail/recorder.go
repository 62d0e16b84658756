package powerfail

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Recorder is a filesystem.System that carries out all operations and records those that change a folder. Operations on
// other folders are not recorded. It sees what child processes and C libraries have written when the program syncs,
// renames or exchanges it.
type Recorder struct {
	filesystem.System
	// After is called after each recorded operation with the number of those until then. It may be nil. It must not use
	// the recorder.
	After func(operations int)

	root string
	mu   sync.Mutex // held during each operation, so that the log has the order in which they were done
	log  Log
	disk *disk // as it is now
}

// Record returns a recorder of a folder that uses the operating system. What the folder holds now counts as durable. The
// folder need not exist, but the one that it is in.
func Record(root string) (*Recorder, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	before, err := ReadTree(root)
	if err != nil {
		return nil, err
	}
	return &Recorder{System: filesystem.OS{}, root: root, log: Log{Before: before}, disk: newDisk(before)}, nil
}

// Log returns what was recorded.
//
// Errors: those of reading what other processes have written to the folder.
func (r *Recorder) Log() (*Log, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.observe(".")
	return &Log{r.log.Before, slices.Clone(r.log.Ops)}, err
}

// Operations returns the number of operations until now, which is the Point of a State after them.
func (r *Recorder) Operations() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.log.Ops)
}

// inside returns the path below the recorded folder, false if it is not there.
func (r *Recorder) inside(name string) (string, bool) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(r.root, name)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// did records an operation that was done.
func (r *Recorder) did(o Op) {
	r.disk.do(o)
	r.log.Ops = append(r.log.Ops, o)
	if r.After != nil {
		r.After(len(r.log.Ops))
	}
}

// observe records what others have changed in a file or folder since.
func (r *Recorder) observe(name string) error {
	real := filepath.Join(r.root, filepath.FromSlash(name))
	st, err := os.Lstat(real)
	n := r.disk.find(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.gone(name)
		return nil
	case err != nil:
		return err
	case !st.IsDir():
		if n == 0 {
			r.did(Op{Kind: Create, Path: name})
			n = r.disk.find(name)
		}
		return r.observeData(real, n)
	case n == 0:
		r.did(Op{Kind: Mkdir, Path: name})
	}
	return r.observeNames(name, true)
}

// observeNames records what others have created or removed in a folder; with deep also what they have changed below it.
func (r *Recorder) observeNames(name string, deep bool) error {
	entries, err := os.ReadDir(filepath.Join(r.root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	here := map[string]bool{}
	for _, e := range entries {
		here[e.Name()] = true
		if at := path.Join(name, e.Name()); deep || r.disk.find(at) == 0 {
			if err := r.observe(at); err != nil {
				return err
			}
		}
	}
	dir := r.disk.find(name)
	for e, n := range r.disk.names {
		if e.dir == dir && n != 0 && !here[e.name] {
			r.gone(path.Join(name, e.name))
		}
	}
	return nil
}

// gone records that others have removed a file or folder.
func (r *Recorder) gone(name string) {
	n := r.disk.find(name)
	if n == 0 || name == "." {
		return
	}
	for e, inner := range r.disk.names {
		if e.dir == n && inner != 0 {
			r.gone(path.Join(name, e.name))
		}
	}
	r.did(Op{Kind: Remove, Path: name})
}

// observeData records what others have written to a file.
func (r *Recorder) observeData(real string, n int) error {
	now, err := os.ReadFile(real)
	if err != nil {
		return err
	}
	before := r.disk.written(n)
	if len(now) != len(before) {
		r.did(Op{Kind: Truncate, File: n, Offset: int64(len(now))})
	}
	if !bytes.Equal(now, r.disk.written(n)) {
		r.did(Op{Kind: Write, File: n, Data: now})
	}
	return nil
}

// OpenFile implements filesystem.System.
func (r *Recorder) OpenFile(name string, flag int, perm fs.FileMode) (filesystem.File, error) {
	return r.open(name, flag, func() (filesystem.File, error) { return r.System.OpenFile(name, flag, perm) })
}

// OpenIn implements filesystem.System.
func (r *Recorder) OpenIn(root *os.Root, name string, flag int, perm fs.FileMode) (filesystem.File, error) {
	return r.open(filepath.Join(root.Name(), name), flag, func() (filesystem.File, error) { return r.System.OpenIn(root, name, flag, perm) })
}

func (r *Recorder) open(name string, flag int, open func() (filesystem.File, error)) (filesystem.File, error) {
	at, ok := r.inside(name)
	if !ok {
		return open()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disk.find(at) == 0 { // made by another process, perhaps
		if err := r.observe(at); err != nil {
			return nil, err
		}
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	n := r.disk.find(at)
	if n == 0 {
		r.did(Op{Kind: Create, Path: at})
		n = r.disk.find(at)
	}
	if flag&os.O_TRUNC != 0 && len(r.disk.written(n)) > 0 {
		r.did(Op{Kind: Truncate, File: n})
	}
	return &file{File: f, r: r, path: at, node: n, appends: flag&os.O_APPEND != 0}, nil
}

// Mkdir implements filesystem.System.
func (r *Recorder) Mkdir(name string, perm fs.FileMode) error {
	return r.one(Mkdir, name, func() error { return r.System.Mkdir(name, perm) })
}

// Remove implements filesystem.System.
func (r *Recorder) Remove(name string) error {
	return r.one(Remove, name, func() error { return r.System.Remove(name) })
}

// RemoveAll implements filesystem.System.
func (r *Recorder) RemoveAll(name string) error {
	if _, ok := r.inside(name); ok {
		return filesystem.RemoveEach(r, name)
	}
	return r.System.RemoveAll(name)
}

// SyncDir implements filesystem.System.
func (r *Recorder) SyncDir(name string) error {
	return r.one(SyncDir, name, func() error { return r.System.SyncDir(name) })
}

// one carries out and records an operation on one path.
func (r *Recorder) one(kind Kind, name string, do func() error) error {
	at, ok := r.inside(name)
	if !ok || at == "." && kind != SyncDir {
		return do()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind == SyncDir {
		if err := r.observeNames(at, false); err != nil {
			return err
		}
	} else if err := r.observe(at); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	r.did(Op{Kind: kind, Path: at})
	return nil
}

// Rename implements filesystem.System.
func (r *Recorder) Rename(from, to string) error {
	return r.two(Rename, from, to, func() error { return r.System.Rename(from, to) })
}

// RenameAt implements filesystem.System.
func (r *Recorder) RenameAt(from filesystem.File, oldName string, to filesystem.File, newName string) error {
	return r.two(Rename, filepath.Join(from.Name(), oldName), filepath.Join(to.Name(), newName), func() error { return r.System.RenameAt(from, oldName, to, newName) })
}

// Exchange implements filesystem.System.
func (r *Recorder) Exchange(a, b string) error {
	return r.two(Exchange, a, b, func() error { return r.System.Exchange(a, b) })
}

// two carries out and records an operation on two paths. A rename into or out of the recorded folder is seen as files that
// another process has created or removed.
func (r *Recorder) two(kind Kind, from, to string, do func() error) error {
	a, inA := r.inside(from)
	b, inB := r.inside(to)
	if !inA || !inB {
		return do()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{a, b} {
		if err := r.observe(name); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	r.did(Op{Kind: kind, Path: a, To: b})
	return nil
}

// file is an open file or folder in the recorded folder.
type file struct {
	filesystem.File
	r       *Recorder
	path    string // with which it was opened
	node    int
	appends bool
}

// Write implements filesystem.File.
func (f *file) Write(p []byte) (int, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	whence := io.SeekCurrent
	if f.appends {
		whence = io.SeekEnd
	}
	at, err := f.File.Seek(0, whence)
	if err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.wrote(p[:n], at)
	return n, err
}

// WriteAt implements filesystem.File.
func (f *file) WriteAt(p []byte, at int64) (int, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	n, err := f.File.WriteAt(p, at)
	f.wrote(p[:n], at)
	return n, err
}

func (f *file) wrote(p []byte, at int64) {
	if len(p) > 0 {
		f.r.did(Op{Kind: Write, File: f.node, Offset: at, Data: bytes.Clone(p)})
	}
}

// Truncate implements filesystem.File.
func (f *file) Truncate(size int64) error {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	err := f.File.Truncate(size)
	if err == nil {
		f.r.did(Op{Kind: Truncate, File: f.node, Offset: size})
	}
	return err
}

// Sync implements filesystem.File.
func (f *file) Sync() error {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	folder := f.r.disk.nodes[f.node].dir
	var err error
	if folder {
		err = f.r.observeNames(f.path, false)
	} else if f.r.disk.find(f.path) == f.node { // it still has the name
		err = f.r.observeData(filepath.Join(f.r.root, filepath.FromSlash(f.path)), f.node)
	}
	if err = errors.Join(err, f.File.Sync()); err != nil {
		return err
	}
	if folder {
		f.r.did(Op{Kind: SyncDir, Path: f.path})
	} else {
		f.r.did(Op{Kind: Sync, File: f.node})
	}
	return nil
}
