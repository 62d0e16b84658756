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
	slots map[int]int // places, by sample
	state map[int]copyState
	err   error // why copies were not made, or could not be read
}

type copyState int

const (
	copyAbsent copyState = iota
	copyBegun
	copyComplete
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
		return nil, exit.CreateError(dir, err)
	}
	return &disk{file: f, span: span, slots: map[int]int{}, state: map[int]copyState{}}, nil
}

func (d *disk) close() error { return d.file.Close() }

// assign gives each sample of a list a place, and takes the places of others. New ones lie
// in the order of the list.
func (d *disk) assign(list []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wanted := make(map[int]bool, len(list))
	for _, k := range list {
		wanted[k] = true
	}
	used := map[int]bool{}
	for k, at := range d.slots {
		if wanted[k] {
			used[at] = true
			continue
		}
		delete(d.slots, k)
		delete(d.state, k)
	}
	next := 0
	for _, k := range list {
		if _, has := d.slots[k]; has {
			continue
		}
		for used[next] {
			next++
		}
		d.slots[k] = next
		next++
	}
}

// open is the copy of a sample, nil if there is none.
func (d *disk) open(k int) io.ReaderAt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state[k] != copyComplete {
		return nil
	}
	return io.NewSectionReader(d.file, int64(d.slots[k])*d.span, d.span)
}

// copyWriter is a copy of a sample while it is made. An error of the disk ends the copying, not
// the reading.
type copyWriter struct {
	k   int
	to  *io.OffsetWriter
	err error
}

func (c *copyWriter) WriteAt(p []byte, at int64) (int, error) {
	if c.err == nil {
		_, c.err = c.to.WriteAt(p, at)
	}
	return len(p), nil
}

// beginCopy begins the copy of a sample; nil if another one does so.
func (d *disk) beginCopy(k int) *copyWriter {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state[k] != copyAbsent {
		return nil
	}
	d.state[k] = copyBegun
	return &copyWriter{k: k, to: io.NewOffsetWriter(d.file, int64(d.slots[k])*d.span)}
}

// endCopy ends the copy, which is right if the sample was read whole.
func (d *disk) endCopy(c *copyWriter, right bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case c.err != nil: // begun for good: the disk is full, or fails
		d.recordError(c.err)
	case right:
		d.state[c.k] = copyComplete
	default:
		d.state[c.k] = copyAbsent
	}
}

// dropCopy notes that a copy cannot be read.
func (d *disk) dropCopy(k int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state[k] = copyAbsent
	d.recordError(err)
}

// recordError keeps the first error.
func (d *disk) recordError(err error) {
	if d.err == nil {
		d.err = err
	}
}
