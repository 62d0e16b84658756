//go:build cgo && linux

package nccl

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Library is NCCL, opened.
type Library struct {
	t    *C.ens_nccl // never freed, as the library is never unloaded
	code int         // of its version, 23203
	path string
}

// Open opens NCCL. find looks for it; nil is libraries.Find.
//
// Errors: *exit.Error (no device) that wraps ErrUnavailable if the library, one of its
// functions or the right version is not there.
func Open(find func(libraries.Library) (*dl.Library, error)) (*Library, error) {
	l := &Library{t: (*C.ens_nccl)(C.calloc(1, C.sizeof_ens_nccl))}
	var err error
	if l.path, err = functions.Open(find, l.bind); err != nil {
		C.free(unsafe.Pointer(l.t))
		return nil, err
	}
	return l, nil
}

func (l *Library) bind(lib *dl.Library) error {
	if err := lib.Bind(C.GoString(C.ens_nccl_names), unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(l.t)), C.sizeof_ens_nccl/C.sizeof_uintptr_t)); err != nil {
		return err
	}
	var code C.int
	status := C.ens_nccl_version(l.t, &code)
	l.code = int(code)
	if err := l.callError("ncclGetVersion", nil, status); err != nil {
		return err
	}
	if l.code < minVersion || l.code >= 30000 {
		return fmt.Errorf("it is version %s, this program was built for 2.13 and later 2.x", l.Version())
	}
	return nil
}

// functions is what the library is opened as.
var functions = libraries.Use{Library: libraries.NCCL, Purpose: "training over several GPUs", Install: "NCCL 2", Marker: ErrUnavailable}

// minVersion is the code of NCCL 2.13, the first that has words for the last error.
const minVersion = 21300

// Version is that of the library, "2.32.3".
func (l *Library) Version() string {
	return fmt.Sprintf("%d.%d.%d", l.code/10000, l.code/100%100, l.code%100)
}

// Path is the file that was opened.
func (l *Library) Path() string { return l.path }

// callError is the error of a call; nil if it has not failed. That another rank does not answer
// is a rank that was lost.
func (l *Library) callError(call string, c unsafe.Pointer, status C.int) error {
	if status == 0 {
		return nil
	}
	e := &CallError{Call: call, Status: int(status), Name: C.GoString(C.ens_nccl_error(l.t, status)), Detail: strings.TrimSpace(C.GoString(C.ens_nccl_last(l.t, c)))}
	if status == C.ncclRemoteError || status == C.ncclSystemError {
		return &exit.Error{Code: exit.RankLost, What: "the GPUs of the job no longer reach each other", Why: e.Error(),
			Fix: "look at the other ranks' messages; start the job again from its last checkpoint", Err: e}
	}
	return e
}

// idBytes is the size of ncclUniqueId.
const idBytes = 128

// Comm are the GPUs of a group of ranks, seen from one of them. Its operations are called on
// the thread of the device; Abort and Err by any goroutine.
type Comm struct {
	l          *Library
	rank, size int
	stream     unsafe.Pointer

	callMu   sync.Mutex // held while NCCL is called, but not to abort it
	mu       sync.Mutex // of c and why
	c        unsafe.Pointer
	abortErr error // why c is nil
}

// Join joins the GPUs of a group of ranks. All ranks of the group call it, each on the
// thread where the context of its device is current; no two share a device. It waits for
// all.
//
// Errors: *exit.Error (no device) if the ranks have different versions of NCCL; *CallError.
func (l *Library) Join(group *comm.Comm, d device.NativeHandles) (*Comm, error) {
	versions, err := comm.AllGather(group, []int64{int64(l.code)})
	if err != nil {
		return nil, fmt.Errorf("joining GPUs: %w", err)
	}
	if low, high := slices.Min(versions), slices.Max(versions); low != high {
		return nil, functions.Unavailable(l.path, fmt.Errorf("ranks have versions from %s to %s", (&Library{code: int(low)}).Version(), (&Library{code: int(high)}).Version()))
	}
	// The others learn from one more byte whether rank 0 has an id.
	var id [idBytes + 1]byte
	var failed error
	if group.Rank() == 0 {
		status := C.ens_nccl_id(l.t, (*C.char)(unsafe.Pointer(&id[0])))
		failed = l.callError("ncclGetUniqueId", nil, status)
		if failed == nil {
			id[idBytes] = 1
		}
	}
	if err := comm.Broadcast(group, 0, id[:]); err != nil {
		return nil, errors.Join(failed, fmt.Errorf("joining GPUs: %w", err))
	}
	if failed == nil && id[idBytes] == 0 {
		failed = errors.New("rank 0 has no id of the GPUs; its message says why")
	}
	if failed != nil {
		return nil, fmt.Errorf("joining GPUs: %w", failed)
	}
	c := &Comm{l: l, rank: group.Rank(), size: group.Size(), stream: d.Stream()}
	var p unsafe.Pointer
	status := C.ens_nccl_init(l.t, &p, C.int(c.size), (*C.char)(unsafe.Pointer(&id[0])), C.int(c.rank))
	if err := l.callError("ncclCommInitRank", nil, status); err != nil {
		return nil, fmt.Errorf("joining GPUs: %w", err)
	}
	c.c = p
	return c, nil
}

