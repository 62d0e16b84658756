//go:build cgo && linux

package emulated

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// emulatedDevice is an emulated device that runs library work in the order of its
// stream.
type emulatedDevice interface {
	device.Device
	RunAsync(m []emulate.Buffer, f func(memory [][]byte) error) (device.Event, error)
	IsRecording() bool
}

// Devices holds the emulated devices of the ranks of a job.
type Devices struct {
	d        emulatedDevice
	abortErr atomic.Pointer[error] // error of Abort
}

// NewDevices returns the devices of a backend; nil, and the reason, if it is not
// emulated.
func NewDevices(b backend.Backend) (d *Devices, why string) {
	if own, ok := b.(interface{ Device() device.Device }); ok {
		if of, ok := own.Device().(emulatedDevice); ok {
			return &Devices{d: of}, ""
		}
	}
	return nil, "the device is not emulated"
}

// Join creates a communicator of the devices of a group. All ranks of the group
// call it.
func (d *Devices) Join(group *comm.Comm) (backend.Peers, error) {
	c, err := group.Split(0, group.Rank()) // a group of its own: these messages must not match others
	return peers{d, c}, err
}

// Err returns the error of Abort.
func (d *Devices) Err() error {
	if why := d.abortErr.Load(); why != nil {
		return *why
	}
	return nil
}

// Abort makes later operations fail with why.
func (d *Devices) Abort(why error) error {
	d.abortErr.CompareAndSwap(nil, &why)
	return nil
}

// Close does nothing.
func (*Devices) Close() error { return nil }

// peers is the communicator of a group.
type peers struct {
	d *Devices
	c *comm.Comm
}

var _ backend.Peers = peers{}

// memoryOf describes the memory of x, and whether the operation writes to it.
func memoryOf(x []float32, writes bool) emulate.Buffer {
	return emulate.Buffer{Start: unsafe.Pointer(unsafe.SliceData(x)), Bytes: 4 * int64(len(x)), Writes: writes}
}

// async enqueues f with device memory. As with NCCL, either all ranks capture an
// operation in a graph or none does.
func (p peers) async(m []emulate.Buffer, f func(memory [][]byte) error) (arrived func() error, err error) {
	if err := p.d.Err(); err != nil {
		return nil, err
	}
	recorded := []byte{0}
	if p.d.d.IsRecording() {
		recorded[0] = 1
	}
	t, err := p.d.d.RunAsync(m, func(memory [][]byte) error {
		if err := p.d.Err(); err != nil {
			return err
		}
		all, err := comm.AllGather(p.c, recorded)
		if err != nil {
			return err
		}
		if slices.Contains(all, 1-recorded[0]) {
			return fmt.Errorf("emulated: an exchange is captured on some ranks only: %v", all)
		}
		return f(memory)
	})
	return func() error { return p.d.d.Join(t) }, err
}

func decode(x []byte) (values []float32) {
	for i := 0; i < len(x); i += 4 {
		values = append(values, math.Float32frombits(binary.NativeEndian.Uint32(x[i:])))
	}
	return values
}

func encode(x []byte, values []float32) {
	for i, v := range values {
		binary.NativeEndian.PutUint32(x[4*i:], math.Float32bits(v))
	}
}

// AllReduce sums vectors over all ranks, in place, in the order of comm.AllReduce.
func (p peers) AllReduce(x ...[]float32) (arrived func() error, err error) {
	var m []emulate.Buffer
	for _, v := range x {
		m = append(m, memoryOf(v, true))
	}
	return p.async(m, func(memory [][]byte) error {
		var all []float32
		for _, part := range memory {
			all = append(all, decode(part)...)
		}
		if err := comm.AllReduce(p.c, all, comm.Auto); err != nil {
			return err
		}
		for _, part := range memory {
			n := len(part) / 4
			encode(part, all[:n])
			all = all[n:]
		}
		return nil
	})
}

// AllGather is an all-gather in place: rank r contributes the r-th of Size equal
// pieces.
func (p peers) AllGather(all []float32) (arrived func() error, err error) {
	n := len(all) / p.c.Size()
	return p.async([]emulate.Buffer{memoryOf(all, true)}, func(memory [][]byte) error {
		values, err := comm.AllGather(p.c, decode(memory[0])[p.c.Rank()*n:][:n])
		if err == nil {
			encode(memory[0], values)
		}
		return err
	})
}

// Exchange sends and receives parts.
func (p peers) Exchange(parts []backend.Transfer) (arrived func() error, err error) {
	var m []emulate.Buffer
	for _, x := range parts {
		m = append(m, memoryOf(x.Send, false), memoryOf(x.Recv, true))
	}
	return p.async(m, func(memory [][]byte) error {
		var requests []comm.Request
		for i, x := range parts {
			if x.Rank < 0 || x.Rank >= p.c.Size() {
				return errors.New("emulated: no such rank")
			}
			if len(x.Recv) > 0 {
				requests = append(requests, p.c.Recv(x.Rank, 0, memory[2*i+1]))
			}
			if len(x.Send) > 0 {
				requests = append(requests, p.c.Send(x.Rank, 0, memory[2*i]))
			}
		}
		return comm.WaitAll(requests...)
	})
}
