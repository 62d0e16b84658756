package tcp

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/liveness"
)

// World is the group of all processes of a job. It implements comm.Transport.
//
// Concurrency: any goroutine may call its methods.
type World struct {
	*liveness.Monitor
	rank, size  int
	connections []*connection // by rank; nil for this one
	box         *mailbox
	limit       *rateLimit  // nil for none
	leaving     atomic.Bool // connections that end are no loss
	readers     sync.WaitGroup
	writers     sync.WaitGroup
}

var (
	_ comm.Channeled = (*World)(nil)
	_ comm.Channeled = (*task)(nil)
)

// start reads and writes all connections.
func (w *World) start(stall time.Duration) {
	w.Monitor = liveness.New(w, stall)
	for r, c := range w.connections {
		if c == nil {
			continue
		}
		w.writers.Go(func() { c.write(w.limit) })
		w.readers.Go(func() { w.lose(r, c.read(r, w.box)) })
	}
}

// lose ends all waits after the connection with a rank has ended. The first loss is that of the job, unless the rank has
// sent its last message before.
func (w *World) lose(rank int, err error) {
	var damaged *damagedError
	if !errors.As(err, &damaged) {
		err = fmt.Errorf("its connection ended: %w", err)
	}
	why := &comm.RankError{Rank: rank, Err: err}
	if failed := w.Failure(); failed != nil {
		errors.As(failed, &why)
	} else if w.HasLeft(rank) {
		why.Err = errors.New("it has already finished")
	} else if !w.leaving.Load() {
		w.Lose(why)
	}
	w.box.lose(rank, why)
}

// Rank returns the rank of this process in the job.
func (w *World) Rank() int { return w.rank }

// Size returns the number of processes in the job.
func (w *World) Size() int { return w.size }

// Close leaves the job. All processes call it after their last message; it waits for all of them, at most for twice the stall
// timeout, and then leaves without the others.
//
// Errors: those of liveness.Monitor.LeaveTogether; closing a connection.
func (w *World) Close() error {
	err := w.LeaveTogether()
	w.leaving.Store(true)
	for _, c := range w.connections {
		if c != nil {
			c.close()
		}
	}
	if err == nil { // else a rank may not read any more
		w.writers.Wait()
	}
	for _, c := range w.connections {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	w.writers.Wait()
	w.readers.Wait()
	return err
}

// Send starts to send x.
func (w *World) Send(to, tag int, x comm.Slice) comm.Request { return view{World: w}.Send(to, tag, x) }

// Recv starts to receive x.
func (w *World) Recv(from, tag int, x comm.Slice) comm.Request {
	return view{World: w}.Recv(from, tag, x)
}

// WaitAny waits for the first of several messages.
func (w *World) WaitAny(requests []comm.Request) (int, error) {
	return view{World: w}.WaitAny(requests)
}

// Open does nothing: channels need no resources.
func (w *World) Open(int) error { return nil }

// Channel returns the transport of the main goroutine on a channel.
func (w *World) Channel(i int) comm.Transport { return view{World: w, channel: i} }

// view is the transport of one goroutine on one channel.
type view struct {
	*World
	by      *liveness.Task // nil for the main goroutine
	channel int
}

// Send starts to send x. A message to the process itself is copied.
func (v view) Send(to, tag int, x comm.Slice) comm.Request {
	r := v.request(to, route{v.rank, v.channel, tag}, x)
	if to == v.rank {
		v.box.put(r.route, append([]byte(nil), r.memory...))
		r.end(nil)
		return r
	}
	v.connections[to].send(r)
	return r
}

// Recv starts to receive x.
func (v view) Recv(from, tag int, x comm.Slice) comm.Request {
	r := v.request(from, route{from, v.channel, tag}, x)
	r.receives = true
	v.box.post(r)
	return r
}

func (v view) request(other int, at route, x comm.Slice) *request {
	return &request{w: v.World, by: v.by, other: other, route: at, memory: memoryOf(x), done: make(chan struct{})}
}

// memoryOf returns the memory of a slice.
func memoryOf(x comm.Slice) []byte {
	var p unsafe.Pointer
	switch x := x.(type) {
	case []float32:
		p = unsafe.Pointer(unsafe.SliceData(x))
	case []float64:
		p = unsafe.Pointer(unsafe.SliceData(x))
	case []int64:
		p = unsafe.Pointer(unsafe.SliceData(x))
	case []byte:
		return x
	default:
		panic(fmt.Sprintf("tcp: invalid message type %T", x))
	}
	return unsafe.Slice((*byte)(p), comm.Bytes(x))
}

// request is a message in transit.
type request struct {
	route
	w        *World
	by       *liveness.Task // nil for the main goroutine
	other    int
	memory   []byte
	receives bool
	err      error                         // set before done is closed
	done     chan struct{}                 // closed at the end
	ended    atomic.Pointer[chan struct{}] // signals the end to the goroutine that waits
}

// end completes a request.
func (r *request) end(err error) {
	r.err = err
	close(r.done)
	if waiting := r.ended.Load(); waiting != nil {
		select {
		case *waiting <- struct{}{}:
		default: // it has a signal
		}
	}
}

// Test reports whether the message is done.
func (r *request) Test() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Wait waits until the message is done.
//
// Errors: those of liveness.Monitor.WaitAny.
func (r *request) Wait() error {
	_, err := r.w.waitAny(r.by, r)
	return err
}

// WaitAny waits for the first of several messages.
func (v view) WaitAny(requests []comm.Request) (int, error) {
	all := make([]*request, len(requests))
	for i, r := range requests {
		all[i] = r.(*request)
	}
	return v.waitAny(v.by, all...)
}

// waitAny waits until one of several messages of a goroutine is done.
//
// Errors: those of liveness.Monitor.WaitAny.
func (w *World) waitAny(by *liveness.Task, all ...*request) (int, error) {
	ended := make(chan struct{}, 1)
	messages := make([]liveness.Message, len(all))
	for i, r := range all {
		r.ended.Store(&ended)
		messages[i] = r
	}
	look := time.NewTimer(liveness.LookEvery)
	defer look.Stop()
	return w.Monitor.WaitAny(by.IsCanceled, func(time.Duration) {
		look.Reset(liveness.LookEvery)
		select {
		case <-ended:
		case <-by.Stopped():
		case <-look.C:
		}
	}, messages...)
}

// Failure returns the error of a message that is done.
func (r *request) Failure() error {
	var known *comm.RankError
	if r.err == nil || errors.As(r.err, &known) {
		return r.err
	}
	return &comm.RankError{Rank: r.other, Err: r.err}
}

// Peer returns the other rank.
func (r *request) Peer() int {
	if r.other == r.w.rank {
		return liveness.OwnProcess
	}
	return r.other
}

// Withdraw removes a receive. If its message is arriving, it waits for the end.
func (r *request) Withdraw() {
	if r.receives && !r.w.box.withdraw(r) {
		<-r.done
	}
}

// task is an additional goroutine of a process, and its transport.
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
	return view{t.World, t.Task, 0}.Send(to, tag, x)
}

// Recv starts to receive x.
func (t *task) Recv(from, tag int, x comm.Slice) comm.Request {
	return view{t.World, t.Task, 0}.Recv(from, tag, x)
}

// WaitAny waits for the first of several messages.
func (t *task) WaitAny(requests []comm.Request) (int, error) {
	return view{t.World, t.Task, 0}.WaitAny(requests)
}

// Channel returns the transport of the goroutine on a channel.
func (t *task) Channel(i int) comm.Transport { return view{t.World, t.Task, i} }