// Rank is this rank's number in the group.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks in the group.
func (c *Comm) Size() int { return c.size }

// communicator gives the communicator, or why there is none.
func (c *Comm) communicator() (unsafe.Pointer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c == nil {
		return nil, c.abortErr
	}
	return c.c, nil
}

// call calls NCCL with the communicator; f gives what it called last, and how that ended.
func (c *Comm) call(f func(p unsafe.Pointer) (string, C.int)) error {
	c.callMu.Lock()
	defer c.callMu.Unlock()
	p, err := c.communicator()
	if err != nil {
		return fmt.Errorf("nccl: %w", err)
	}
	name, status := f(p)
	if status == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c == nil { // an abort ended the call
		return fmt.Errorf("%s: %w", name, c.abortErr)
	}
	return c.l.callError(name, p, status)
}

func typeOf(t Type) C.int {
	return [...]C.int{C.ncclFloat32, C.ncclBfloat16, C.ncclFloat16}[t]
}

// AllReduce adds up the n values of all ranks; each gets the sum. from and to may be one.
//
// Errors: ErrAborted; *CallError; *exit.Error (rank lost).
func (c *Comm) AllReduce(from, to device.Pointer, n int64, t Type) error {
	if err := checkCounts("AllReduce", n, from, to); err != nil || n == 0 {
		return err
	}
	return c.call(func(p unsafe.Pointer) (string, C.int) {
		return "ncclAllReduce", C.ens_nccl_reduce(c.l.t, from, to, C.size_t(n), typeOf(t), p, c.stream)
	})
}

// AllReduceCoalesced is AllReduce of several values where they lie, as one operation.
//
// Errors: those of AllReduce.
func (c *Comm) AllReduceCoalesced(x [][]float32) error {
	return c.groupCall(func(comm unsafe.Pointer) (string, C.int) {
		for _, v := range x {
			if len(v) == 0 {
				continue
			}
			at := unsafe.Pointer(unsafe.SliceData(v))
			if status := C.ens_nccl_reduce(c.l.t, at, at, C.size_t(len(v)), C.ncclFloat32, comm, c.stream); status != 0 {
				return "ncclAllReduce", status
			}
		}
		return "", 0
	})
}

// ReduceScatter adds up the n·Size values of all ranks; each gets n sums, those of the piece
// of its rank. to may be where they lie in from.
//
// Errors: those of AllReduce.
func (c *Comm) ReduceScatter(from, to device.Pointer, n int64, t Type) error {
	if err := checkCounts("ReduceScatter", n, from, to); err != nil || n == 0 {
		return err
	}
	return c.call(func(p unsafe.Pointer) (string, C.int) {
		return "ncclReduceScatter", C.ens_nccl_scatter(c.l.t, from, to, C.size_t(n), typeOf(t), p, c.stream)
	})
}

// AllGather gives all ranks the n values of all, one behind the other. from may be where
// they lie in to.
//
// Errors: those of AllReduce.
func (c *Comm) AllGather(from, to device.Pointer, n int64, t Type) error {
	if err := checkCounts("AllGather", n, from, to); err != nil || n == 0 {
		return err
	}
	return c.call(func(p unsafe.Pointer) (string, C.int) {
		return "ncclAllGather", C.ens_nccl_gather(c.l.t, from, to, C.size_t(n), typeOf(t), p, c.stream)
	})
}

func checkCounts(what string, n int64, pointers ...unsafe.Pointer) error {
	if n < 0 || n > 0 && slices.Contains(pointers, nil) {
		return fmt.Errorf("nccl: %s of %d values: want memory of the device, and a number that is not negative", what, n)
	}
	return nil
}

