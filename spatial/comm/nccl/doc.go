// Package nccl lets the GPUs of a job's ranks exchange values with NCCL, which it opens at
// run time. There is one process, and one GPU, to a rank; a launcher (mpirun, srun) starts
// them, and package mpi joins them first.
//
//	lib, err := nccl.Open(nil)
//	c, err := lib.Join(group, loaded)      // all ranks of the group
//	stop := c.Watch(ctx, time.Second)      // aborts when a rank is lost or ctx ends
//	err = c.AllReduce(gradients, gradients, n, nccl.Float32)
//
// Operations are asked for in the order of the device's work and done in it, while the
// caller goes on; they may be recorded. All ranks ask for the same ones in the same order.
// Sums are made in an order that NCCL chooses from the number of ranks and how they are
// joined: the same job on the same machines gives the same bits, another may not.
//
// Source: NVIDIA, NCCL user guide, and the comments of nccl.h.
package nccl

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

var (
	// ErrUnavailable marks that the library, one of its functions or the device is not there.
	ErrUnavailable = errors.New("NCCL is not available")
	// ErrAborted marks an operation of a communicator that was aborted or closed.
	ErrAborted = errors.New("the GPUs of the job no longer exchange values")
)

// CallError is a call of NCCL that failed.
type CallError struct {
	Call   string // "ncclAllReduce"
	Status int
	Name   string // NCCL's words for the status
	Detail string // of the last error of the communicator, may be empty
}

func (e *CallError) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Status)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Type is how values are stored.
type Type int

// The types.
const (
	Float32 Type = iota
	BFloat16
	Float16
)

// Part is what is exchanged with one rank: bytes on the device. Where a length is 0 nothing
// goes that way.
type Part struct {
	Rank      int // in the group
	Send      device.Pointer
	SendBytes int64
	Recv      device.Pointer
	RecvBytes int64
}
