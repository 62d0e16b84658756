//go:build cgo && linux

package mpi

/*
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

// Handles are pointers in Open MPI and ints in MPICH: as arguments both travel in one
// register, and as results the word that receives them is zeroed before.
typedef intptr_t word;
typedef struct { _Alignas(16) char room[64]; } status; // no less than any library's

typedef struct {
	int (*init_thread)(int *, char ***, int, int *);
	int (*finalize)(void);
	int (*comm_rank)(word, int *);
	int (*comm_size)(word, int *);
	int (*comm_dup)(word, word *);
	int (*set_errhandler)(word, word);
	int (*isend)(const void *, int, word, int, int, word, word *);
	int (*irecv)(void *, int, word, int, int, word, word *);
	int (*test)(word *, int *, status *);
	int (*iprobe)(int, int, word, int *, status *);
	int (*get_count)(const status *, word, int *);
	int (*error_string)(int, char *, int *);
	word world, byte, errors_return;
} library;

enum { SERIALIZED = 2 }; // MPI_THREAD_SERIALIZED in both

static int mpi_init(library *l, int *level) { return l->init_thread(NULL, NULL, SERIALIZED, level); }
static int mpi_ready(library *l, int *rank, int *size) {
	int rc = l->set_errhandler(l->world, l->errors_return);
	if (!rc) rc = l->comm_rank(l->world, rank);
	return rc ? rc : l->comm_size(l->world, size);
}
static int mpi_dup(library *l, word *comm) {
	*comm = 0;
	return l->comm_dup(l->world, comm);
}
static int mpi_finalize(library *l) { return l->finalize(); }
static int mpi_isend(library *l, const void *x, int n, int to, int tag, word comm, word *request) {
	*request = 0;
	return l->isend(x, n, l->byte, to, tag, comm, request);
}
static int mpi_irecv(library *l, void *x, int n, int from, int tag, word comm, word *request) {
	*request = 0;
	return l->irecv(x, n, l->byte, from, tag, comm, request);
}
static int mpi_test(library *l, word *request, int *done, int *count) {
	status s;
	int rc = l->test(request, done, &s);
	if (!rc && *done && count) rc = l->get_count(&s, l->byte, count);
	return rc;
}
static void mpi_probe(library *l, int rank) { // own messages bypass MPI: it finds none, and lets all others progress
	int found;
	status s;
	l->iprobe(rank, 0, l->world, &found, &s);
}
static int mpi_error_string(library *l, int rc, char *text, int *length) { return l->error_string(rc, text, length); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/liveness"
)

// World is the group of all ranks of an MPI job. It implements comm.Transport.
//
// Concurrency: any goroutine may call its methods; calls of MPI are serialised.
type World struct {
	l          *C.library
	name       string
	rank, size int
	*liveness.Monitor
	mu       sync.Mutex // MPI_THREAD_SERIALIZED: one call at a time
	channels []C.word   // duplicated communicators
	letters  selfMessages
	long     longMessages
}

var (
	_ comm.Channeled = (*World)(nil)
	_ comm.Channeled = (*task)(nil)
)

// Handles of MPICH and ABI-compatible libraries, from mpi.h.
const (
	mpichWorld        = 0x44000000
	mpichByte         = 0x4c00010d
	mpichErrorsReturn = 0x54000001
)

// bind resolves the functions and handles of an opened library. Handles are
// addresses of symbols in Open MPI and constants in MPICH.
func bind(lib *dl.Library) (*C.library, error) {
	l := new(C.library)
	for _, f := range []struct {
		name string
		to   unsafe.Pointer
	}{
		{"MPI_Init_thread", unsafe.Pointer(&l.init_thread)}, {"MPI_Finalize", unsafe.Pointer(&l.finalize)},
		{"MPI_Comm_rank", unsafe.Pointer(&l.comm_rank)},
		{"MPI_Comm_size", unsafe.Pointer(&l.comm_size)}, {"MPI_Comm_dup", unsafe.Pointer(&l.comm_dup)}, {"MPI_Comm_set_errhandler", unsafe.Pointer(&l.set_errhandler)},
		{"MPI_Isend", unsafe.Pointer(&l.isend)}, {"MPI_Irecv", unsafe.Pointer(&l.irecv)},
		{"MPI_Test", unsafe.Pointer(&l.test)}, {"MPI_Iprobe", unsafe.Pointer(&l.iprobe)}, {"MPI_Get_count", unsafe.Pointer(&l.get_count)},
		{"MPI_Error_string", unsafe.Pointer(&l.error_string)},
	} {
		p, err := lib.Symbol(f.name)
		if err != nil {
			return nil, err
		}
		*(*unsafe.Pointer)(f.to) = p
	}
	l.world, l.byte, l.errors_return = mpichWorld, mpichByte, mpichErrorsReturn
	if p, err := lib.Symbol("ompi_mpi_comm_world"); err == nil {
		l.world = C.word(uintptr(p))
		for name, to := range map[string]*C.word{"ompi_mpi_byte": &l.byte, "ompi_mpi_errors_return": &l.errors_return} {
			p, err := lib.Symbol(name)
			if err != nil {
				return nil, err
			}
			*to = C.word(uintptr(p))
		}
	}
	return l, nil
}

// Join initialises MPI and joins the ranks that the launcher started. A message
// that does not arrive within stall fails; 0 is without limit. A process calls it
// once.
//
// Errors: exit 69 if the launcher's library is missing or of another kind.
func Join(o Launch, stall time.Duration) (*World, error) {
	lib, err := dl.OpenGlobal(o.Implementation.Files...)
	if err != nil {
		return nil, &exit.Error{Code: exit.NoDevice, What: o.Implementation.Name + " started this process, but its library is missing on this node",
			Why: err.Error(), Fix: "install it on all nodes, or use the launcher of an installed MPI", Err: err}
	}
	l, err := bind(lib)
	if err != nil {
		return nil, err
	}
	w := &World{l: l, name: o.Implementation.Name, channels: []C.word{l.world}}
	var level, rank, size C.int
	if err := w.check("MPI_Init_thread", C.mpi_init(l, &level)); err != nil {
		return nil, err
	}
	if err := w.check("MPI_Comm_size", C.mpi_ready(l, &rank, &size)); err != nil {
		return nil, err
	}
	w.rank, w.size = int(rank), int(size)
	if w.size != o.Size || level < C.SERIALIZED {
		return nil, &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("%s reports %d ranks at thread level %d, but the launcher started %d", w.name, w.size, int(level), o.Size),
			At: lib.Path(), Why: "the library and the launcher belong to different installations", Fix: "put the launcher's library first on LD_LIBRARY_PATH"}
	}
	w.Monitor = liveness.New(w, stall)
	return w, nil
}

// Rank returns the rank of this process in the job.
func (w *World) Rank() int { return w.rank }

// Size returns the number of ranks in the job.
func (w *World) Size() int { return w.size }

// Close ends MPI. All ranks call it after their last message; it waits for all of
// them before MPI_Finalize, at most for twice the stall timeout: a rank that waits inside it could
// bring down the launcher when another rank fails. Without all it does not end MPI, which the
// launcher then does.
//
// Errors: those of liveness.Monitor.LeaveTogether; MPI_Finalize.
func (w *World) Close() error {
	if err := w.LeaveTogether(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.long = longMessages{ended: true}
	return w.check("MPI_Finalize", C.mpi_finalize(w.l))
}

// probeMPI calls the library without a message.
func probeMPI(l *C.library, rank int) { C.mpi_probe(l, C.int(rank)) }

// check converts an MPI return code into an error.
func (w *World) check(call string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	var text [maxText]C.char
	var length C.int
	C.mpi_error_string(w.l, rc, &text[0], &length)
	return fmt.Errorf("%s: %s: %s", w.name, call, C.GoString(&text[0]))
}

// maxText is at least MPI_MAX_ERROR_STRING of any supported library.
const maxText = 2048

// maxMessageBytes is the maximum size of one MPI message in bytes: MPI counts are
// ints.
const maxMessageBytes = 1 << 30

// request is a message, split into several MPI messages if it is long.
type request struct {
	w      *World
	by     *liveness.Task // nil for the main goroutine of the rank
	other  int
	words  []C.word // MPI requests in progress
	wants  []int    // their sizes in bytes for a receive; nil for a send
	pinned runtime.Pinner
	err    error
}

// Send starts to send x.
func (w *World) Send(to, tag int, x comm.Slice) comm.Request { return w.view(nil, 0).Send(to, tag, x) }

// Recv starts to receive x.
func (w *World) Recv(from, tag int, x comm.Slice) comm.Request {
	return w.view(nil, 0).Recv(from, tag, x)
}

// Open creates n channels by MPI_Comm_dup. It waits for all ranks without a
// timeout.
//
// Errors: more channels than the library has communicators, about 2000.
func (w *World) Open(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.size > 1 && len(w.channels) < n { // a single process has only messages to itself
		var c C.word
		if err := w.check("MPI_Comm_dup", C.mpi_dup(w.l, &c)); err != nil {
			return err
		}
		w.channels = append(w.channels, c)
	}
	return nil
}

// Channel returns the transport of the main goroutine on a channel.
func (w *World) Channel(i int) comm.Transport { return w.view(nil, i) }

func (w *World) view(by *liveness.Task, channel int) view { return view{w, by, channel} }

// view is the transport of one goroutine of a rank on one channel.
type view struct {
	*World
	by      *liveness.Task // nil for the main goroutine of the rank
	channel int
}

// Send starts to send x.
func (v view) Send(to, tag int, x comm.Slice) comm.Request {
	if to == v.rank {
		return v.letters.send(v, tag, x)
	}
	return v.start(to, x, func(r *request, p unsafe.Pointer, n int, word *C.word) C.int {
		return C.mpi_isend(v.l, p, C.int(n), C.int(to), C.int(tag), v.channels[v.channel], word)
	})
}

// Recv starts to receive x.
func (v view) Recv(from, tag int, x comm.Slice) comm.Request {
	if from == v.rank {
		return v.letters.recv(v, tag, x)
	}
	return v.start(from, x, func(r *request, p unsafe.Pointer, n int, word *C.word) C.int {
		r.wants = append(r.wants, n)
		return C.mpi_irecv(v.l, p, C.int(n), C.int(from), C.int(tag), v.channels[v.channel], word)
	})
}

// start posts a message, in pieces of at most maxMessageBytes bytes.
func (v view) start(other int, x comm.Slice, piece func(r *request, p unsafe.Pointer, n int, word *C.word) C.int) comm.Request {
	w := v.World
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &request{w: w, by: v.by, other: other}
	if v.by.IsCanceled() {
		return r
	}
	p, n := memory(x)
	if n > 0 {
		r.pin(p)
	}
	for lo := 0; lo == 0 || lo < n; lo += maxMessageBytes {
		var word C.word
		if r.err = w.check("starting a message", piece(r, unsafe.Add(p, lo), min(maxMessageBytes, n-lo), &word)); r.err != nil {
			break
		}
		r.words = append(r.words, word)
	}
	if w.long.wanted && n >= longBytes && r.err == nil {
		w.addLong(r)
	}
	return r
}

// memory returns the address of a slice and its size in bytes.
func memory(x comm.Slice) (unsafe.Pointer, int) {
	switch x := x.(type) {
	case []float32:
		return unsafe.Pointer(unsafe.SliceData(x)), 4 * len(x)
	case []float64:
		return unsafe.Pointer(unsafe.SliceData(x)), 8 * len(x)
	case []int64:
		return unsafe.Pointer(unsafe.SliceData(x)), 8 * len(x)
	case []byte:
		return unsafe.Pointer(unsafe.SliceData(x)), len(x)
	}
	panic(fmt.Sprintf("mpi: invalid message type %T", x))
}

// Test reports whether the message is done. In a cancelled task it does not call
// MPI, which would write to receive buffers that may have been freed.
func (r *request) Test() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.by.IsCanceled() {
		return false
	}
	for len(r.words) > 0 && r.err == nil {
		var done, count C.int
		counted := &count
		if r.wants == nil {
			counted = nil
		}
		if r.err = r.w.check("a message", C.mpi_test(r.w.l, &r.words[0], &done, counted)); r.err != nil {
			break
		}
		if done == 0 {
			return false
		}
		if r.wants != nil {
			if int(count) != r.wants[0] {
				r.err = fmt.Errorf("message mismatch: got %d bytes, want %d", int(count), r.wants[0])
			}
			r.wants = r.wants[1:]
		}
		r.words = r.words[1:]
	}
	delete(r.w.long.requests, r)
	r.unpin()
	return true
}

// pending holds the requests whose memory MPI has the address of. It keeps
// abandoned requests alive, such as those to a lost rank, because MPI may still
// write to their memory.
var pending struct {
	sync.Mutex
	requests map[*request]bool
}

// pin fixes the address of a message's memory until the message is done.
func (r *request) pin(p unsafe.Pointer) {
	r.pinned.Pin(p)
	pending.Lock()
	defer pending.Unlock()
	if pending.requests == nil {
		pending.requests = map[*request]bool{}
	}
	pending.requests[r] = true
}

func (r *request) unpin() {
	r.pinned.Unpin()
	pending.Lock()
	defer pending.Unlock()
	delete(pending.requests, r)
}

// Wait waits until the message is done.
//
// Errors: see World.waitAny.
func (r *request) Wait() error {
	_, err := r.w.waitAny(r.by, r)
	return err
}

// WaitAny waits for the first of several messages.
func (w *World) WaitAny(requests []comm.Request) (int, error) {
	return w.view(nil, 0).WaitAny(requests)
}

// task is an additional goroutine of a rank, and its transport.
type task struct {
	*World
	*liveness.Task
}

// Go calls f in a goroutine.
func (w *World) Go(f func(comm.Transport)) comm.RunningTask {
	t := &task{w, w.NewTask()}
	t.Start(func() { f(t) })
	return t
}

// Send starts to send x.
func (t *task) Send(to, tag int, x comm.Slice) comm.Request {
	return t.view(t.Task, 0).Send(to, tag, x)
}

// WaitAny waits for the first of several messages.
func (t *task) WaitAny(requests []comm.Request) (int, error) {
	return t.view(t.Task, 0).WaitAny(requests)
}

// Recv starts to receive x.
func (t *task) Recv(from, tag int, x comm.Slice) comm.Request {
	return t.view(t.Task, 0).Recv(from, tag, x)
}

// Channel returns the transport of the goroutine on a channel.
func (t *task) Channel(i int) comm.Transport { return t.view(t.Task, i) }
