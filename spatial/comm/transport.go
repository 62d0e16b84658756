package comm

import (
	"fmt"
	"math"
	"slices"
)

// Slice is what a message carries: []float32, []float64, []int64 or []byte, and
// []SizeOnly where nothing leaves the process.
type Slice any

// SizeOnly stands for a float32 of which only the size counts, 4 bytes. A slice of any
// length takes no memory, so collectives of many ranks can be priced without their
// values.
type SizeOnly struct{}

// Transport moves messages between the ranks of a job. One rank's methods are called by
// one goroutine at a time, unless it is Concurrent.
type Transport interface {
	// Rank is this one's number, Size how many there are.
	Rank() int
	Size() int
	// Send starts to send x, which stays as it is until the request is done.
	Send(to, tag int, x Slice) Request
	// Recv starts to receive into x, which nobody looks at until the request is
	// done. The message has x's type and length.
	Recv(from, tag int, x Slice) Request
}

// Concurrent is a Transport that lets a rank do several things at once.
type Concurrent interface {
	Transport
	// Go calls f in a goroutine of its own, with a transport of this rank for it.
	Go(f func(Transport)) RunningTask
}

// Channeled is a Concurrent transport with channels: messages of different ones do not
// meet, whatever their tags. Go gives f a Channeled too.
type Channeled interface {
	Concurrent
	// Open makes n channels. All ranks call it, once, when no messages are under way.
	Open(n int) error
	// Channel is the same goroutine's transport on channel i of n; a Transport as such
	// is on channel 0.
	Channel(i int) Transport
}

// RunningTask is a goroutine of a rank.
type RunningTask interface {
	// Wait returns when it has ended. by is the transport of the goroutine that waits.
	Wait(by Transport)
	// Cancel lets what it waits for fail, now and later.
	Cancel()
}

// Request is a message under way.
type Request interface {
	// Wait returns when the message has arrived, or has left so that its memory
	// is free. Errors: a rank that failed, or did not answer in time.
	Wait() error
	// Test tells whether Wait would return at once. It may say false at first.
	Test() bool
}

// MaxTag is the largest tag that a Transport must take: what the smallest MPI
// library takes.
const MaxTag = 1<<28 - 1

// Bytes is the size of a message.
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
	panic(fmt.Sprintf("comm: a message of %T", x))
}

// Copy copies a message; it tells whether both have one type and length.
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
	panic(fmt.Sprintf("comm: a message of %T", to))
}

// Clone is a copy of a message.
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
	panic(fmt.Sprintf("comm: a message of %T", x))
}

// poison fills a buffer with values that show if they are used.
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

// RankError is the failure of a message with another rank.
type RankError struct {
	Rank int // the other one, in the job
	Err  error
}

func (e *RankError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

// Unwrap gives the cause.
func (e *RankError) Unwrap() error { return e.Err }
