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

// Library is the opened NCCL library.
type Library struct {
	// table of functions; never freed, as the library is never unloaded
	t    *C.ens_nccl
	code int // version code, such as 23203 for 2.32.3
	path string
}

// Open opens NCCL. find locates the library; nil means libraries.Find.
//
// Errors: *exit.Error (no device) that wraps ErrUnavailable if the library, one of
// its functions or a supported version is missing.
func Open(find func(libraries.Library) (*dl.Library, error)) (*Library, error) {
	l := &Library{t: (*C.ens_nccl)(C.calloc(1, C.sizeof_ens_nccl))}
	var err error
	if l.path, err = functions.Open(find, l.bind); err != nil {
		C.free(unsafe.Pointer(l.t))
		return nil, err
	}
	return l, nil
}

// bind resolves the functions and checks the version.
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
		return fmt.Errorf("version %s is not supported; this program needs 2.13 or a later 2.x", l.Version())
	}
	return nil
}

// functions describes the library in error messages.
var functions = libraries.Use{Library: libraries.NCCL, Purpose: "training over several GPUs", Install: "NCCL 2", Marker: ErrUnavailable}

// minVersion is the version code of NCCL 2.13, the first with ncclGetLastError.
const minVersion = 21300

// Version returns the version of the library, such as "2.32.3".
func (l *Library) Version() string {
	return fmt.Sprintf("%d.%d.%d", l.code/10000, l.code/100%100, l.code%100)
}

// Path returns the file that was opened.
func (l *Library) Path() string { return l.path }

// callError returns the error of a call, nil for success. A remote or system error
// means that another rank was lost.
func (l *Library) callError(call string, c unsafe.Pointer, status C.int) error {
	if status == 0 {
		return nil
	}
	e := &CallError{Call: call, Status: int(status), Name: C.GoString(C.ens_nccl_error(l.t, status)), Detail: strings.TrimSpace(C.GoString(C.ens_nccl_last(l.t, c)))}
	if status == C.ncclRemoteError || status == C.ncclSystemError {
		return &exit.Error{Code: exit.RankLost, What: "lost the connection to the GPU of another rank", Why: e.Error(),
			Fix: "check the messages of the other ranks; restart the job from its last checkpoint", Err: e}
	}
	return e
}

// idBytes is the size of ncclUniqueId.
const idBytes = 128

// Comm is a communicator of the GPUs of a group, from the view of one rank.
//
// Concurrency: any goroutine may call Abort and Err; other methods run on the
// device's thread.
type Comm struct {
	l          *Library
	rank, size int
	stream     unsafe.Pointer

	callMu   sync.Mutex // held during a call of NCCL, except by Abort
	mu       sync.Mutex // guards c and the error below
	c        unsafe.Pointer
	abortErr error // abortErr c is nil
}

// Join creates a communicator of the GPUs of a group. All ranks of the group call
// it. No two ranks may share a device. It waits for all ranks, for at most the stall
// timeout.
//
// Errors: *exit.Error (no device) if the ranks have different versions of NCCL;
// *exit.Error (rank lost) if they do not connect in time; *CallError.
func (l *Library) Join(group *comm.Comm, d device.NativeHandles) (*Comm, error) {
	versions, err := comm.AllGather(group, []int64{int64(l.code)})
	if err != nil {
		return nil, fmt.Errorf("creating the NCCL communicator: %w", err)
	}
	if low, high := slices.Min(versions), slices.Max(versions); low != high {
		return nil, functions.Unavailable(l.path, fmt.Errorf("ranks have different versions, from %s to %s", (&Library{code: int(low)}).Version(), (&Library{code: int(high)}).Version()))
	}
	// one additional byte reports to the other ranks whether rank 0 obtained an id
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
		return nil, errors.Join(failed, fmt.Errorf("creating the NCCL communicator: %w", err))
	}
	if failed == nil && id[idBytes] == 0 {
		failed = errors.New("rank 0 could not create a communicator id; see its error")
	}
	if failed != nil {
		return nil, fmt.Errorf("creating the NCCL communicator: %w", failed)
	}
	c := &Comm{l: l, rank: group.Rank(), size: group.Size(), stream: d.Stream()}
	if c.c, err = c.connect(id, d, group.StallTimeout()); err != nil {
		return nil, fmt.Errorf("creating the NCCL communicator: %w", err)
	}
	return c, nil
}

