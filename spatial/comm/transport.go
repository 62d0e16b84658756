package comm

import (
	"fmt"
	"math"
	"slices"
)

// Slice is the payload of a message: []float32, []float64, []int64 or []byte, and
// []SizeOnly for transports within a process.
type Slice any

// SizeOnly is a placeholder for a float32 whose value does not matter. It counts as
// 4 bytes but takes no memory, so collectives of many ranks can be simulated.
type SizeOnly struct{}

// Transport moves messages between the ranks of a job.
//
// Concurrency: one goroutine at a time calls the methods of a rank, unless it is
// Concurrent.
type Transport interface {
	// Rank returns the rank of the caller, Size the number of ranks.
	Rank() int
	Size() int
	// Send starts to send x. x must not change until the request is done.
	Send(to, tag int, x Slice) Request
	// Recv starts to receive into x. x must not be used until the request is done.
	// The message must have the type and length of x.
	Recv(from, tag int, x Slice) Request
	// WaitAny waits until one of the requests is done, which were all posted through this
	// transport, and returns the index of the first one that is, with the error of its
	// Wait. Errors: with index −1 those of Wait if none is done.
	WaitAny(requests []Request) (int, error)
}

// Concurrent is a Transport that a rank can use from several goroutines.
type Concurrent interface {
	Transport
	// Go calls f in a new goroutine with a transport of its own for this rank.
	Go(f func(Transport)) RunningTask
}

// Channeled is a Concurrent transport with channels. Messages of different channels
// never match, whatever their tags. Go passes a Channeled to f.
type Channeled interface {
	Concurrent
	// Open creates n channels. All ranks call it once, while no messages are in
	// transit.
	Open(n int) error
	// Channel returns the transport of the same goroutine on channel i of n. A
	// transport itself is on channel 0.
	Channel(i int) Transport
}

// RunningTask is a goroutine that Go started.
type RunningTask interface {
	// Wait returns when the goroutine has ended. by is the transport of the calling
	// goroutine.
	Wait(by Transport)
	Cancel() // Cancel makes current and later waits of the goroutine fail.
}

// Request is a message in transit.
type Request interface {
	// Wait returns when the message has been received, or sent so that its memory
	// is free. Errors: a rank that failed or did not answer in time.
	Wait() error
	// Test reports whether Wait would return at once. The first calls may return
	// false even then.
	Test() bool
}

// MaxTag is the largest tag that a Transport must accept, the smallest MPI_TAG_UB
// of the supported libraries.
const MaxTag = 1<<28 - 1

// Bytes returns the size of a message in bytes.
func Bytes(x Slice) int64 {
	switch x := x.(type) {
	case []SizeOnly:
		return 4 * int64(len(x))
	case []float32:
		return 4 * int64(len(x))
	case []float64:
		return 8 * int64(len(x))
	case []int64:
		return 8 * int64(len(x))
	case []byte:
		return int64(len(x))
	}
	panic(fmt.Sprintf("comm: invalid message type %T", x))
}

// Copy copies a message and reports whether both have the same type and length.
func Copy(to, from Slice) bool {
	switch to := to.(type) {
	case []SizeOnly:
		from, ok := from.([]SizeOnly)
		return ok && len(to) == len(from)
	case []float32:
		from, ok := from.([]float32)
		return ok && copy(to, from) == len(from) && len(to) == len(from)
	case []float64:
		from, ok := from.([]float64)
		return ok && copy(to, from) == len(from) && len(to) == len(from)
	case []int64:
		from, ok := from.([]int64)
		return ok && copy(to, from) == len(from) && len(to) == len(from)
	case []byte:
		from, ok := from.([]byte)
		return ok && copy(to, from) == len(from) && len(to) == len(from)
	}
	panic(fmt.Sprintf("comm: invalid message type %T", to))
}

// Clone returns a copy of a message.
func Clone(x Slice) Slice {
	switch x := x.(type) {
	case []SizeOnly:
		return x
	case []float32:
		return slices.Clone(x)
	case []float64:
		return slices.Clone(x)
	case []int64:
		return slices.Clone(x)
	case []byte:
		return slices.Clone(x)
	}
	panic(fmt.Sprintf("comm: invalid message type %T", x))
}

// poison fills a buffer with values that reveal a premature use, such as NaN.
func poison(x Slice) {
	switch x := x.(type) {
	case []float32:
		for i := range x {
			x[i] = float32(math.NaN())
		}
	case []float64:
		for i := range x {
			x[i] = math.NaN()
		}
	case []int64:
		for i := range x {
			x[i] = math.MinInt64
		}
	case []byte:
		for i := range x {
			x[i] = 0xa5
		}
	}
}

// RankError is the failure of a message to or from another rank.
type RankError struct {
	Rank int // the other rank, in the job
	Err  error
}

func (e *RankError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

// Unwrap returns the cause.
func (e *RankError) Unwrap() error { return e.Err }

// FailedError is the cause of a RankError if the rank left the job with an error of its own.
type FailedError struct {
	Report []byte // of the rank, in its own format
}

func (e *FailedError) Error() string { return "it failed: " + string(e.Report) }
