package loader

import (
	"io"
	"os"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// disk keeps copies of samples in one file without a name, which disappears with the
// process however that ends.
type disk struct {
	file *os.File
	span int64 // bytes of a place in the file; what a copy leaves out is a hole

	mu    sync.Mutex
	at    map[int]int // places, by sample
	state map[int]copyState
	err   error // why copies were not made, or could not be read
}

type copyState int

const (
	absent copyState = iota
	begun
	whole
)

// newDisk makes the file in a folder.
//
// Errors: 73.
func newDisk(dir string, span int64) (*disk, error) {
	f, err := os.CreateTemp(dir, ".ensemble-samples-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return nil, exit.Create(dir, err)
	}
	return &disk{file: f, span: span, at: map[int]int{}, state: map[int]copyState{}}, nil
}

func (d *disk) close() error { return d.file.Close() }

// keep gives each sample of a list a place, and takes the places of others. New ones lie
// in the order of the list.
func (d *disk) keep(list []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wanted := make(map[int]bool, len(list))
	for _, k := range list {
		wanted[k] = true
	}
	used := map[int]bool{}
	for k, at := range d.at {
		if wanted[k] {
			used[at] = true
			continue
		}
		delete(d.at, k)
		delete(d.state, k)
	}
	next := 0
	for _, k := range list {
		if _, has := d.at[k]; has {
			continue
		}
		for used[next] {
			next++
		}
		d.at[k] = next
		next++
	}
}

// open is the copy of a sample, nil if there is none.
func (d *disk) open(k int) io.ReaderAt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state[k] != whole {
		return nil
	}
	return io.NewSectionReader(d.file, int64(d.at[k])*d.span, d.span)
}

// copying is a copy of a sample while it is made. An error of the disk ends the copying, not
// the reading.
type copying struct {
	k   int
	to  *io.OffsetWriter
	err error
}

func (c *copying) WriteAt(p []byte, at int64) (int, error) {
	if c.err == nil {
		_, c.err = c.to.WriteAt(p, at)
	}
	return len(p), nil
}

// make begins the copy of a sample; nil if another one does so.
func (d *disk) make(k int) *copying {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state[k] != absent {
		return nil
	}
	d.state[k] = begun
	return &copying{k: k, to: io.NewOffsetWriter(d.file, int64(d.at[k])*d.span)}
}

// made ends the copy, which is right if the sample was read whole.
func (d *disk) made(c *copying, right bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case c.err != nil: // begun for good: the disk is full, or fails
		d.noted(c.err)
	case right:
		d.state[c.k] = whole
	default:
		d.state[c.k] = absent
	}
}

// lost notes that a copy cannot be read.
func (d *disk) lost(k int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state[k] = absent
	d.noted(err)
}

// noted keeps the first error.
func (d *disk) noted(err error) {
	if d.err == nil {
		d.err = err
	}
}