// Exchange sends and receives all parts at once, so that none waits for another. Two ranks
// name what goes between them in the same order, if there are several parts.
//
// Errors: those of AllReduce.
func (c *Comm) Exchange(parts []Part) error {
	for _, p := range parts {
		if p.Rank < 0 || p.Rank >= c.size {
			return fmt.Errorf("nccl: Exchange with rank %d of %d", p.Rank, c.size)
		}
		if err := errors.Join(checkCounts("Exchange", p.SendBytes, p.Send), checkCounts("Exchange", p.RecvBytes, p.Recv)); err != nil {
			return err
		}
	}
	return c.groupCall(func(comm unsafe.Pointer) (string, C.int) { return c.send(comm, parts) })
}

// groupCall has what f asks for done as one operation.
func (c *Comm) groupCall(f func(comm unsafe.Pointer) (string, C.int)) error {
	// A group belongs to an OS thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return c.call(func(comm unsafe.Pointer) (string, C.int) {
		if status := C.ens_nccl_begin(c.l.t); status != 0 {
			return "ncclGroupStart", status
		}
		name, status := f(comm)
		end := C.ens_nccl_end(c.l.t) // also of a group that failed
		if status == 0 {
			name, status = "ncclGroupEnd", end
		}
		return name, status
	})
}

// send asks for all parts.
func (c *Comm) send(comm unsafe.Pointer, parts []Part) (string, C.int) {
	for i := range parts {
		p := &parts[i]
		if p.SendBytes > 0 {
			if status := C.ens_nccl_send(c.l.t, p.Send, C.size_t(p.SendBytes), C.int(p.Rank), comm, c.stream); status != 0 {
				return "ncclSend", status
			}
		}
		if p.RecvBytes > 0 {
			if status := C.ens_nccl_recv(c.l.t, p.Recv, C.size_t(p.RecvBytes), C.int(p.Rank), comm, c.stream); status != 0 {
				return "ncclRecv", status
			}
		}
	}
	return "", 0
}

// Err is what went wrong meanwhile, in work that was asked for: a rank that was lost, a
// network that failed. It does not wait.
//
// Errors: those of AllReduce.
func (c *Comm) Err() error {
	// Not in call: this looks while another goroutine is in NCCL, for that is when it hangs.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c == nil {
		return fmt.Errorf("nccl: %w", c.abortErr)
	}
	var state C.int
	status := C.ens_nccl_async(c.l.t, c.c, &state)
	if err := c.l.callError("ncclCommGetAsyncError", c.c, status); err != nil {
		return err
	}
	if state == C.ncclInProgress {
		return nil
	}
	return c.l.callError("work that was asked for", c.c, state)
}

// abortTimeout is how long Abort waits for a call of NCCL that another goroutine is in: calls
// return at once, except where they wait for a rank that is lost.
const abortTimeout = time.Second

// Abort ends all work that was asked for, on the device too, and lets what is asked for
// later fail with why. It may be called by any goroutine, and repeated.
//
// Errors: *CallError.
func (c *Comm) Abort(why error) error {
	if why == nil {
		why = ErrAborted
	} else {
		why = fmt.Errorf("%w: %w", ErrAborted, why)
	}
	locked := c.callMu.TryLock()
	for begin := time.Now(); !locked && time.Since(begin) < abortTimeout; locked = c.callMu.TryLock() {
		time.Sleep(time.Millisecond)
	}
	if locked {
		defer c.callMu.Unlock()
	}
	p := c.detach(why)
	if p == nil {
		return nil
	}
	return c.l.callError("ncclCommAbort", nil, C.ens_nccl_abort(c.l.t, p))
}

// detach takes the communicator away and remembers why; nil if it is gone.
func (c *Comm) detach(why error) unsafe.Pointer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.c
	if p != nil {
		c.c, c.abortErr = nil, why
	}
	return p
}

// Watch looks for errors of the work that was asked for, every so often, and aborts when
// there is one or ctx ends: work that waits for a rank that is lost waits for ever. stop
// ends it and gives the error.
func (c *Comm) Watch(ctx context.Context, every time.Duration) (stop func() error) {
	done, ended := make(chan struct{}), make(chan struct{})
	var found error
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				found = context.Cause(ctx)
			case <-tick.C:
				found = c.Err()
			}
			if found != nil {
				if errors.Is(found, ErrAborted) {
					return
				}
				found = errors.Join(found, c.Abort(found))
				return
			}
		}
	}()
	var once sync.Once
	return func() error {
		once.Do(func() { close(done) })
		<-ended
		return found
	}
}

// Close leaves the group; all ranks do, when the work is done. It may be repeated.
//
// Errors: *CallError.
func (c *Comm) Close() error {
	c.callMu.Lock()
	defer c.callMu.Unlock()
	p := c.detach(ErrAborted)
	if p == nil {
		return nil
	}
	return c.l.callError("ncclCommDestroy", nil, C.ens_nccl_destroy(c.l.t, p))
}
