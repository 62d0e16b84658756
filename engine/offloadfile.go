package engine

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// offloadFile is a file for activations for which the memory of a step has no room. One goroutine copies, in the order in
// which copies start, while kernels run. The file has no name, so that it ends with the process.
type offloadFile struct {
	folder string
	file   filesystem.File
	queue  chan *fileCopy
	begun  []*fileCopy // of the present step, those for which no kernel has waited
}

// fileCopy is a copy between the arena and the file.
type fileCopy struct {
	bytes  []byte
	at     int64
	toFile bool
	ended  chan error
}

// newOffloadFile makes a file of some bytes in a folder, and reserves its room on the disk where the file system can. Up to
// waiting copies start without waiting for others.
//
// Errors: exit 64 if the folder lies in memory, 73 if it cannot be written, 74 if the disk has no room.
func newOffloadFile(folder string, bytes int64, waiting int) (*offloadFile, error) {
	if filesystem.IsInMemory(folder) {
		return nil, &exit.Error{Code: exit.Usage, What: "files in " + folder + " lie in memory", At: folder,
			Why: "its file system has no disk, so activations there would take as much memory as they free", Fix: "choose a folder on a local disk"}
	}
	f, err := filesystem.CreateTemp(folder, "ensemble-activations-*")
	if err != nil {
		return nil, createError(folder, bytes, err)
	}
	err = filesystem.Remove(f.Name())
	if err == nil {
		err = f.Truncate(bytes)
	}
	if err == nil {
		err = filesystem.Reserve(f, bytes)
	}
	if err != nil {
		return nil, errors.Join(createError(folder, bytes, err), f.Close())
	}
	o := &offloadFile{folder: folder, file: f, queue: make(chan *fileCopy, waiting)}
	go func() {
		for c := range o.queue {
			c.ended <- o.copy(c)
		}
	}()
	return o, nil
}

// createError is the error of a file of some bytes that cannot be made in a folder. The text names it too, since benchmarks replace At.
func createError(folder string, bytes int64, err error) error {
	var e *exit.Error
	if errors.As(exit.CreateError(folder, err), &e) {
		e.What = fmt.Sprintf("%s: a file of %.1f MiB for activations in %s", e.What, mib(bytes), folder)
	}
	return e
}

// copy does a copy.
//
// Errors: exit 74.
func (o *offloadFile) copy(c *fileCopy) (err error) {
	if c.toFile {
		_, err = o.file.WriteAt(c.bytes, c.at)
	} else {
		_, err = o.file.ReadAt(c.bytes, c.at)
	}
	if err != nil {
		return o.failed(err)
	}
	return nil
}

// failed is the error of a file that cannot be written or read: exit 74.
func (o *offloadFile) failed(err error) error {
	return &exit.Error{Code: exit.IO, What: "cannot copy activations to a file in " + o.folder + " or back", At: o.folder, Fix: "free space, or choose another folder", Err: err}
}

// start begins a copy.
func (o *offloadFile) start(c *fileCopy) {
	o.begun = append(o.begun, c)
	o.queue <- c
}

// wait waits for the end of a copy.
func (o *offloadFile) wait(c *fileCopy) error {
	for i, b := range o.begun {
		if b == c {
			o.begun = append(o.begun[:i], o.begun[i+1:]...)
			return <-c.ended
		}
	}
	return nil
}

// settle waits for copies of a step that ended early: they would write into the memory of the next one.
func (o *offloadFile) settle() {
	for len(o.begun) > 0 {
		_ = o.wait(o.begun[0]) // the step failed already
	}
}

// close ends the goroutine and frees the file.
func (o *offloadFile) close() error {
	o.settle()
	close(o.queue)
	return o.file.Close()
}

// kernel returns the kernel of a copy operation n with request q. starts holds the copies that earlier operations begin, by node.
func (o *offloadFile) kernel(p *Plan, n *graph.Node, q backend.Request, starts map[int]*fileCopy) backend.Kernel {
	k := backend.Kernel{Name: "copy to or from a file"}
	if n.Op == op.OffloadDoneOp || n.Op == op.FetchDoneOp {
		c := starts[n.In[0]]
		k.Run = func() error { return o.wait(c) }
		return k
	}
	c := &fileCopy{toFile: n.Op == op.OffloadStartOp, ended: make(chan error, 1)}
	inArena, onFile := q.Out, n.In[0]
	if c.toFile {
		inArena, onFile = q.In[0], n.ID
	}
	x, _ := arenaSlice(inArena)
	c.bytes = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), elemBytes*len(x))
	c.at = elemBytes * int64(p.unit.Memory.Places[onFile].Offset)
	starts[n.ID] = c
	k.Run = func() error { o.start(c); return nil }
	return k
}

// elemBytes is the size of an element of the arena of a float32 backend.
const elemBytes = 4

// setFileLinks enables copies to a file in a folder. A convolution whose variants have times takes that of the fastest.
func setFileLinks(u *pass.Unit, o Options) {
	u.LinksTo = "a file"
	u.Links = func() (pass.Links, error) {
		if rate := o.Memory.OffloadRate; rate > 0 {
			return pass.Links{ToHost: rate, FromHost: rate}, nil
		}
		return fileLinks(o.Memory.OffloadFolder, o.Threads, runtime.NumCPU())
	}
	lister := u.Variants
	if lister == nil {
		return
	}
	u.Seconds = func(q backend.Request) float64 {
		variants, err := lister.Variants(q) // the pass that chooses among them reports its error
		if err != nil || len(variants) == 0 {
			return 0
		}
		return slices.MinFunc(variants, func(a, b backend.Variant) int { return cmp.Compare(a.Time, b.Time) }).Time.Seconds()
	}
}

// diskMargin is the share of the time of a step that copies to a disk have to save: rates of one disk differed by more than a factor of
// three between measurements.
const diskMargin = 0.05

// fileLinks measures copies to a disk and back, by one copy of 32 MiB each that the page cache does not serve: if memory
// is short, it serves none. Where each processor has one of the threads of the kernels, these lose the time that a processor is busy with copies,
// divided by their number, as those who have less to do take over.
//
// Errors: those of newOffloadFile, of copies, and exit 74 of a disk that cannot be written.
func fileLinks(folder string, threads, processors int) (by pass.Links, err error) {
	x := make([]byte, 32<<20)
	for i := range x { // file systems store zeros faster
		x[i] = byte(i>>8) * byte(i)
	}
	o, err := newOffloadFile(folder, int64(len(x)), 1)
	if err != nil {
		return by, err
	}
	bytes := float64(len(x))
	busy := 0.0 // seconds of processors, both ways
	rate := func(to bool) (float64, error) {
		start, used := time.Now(), tune.ProcessTime()
		err := o.copy(&fileCopy{bytes: x, toFile: to})
		if to && err == nil {
			err = o.sync()
		}
		took := time.Since(start).Seconds()
		busy += min(took, (tune.ProcessTime() - used).Seconds()) // what else the process does is not of the copy
		return bytes / took, err
	}
	if by.ToHost, err = rate(true); err == nil {
		by.FromHost, err = rate(false)
	}
	by.Margin = diskMargin
	if threads >= processors {
		by.Lost = busy / (2 * bytes) / float64(threads)
	}
	return by, errors.Join(err, o.close())
}

// sync waits until the disk has all bytes of the file, and drops them from the page cache.
//
// Errors: exit 74.
func (o *offloadFile) sync() error {
	if err := o.file.Sync(); err != nil {
		return o.failed(err)
	}
	filesystem.DropCache(o.file)
	return nil
}
