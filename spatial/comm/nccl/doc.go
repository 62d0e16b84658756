// Package nccl exchanges values between the GPUs of a job's ranks with NCCL, which
// it opens at run time. Each rank is a process with one GPU. A launcher (mpirun,
// srun) starts the processes, and package mpi connects them first.
//
//	lib, err := nccl.Open(nil)
//	c, err := lib.Join(group, loaded)      // all ranks of the group
//	stop := c.Watch(ctx, time.Second)      // aborts when a rank is lost or ctx ends
//	err = c.AllReduce(gradients, gradients, n, nccl.Float32)
//
// Operations are enqueued on a stream of the device and run asynchronously, in
// order. They may be captured in a CUDA graph. All ranks enqueue the same
// operations in the same order. NCCL chooses the order of summation from the number
// of ranks and the topology: the same job on the same machines gives the same bits,
// another job may not.
//
// Source: NVIDIA, NCCL user guide, and the comments of nccl.h.
package nccl

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

var (
	// ErrUnavailable marks that the library, one of its functions or the device is
	// missing.
	ErrUnavailable = errors.New("NCCL is not available")
	// ErrAborted marks an operation of a communicator that was aborted or closed.
	ErrAborted = errors.New("the NCCL communicator was aborted")
)

// CallError is a failed call of NCCL.
type CallError struct {
	Call   string // name of the function, such as "ncclAllReduce"
	Status int    // ncclResult_t
	Name   string // text of NCCL for the status
	Detail string // last error of the communicator; may be empty
}

func (e *CallError) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Status)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Type is the element type of values.
type Type int

// The element types.
const (
	Float32 Type = iota
	BFloat16
	Float16
)

// Part is the data that is exchanged with one rank, in device memory. A length of 0
// skips a direction.
type Part struct {
	Rank      int // in the group
	Send      device.Pointer
	SendBytes int64
	Recv      device.Pointer
	RecvBytes int64
}