// connect waits in NCCL for the other ranks, for at most the time limit; 0 is without limit. ncclCommInitRank
// cannot be interrupted, so it runs on a thread of its own, which remains if a rank is lost meanwhile.
//
// Errors: *CallError; *exit.Error (rank lost).
func (c *Comm) connect(id [idBytes + 1]byte, d device.NativeHandles, limit time.Duration) (unsafe.Pointer, error) {
	type result struct {
		p   unsafe.Pointer
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and with it its current context
		var r result
		if r.err = d.MakeCurrent(); r.err == nil {
			status := C.ens_nccl_init(c.l.t, &r.p, C.int(c.size), (*C.char)(unsafe.Pointer(&id[0])), C.int(c.rank))
			r.err = c.l.callError("ncclCommInitRank", nil, status)
		}
		done <- r
	}()
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case r := <-done:
		return r.p, r.err
	case <-late:
		return nil, &exit.Error{Code: exit.RankLost, What: "the GPUs of the ranks did not connect", Why: fmt.Sprintf("ncclCommInitRank has not ended after %v", limit),
			Fix: "check the messages of the other ranks and the network of the GPUs (NCCL_DEBUG=INFO); restart the job from its last checkpoint"}
	}
}

// Rank returns the rank of the caller in the group.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks in the group.
func (c *Comm) Size() int { return c.size }

// communicator returns the communicator, or the reason why there is none.
func (c *Comm) communicator() (unsafe.Pointer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c == nil {
		return nil, c.abortErr
	}
	return c.c, nil
}

// call runs f with the communicator. f returns the last function that it called and
// its status.
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
	if c.c == nil { // Abort ended the call
		return fmt.Errorf("%s: %w", name, c.abortErr)
	}
	return c.l.callError(name, p, status)
}

// typeOf returns the ncclDataType_t of an element type.
func typeOf(t Type) C.int {
	return [...]C.int{C.ncclFloat32, C.ncclBfloat16, C.ncclFloat16}[t]
}

// AllReduce sums n values over all ranks. from and to may be equal.
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

// AllReduceCoalesced sums several vectors over all ranks, in place, as one
// operation.
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

// ReduceScatter sums n·Size values over all ranks and leaves n sums on each, the
// piece of its rank. to may be that piece of from.
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

// AllGather concatenates the n values of all ranks in rank order. from may be the
// own piece of to.
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

// checkCounts returns an error for a negative count or a nil pointer.
func checkCounts(what string, n int64, pointers ...unsafe.Pointer) error {
	if n < 0 || n > 0 && slices.Contains(pointers, nil) {
		return fmt.Errorf("nccl: %s of %d values: the count must not be negative and pointers must not be nil", what, n)
	}
	return nil
}

// Exchange sends and receives all parts in one group call, so that no part blocks
// another. If two ranks exchange several parts, both list them in the same order.
//
// Errors: those of AllReduce.
func (c *Comm) Exchange(parts []Part) error {
	for _, p := range parts {
		if p.Rank < 0 || p.Rank >= c.size {
			return fmt.Errorf("nccl: Exchange with rank %d: the group has %d ranks", p.Rank, c.size)
		}
		if err := errors.Join(checkCounts("Exchange", p.SendBytes, p.Send), checkCounts("Exchange", p.RecvBytes, p.Recv)); err != nil {
			return err
		}
	}
	return c.groupCall(func(comm unsafe.Pointer) (string, C.int) { return c.send(comm, parts) })
}

// groupCall runs f between ncclGroupStart and ncclGroupEnd.
func (c *Comm) groupCall(f func(comm unsafe.Pointer) (string, C.int)) error {
	// NCCL keeps the state of a group call per OS thread
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return c.call(func(comm unsafe.Pointer) (string, C.int) {
		if status := C.ens_nccl_begin(c.l.t); status != 0 {
			return "ncclGroupStart", status
		}
		name, status := f(comm)
		end := C.ens_nccl_end(c.l.t) // must be called even if f failed
		if status == 0 {
			name, status = "ncclGroupEnd", end
		}
		return name, status
	})
}

// send enqueues all sends and receives.
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

// Err returns the error of an operation that failed asynchronously, such as a lost
// rank or a network failure. It does not wait.
//
// Errors: those of AllReduce.
func (c *Comm) Err() error {
	// without the call lock: the check must work while another goroutine hangs
	// inside NCCL
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
	return c.l.callError("an asynchronous operation", c.c, state)
}

// abortTimeout is how long Abort waits for a call of NCCL in another goroutine.
// Calls return at once, except when they wait for a lost rank.
const abortTimeout = time.Second

// Abort ends all enqueued operations, on the device too. Later operations fail with
// why. Any goroutine may call it, several times.
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

// detach removes the communicator and records the reason; it returns nil if it was
// removed before.
func (c *Comm) detach(why error) unsafe.Pointer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.c
	if p != nil {
		c.c, c.abortErr = nil, why
	}
	return p
}

// Watch checks for asynchronous errors at an interval. It aborts the communicator
// on an error or when ctx ends, because operations that wait for a lost rank never
// end. stop ends the watch and returns the error.
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

// Close destroys the communicator. All ranks call it after the last operation has
// ended. It may be called several times.
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
