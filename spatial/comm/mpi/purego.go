//go:build !cgo || !linux

package mpi

import (
	"time"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// World is the group of all ranks of an MPI job; it is not available without cgo.
type World struct{ comm.Transport }

// Join always fails without cgo.
//
// Errors: exit 69.
func Join(o Launch, _ time.Duration) (*World, error) {
	return nil, &exit.Error{Code: exit.NoDevice, What: o.Implementation.Name + " started this process, but the program was built without cgo",
		Why: "MPI libraries are called through cgo", Fix: "build with CGO_ENABLED=1, or start one process without the launcher"}
}

// Close does nothing.
func (*World) Close() error { return nil }

// Fail does nothing.
func (*World) Fail([]byte, time.Duration) {}

// Failed returns nothing.
func (*World) Failed() map[int][]byte { return nil }

// Probe always fails without cgo.
//
// Errors: dl.ErrNotFound.
func Probe(i Implementation) (Library, error) {
	_, err := dl.Open(i.Files...)
	return Library{}, err
}
