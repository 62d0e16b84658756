package loader

import (
	"io"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// disk keeps copies of samples in one unnamed file, which the system removes when
// the process ends.
type disk struct {
	file filesystem.File
	// span is the number of bytes of a slot in the file. Parts of a slot that a
	// copy does not use are holes.
	span int64

	mu sync.Mutex
	// slots holds the slot of each sample.
	slots map[int]int
	state map[int]copyState
	// err is the first error of making or reading a copy.
	err error
}

// copyState is the state of the copy of a sample.
type copyState int

const (
	copyAbsent copyState = iota
	copyBegun
	copyComplete
)

// newDisk creates the file in a directory. The name is removed at once, so a process that is
// killed leaves nothing.
//
// Errors: 73.
func newDisk(dir string, span int64) (*disk, error) {
	f, err := filesystem.CreateTemp(dir, ".ensemble-samples-")
	if err == nil {
		err = filesystem.Remove(f.Name())
	}
	if err != nil {
		return nil, exit.CreateError(dir, err)
	}
	return &disk{file: f, span: span, slots: map[int]int{}, state: map[int]copyState{}}, nil
}

// close closes the file, which frees it.
func (d *disk) close() error { return d.file.Close() }

// assign gives each sample of a list a slot and frees all other slots. New slots are assigned
// in the order of the list, so that they are written sequentially. A sample that stays keeps
// its slot, so its copy is not written again.
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

// open returns the copy of a sample; nil if there is none.
func (d *disk) open(k int) io.ReaderAt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state[k] != copyComplete {
		return nil
	}
	return io.NewSectionReader(d.file, int64(d.slots[k])*d.span, d.span)
}

// copyWriter writes the copy of a sample. An error of the disk ends the copy, but
// not the read that feeds it.
type copyWriter struct {
	k   int
	to  *io.OffsetWriter
	err error
}

// WriteAt writes p unless an earlier write failed. It always succeeds.
func (c *copyWriter) WriteAt(p []byte, at int64) (int, error) {
	if c.err == nil {
		_, c.err = c.to.WriteAt(p, at)
	}
	return len(p), nil
}

// beginCopy starts the copy of a sample. It returns nil if a copy exists or is
// being made.
func (d *disk) beginCopy(k int) *copyWriter {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state[k] != copyAbsent {
		return nil
	}
	d.state[k] = copyBegun
	return &copyWriter{k: k, to: io.NewOffsetWriter(d.file, int64(d.slots[k])*d.span)}
}

// endCopy ends a copy. right reports whether the sample was read completely.
func (d *disk) endCopy(c *copyWriter, right bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case c.err != nil: // the copy stays in this state: the disk is full or fails
		d.recordError(c.err)
	case right:
		d.state[c.k] = copyComplete
	default:
		d.state[c.k] = copyAbsent
	}
}

// dropCopy discards a copy that cannot be read.
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
