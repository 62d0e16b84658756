// Package scratch holds large arrays that are written once and read several times: in memory, or, beyond a number of
// bytes, in files that are mapped into memory. Readers see slices in both cases. The resident memory of mapped arrays is
// bounded: after each window of bytes that was read their pages are given back to the system, which reads them again
// when needed, usually from its page cache.
//
// A file loses its name as soon as it exists, so that nothing remains after a crash.
package scratch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Window is the number of bytes that are read between two releases of pages.
const Window = 256 << 20

// piece is the number of bytes that Write hands to the system together. Linux keeps them together in its page cache, and
// maps them all when one of them is read: with larger pieces a reader of a few points of many dates would hold most of
// the file in memory.
const piece = 64 << 10

// Space allocates arrays. A nil Space allocates in memory without limit. It may be used concurrently.
type Space struct {
	dir   string
	limit int64

	mu     sync.Mutex
	memory int64 // bytes of arrays in memory
	mapped []*Array
	read   atomic.Int64 // bytes read since the last release
}

// New returns a Space for files in dir, of which up to limit bytes of arrays are in memory. If the environment variable
// TMPDIR is set, it replaces dir.
func New(dir string, limit int64) *Space {
	return &Space{dir: cmp.Or(os.Getenv("TMPDIR"), dir), limit: limit}
}

// Array is an array of float32.
type Array struct {
	Values []float32 // read-only: Write sets them

	space   *Space
	bytes   int64
	view    []byte          // nil: in memory
	file    filesystem.File // nil: in memory
	written atomic.Int64    // bytes of the file that Write has written
}

// Make returns an array of n zeros, to be closed by the caller. what names its content in errors.
//
// Memory: 4 n bytes, of memory while all arrays of the Space are within its limit, otherwise of a file.
// Errors: exit 74 for a full disk or a quota, 73 if no file can be created.
func (s *Space) Make(n int, what string) (*Array, error) {
	a := &Array{space: s, bytes: 4 * int64(n)}
	if s == nil {
		a.Values = make([]float32, n)
		return a, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.bytes <= s.limit-s.memory {
		s.memory += a.bytes
		a.Values = make([]float32, n)
		return a, nil
	}
	// Files occupy the disk when they are written: what is promised to earlier ones is not free.
	need := a.bytes
	for _, m := range s.mapped {
		need += max(0, m.bytes-m.written.Load())
	}
	if err := a.open(s.dir, need); err != nil {
		return nil, s.failed(what, a.bytes, err)
	}
	s.mapped = append(s.mapped, a)
	return a, nil
}

// open creates the file of an array, removes its name and maps it. Less free space than needed is an error before
// anything is written.
func (a *Array) open(dir string, need int64) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return err
	}
	if float64(disk.Bavail)*float64(disk.Bsize) < float64(need) {
		return unix.ENOSPC
	}
	f, err := filesystem.CreateTemp(dir, ".scratch.partial-*")
	if err != nil {
		return err
	}
	if err = filesystem.Remove(f.Name()); err == nil {
		err = f.Truncate(a.bytes)
	}
	if err == nil {
		a.view, err = unix.Mmap(int(f.Fd()), 0, int(a.bytes), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.file, a.Values = f, bigmem.Float32s(a.view)
	return nil
}

// failed is the error of a file of a number of bytes.
func (s *Space) failed(what string, bytes int64, err error) error {
	e := exit.CreateError(s.dir, err)
	var x *exit.Error
	if errors.As(e, &x) {
		gb := math.Ceil(float64(bytes)/1e8) / 10
		x.What = fmt.Sprintf("%s: %.1f GB for %s", x.What, gb, what)
		switch {
		case x.Code == exit.CannotWrite:
			x.Fix = "set TMPDIR to a directory that can be written"
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
			x.Fix = fmt.Sprintf("free %.1f GB there, or set TMPDIR to a directory that has them", gb)
		}
	}
	return e
}

// Write sets the values from index at on. Different parts may be written concurrently.
//
// Errors: as Make.
func (a *Array) Write(at int, values []float32, what string) error {
	if a.file == nil {
		copy(a.Values[at:], values)
		return nil
	}
	for offset := 4 * int64(at); len(values) > 0; offset += piece {
		n := min(len(values), piece/4)
		if _, err := a.file.WriteAt(bigmem.Bytes(values[:n]), offset); err != nil {
			return a.space.failed(what, a.bytes, err)
		}
		a.written.Add(4 * int64(n))
		values = values[n:]
	}
	return nil
}

// Close frees the array, whose values must not be used afterwards. A second call does nothing.
func (a *Array) Close() error {
	if a == nil || a.Values == nil {
		return nil
	}
	a.Values = nil
	s := a.space
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.file == nil {
		s.memory -= a.bytes
		return nil
	}
	for i, m := range s.mapped {
		if m == a {
			s.mapped = append(s.mapped[:i], s.mapped[i+1:]...)
			break
		}
	}
	return errors.Join(unix.Munmap(a.view), a.file.Close())
}

// Read counts bytes of arrays that were read, and releases the pages of all arrays after each Window. It may be called
// while arrays are read.
func (s *Space) Read(bytes int64) {
	if s == nil || s.read.Add(bytes) < Window {
		return
	}
	if s.read.Swap(0) < Window { // another caller was first
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.mapped {
		// Without the release the memory is larger, and the values are the same.
		_ = unix.Madvise(a.view, unix.MADV_DONTNEED)
	}
}
