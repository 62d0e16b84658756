//go:build cgo && linux

package mpi

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// longMessage is the part of ranks that run receiveWithoutCalls.
const longMessage = "long message"

// receiveWithoutCalls sends messages both ways between two ranks, which then wait for the last value without a call of MPI, as
// ranks do that compute. Each prints how long it took.
func receiveWithoutCalls(l Launch) error {
	w, err := Join(l, time.Minute)
	if err != nil {
		return err
	}
	c := comm.New(w)
	c.MoveInBackground()
	const n, want = 32 << 20 / 4, 1.5
	in, out := make([]float32, n), make([]float32, n)
	out[n-1] = want
	if err := comm.Barrier(c); err != nil {
		return err
	}
	began := time.Now()
	messages := []comm.Request{c.Recv(1-c.Rank(), 0, in), c.Send(1-c.Rank(), 0, out)}
	last := (*uint32)(unsafe.Pointer(&in[n-1]))
	for atomic.LoadUint32(last) != math.Float32bits(want) {
		if time.Since(began) > 20*time.Second {
			return fmt.Errorf("rank %d received nothing", c.Rank())
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("rank %d received after %v\n", c.Rank(), time.Since(began).Round(time.Millisecond))
	if err := comm.WaitAll(messages...); err != nil {
		return err
	}
	// The goroutine that calls MPI ends with the last message.
	for began := time.Now(); w.isProbing(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			return fmt.Errorf("rank %d still calls MPI", c.Rank())
		}
	}
	return w.Close()
}

func (w *World) isProbing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.long.probing
}

// Long messages arrive while both ranks do something else.
func TestMessagesArriveDuringWork(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			out, err := mpirun(t, i, 2, longMessage)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(out)
		})
	}
}
