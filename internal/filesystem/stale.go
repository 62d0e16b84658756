package filesystem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Attempts at an operation on a stale handle.
const (
	staleAttempts = 4
	firstPause    = 50 * time.Millisecond // doubled after each attempt
)

// retryStale calls f again, which opens the file anew, while a network file system answers that the handle is stale (ESTALE):
// the server replaced or moved the file, and the name leads to the present one.
//
// Errors: those of f; after the last attempt with the time that all took.
func retryStale(f func() error) error {
	begin, pause := time.Now(), firstPause
	for attempt := 1; ; attempt++ {
		err := f()
		if !errors.Is(err, unix.ESTALE) {
			return err
		}
		if attempt == staleAttempts {
			pe := &fs.PathError{Op: "open", Err: err}
			errors.As(err, &pe)
			return &fs.PathError{Op: pe.Op, Path: pe.Path, Err: fmt.Errorf("%w, %d times in %s", pe.Err, attempt, time.Since(begin).Round(time.Millisecond))}
		}
		time.Sleep(pause)
		pause *= 2
	}
}

// reading is a file that is open for reading. It opens the file again when its handle is stale, and goes on at the same place.
// The methods of io.Reader and io.Seeker belong to one goroutine, as those of other files do.
type reading struct {
	name string

	mu    sync.Mutex
	File         // the newest handle
	stale []File // earlier ones, which may be in use
}

// openReading opens a file or folder.
func openReading(name string) (*reading, error) {
	r := &reading{name: name}
	err := retryStale(func() (err error) { r.File, err = OpenFile(name, os.O_RDONLY, 0); return err })
	if err != nil {
		return nil, err
	}
	return r, nil
}

// handle returns the newest handle.
func (r *reading) handle() File {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.File
}

// retry calls f with the newest handle, and with a new one after a stale one.
func (r *reading) retry(f func(File) error) error {
	return retryStale(func() error {
		h := r.handle()
		err := f(h)
		if errors.Is(err, unix.ESTALE) {
			if e := r.reopen(h); e != nil {
				return e
			}
		}
		return err
	})
}

// reopen replaces a stale handle by a new one at the same place, unless another goroutine has done so.
func (r *reading) reopen(h File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.File != h {
		return nil
	}
	now, err := OpenFile(r.name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if at, err := h.Seek(0, io.SeekCurrent); err == nil {
		if _, err := now.Seek(at, io.SeekStart); err != nil {
			return errors.Join(err, now.Close())
		}
	}
	r.File, r.stale = now, append(r.stale, h)
	return nil
}

// Read and ReadAt retry only after a stale handle, since retry allocates.

func (r *reading) Read(p []byte) (n int, err error) {
	if n, err = r.handle().Read(p); errors.Is(err, unix.ESTALE) {
		err = r.retry(func(f File) (err error) { n, err = f.Read(p); return err })
	}
	return n, err
}

func (r *reading) ReadAt(p []byte, off int64) (n int, err error) {
	if n, err = r.handle().ReadAt(p, off); errors.Is(err, unix.ESTALE) {
		err = r.retry(func(f File) (err error) { n, err = f.ReadAt(p, off); return err })
	}
	return n, err
}

func (r *reading) Stat() (st fs.FileInfo, err error) {
	err = r.retry(func(f File) (err error) { st, err = f.Stat(); return err })
	return st, err
}

func (r *reading) Fd() uintptr { return r.handle().Fd() }

func (r *reading) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.stale {
		_ = f.Close() // its error says nothing of what was read
	}
	r.stale = nil
	return r.File.Close()
}
