//go:build cgo && linux

package nccl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Devices holds the GPUs of the ranks of a job.
//
// Concurrency: any goroutine may call Abort and Err; other methods run on the
// device's thread.
type Devices struct {
	l        *Library
	d        gpu
	mu       sync.Mutex
	all      []*Comm // communicators of all groups
	abortErr error   // reason of an abort
	stop     context.CancelFunc
	done     chan struct{} // closed when the watch has ended
}

// gpu is a device that a library can use.
type gpu interface {
	device.Device
	device.NativeHandles
	device.AsyncRunner
}

// deviceBackend is a backend that has a device and reports how long its current
// operation has run.
type deviceBackend interface {
	Device() device.Device
	CallDuration() time.Duration
}

// noLibrary and noDevice replace the version code of a rank without NCCL or without
// a GPU.
const (
	noLibrary = -1 - iota
	noDevice
)

// NewDevices opens NCCL for the GPUs of the ranks of c, which all call it. d is
// nil, and why states the reason, if a rank has no GPU or no NCCL, versions differ,
// or two ranks share a GPU.
func NewDevices(c *comm.Comm, b backend.Backend) (d *Devices, why string, err error) {
	l, missing := Open(nil)
	own, _ := b.(deviceBackend)
	var of gpu
	if own != nil {
		of, _ = own.Device().(gpu)
	}
	return newDevices(c, l, missing, of, own)
}

// newDevices implements NewDevices for the given library, device and backend.
// missing is why there is no library; of is nil if the backend has no GPU.
func newDevices(c *comm.Comm, l *Library, missing error, of gpu, own deviceBackend) (d *Devices, why string, err error) {
	const idRoom = 64
	var id [idRoom]byte
	version := int64(noDevice)
	switch {
	case of == nil:
	case missing != nil:
		version = noLibrary
	default:
		version = int64(l.code)
		copy(id[:], of.Properties().UUID)
	}
	versions, err := comm.AllGather(c, []int64{version})
	if err != nil {
		return nil, "", err
	}
	ids, err := comm.AllGather(c, id[:])
	if err != nil {
		return nil, "", err
	}
	seen := map[string]int{}
	for r, v := range versions {
		name := string(ids[r*idRoom : (r+1)*idRoom])
		first, twice := seen[name]
		switch {
		case v == noDevice:
			return nil, fmt.Sprintf("rank %d has no GPU", r), nil
		case v == noLibrary && missing != nil:
			return nil, fmt.Sprintf("rank %d has no NCCL: %v", r, missing), nil
		case v == noLibrary:
			return nil, fmt.Sprintf("rank %d has no NCCL", r), nil
		case v != versions[0]:
			return nil, fmt.Sprintf("ranks 0 and %d have different versions, %s and %s", r, (&Library{code: int(versions[0])}).Version(), (&Library{code: int(v)}).Version()), nil
		case twice:
			return nil, fmt.Sprintf("ranks %d and %d share a GPU", first, r), nil
		}
		seen[name] = r
	}
	ctx, stop := context.WithCancel(context.Background())
	d = &Devices{l: l, d: of, stop: stop, done: make(chan struct{})}
	go d.watch(ctx, time.Second, own.CallDuration, c.StallTimeout())
	return d, "", nil
}

// Join creates a communicator of the GPUs of a group. All ranks of the group call
// it.
//
// Errors: those of Library.Join.
func (d *Devices) Join(group *comm.Comm) (backend.Peers, error) {
	c, err := d.l.Join(group, d.d)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, c)
	return peers{c, d.d}, nil
}

// watch checks for asynchronous errors at an interval and aborts all communicators
// on an error. It also aborts when the current operation of the device has run for
// longer than patience, if that is not 0: then a rank is lost without an error.
func (d *Devices) watch(ctx context.Context, every time.Duration, busy func() time.Duration, patience time.Duration) {
	defer close(d.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := d.Err()
		if since := busy(); err == nil && patience > 0 && since > patience {
			err = &exit.Error{Code: exit.RankLost, What: "a rank was lost: the GPU waits for other ranks", Why: fmt.Sprintf("no message arrived for %v", since.Round(time.Second)),
				Fix: "look at the other ranks' messages; start the job again from its last checkpoint"}
		}
		if err != nil {
			_ = d.Abort(err) // waiters of the device get the error
			return
		}
	}
}

// Err returns the first asynchronous error. It does not wait.
func (d *Devices) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abortErr != nil {
		return d.abortErr
	}
	for _, c := range d.all {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Abort aborts the communicators of all groups.
func (d *Devices) Abort(why error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abortErr == nil {
		d.abortErr = why
	}
	var errs []error
	for _, c := range d.all {
		errs = append(errs, c.Abort(why))
	}
	return errors.Join(errs...)
}

// Close closes the communicators of all groups. It may be called several times.
func (d *Devices) Close() error {
	d.stop()
	<-d.done
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, c := range d.all {
		errs = append(errs, c.Close())
	}
	d.all = nil
	return errors.Join(errs...)
}

// peers is the communicator of a group, on the library stream of the device.
type peers struct {
	c *Comm
	d gpu
}

var _ backend.Peers = peers{}

// async enqueues work on the library stream. arrived waits for it.
func (p peers) async(f func() error) (arrived func() error, err error) {
	t, err := p.d.RunAsync(func(stream device.Pointer) error {
		p.c.stream = stream
		return f()
	})
	if err != nil {
		return nil, err
	}
	return func() error { return p.d.Join(t) }, nil
}

// AllReduce sums vectors over all ranks, in place.
func (p peers) AllReduce(x ...[]float32) (arrived func() error, err error) {
	return p.async(func() error { return p.c.AllReduceCoalesced(x) })
}

// AllGather is an all-gather in place: rank r contributes the r-th of Size equal
// pieces.
func (p peers) AllGather(all []float32) (arrived func() error, err error) {
	n := len(all) / p.c.size
	return p.async(func() error {
		return p.c.AllGather(unsafe.Pointer(unsafe.SliceData(all[p.c.rank*n:])), unsafe.Pointer(unsafe.SliceData(all)), int64(n), Float32)
	})
}

// Exchange sends and receives parts.
func (p peers) Exchange(parts []backend.Transfer) (arrived func() error, err error) {
	const elem = 4 // bytes
	all := make([]Part, len(parts))
	for i, x := range parts {
		all[i] = Part{Rank: x.Rank, Send: unsafe.Pointer(unsafe.SliceData(x.Send)), SendBytes: elem * int64(len(x.Send)),
			Recv: unsafe.Pointer(unsafe.SliceData(x.Recv)), RecvBytes: elem * int64(len(x.Recv))}
	}
	return p.async(func() error { return p.c.Exchange(all) })
}
