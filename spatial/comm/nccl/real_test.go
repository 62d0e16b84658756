//go:build long && cgo && linux

package nccl

import (
	"errors"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Prototypes, values and structures are those of the headers.
func TestLongHeaders(t *testing.T) { librariestest.Headers(t, "nccl.h") }

// Without a device the library creates ids, and its error of a join is returned.
func TestLongNoDevice(t *testing.T) {
	librariestest.Includes(t, "nccl.h")
	l, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(l.Version(), "2.") {
		t.Errorf("version %q", l.Version())
	}
	err = comm.Run(1, comm.Parallel, func(group *comm.Comm) error { _, err := l.Join(group, loaded); return err })
	var e *CallError
	if !errors.As(err, &e) || e.Call != "ncclCommInitRank" || e.Status != 1 {
		t.Errorf("got %v, want ncclCommInitRank to answer 1, an error of CUDA", err)
	}
}
