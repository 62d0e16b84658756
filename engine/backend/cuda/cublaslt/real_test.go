//go:build long && cgo && linux

package cublaslt

import (
	"errors"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
)

// Prototypes, values and structures are those of the headers.
func TestLongHeaders(t *testing.T) { librariestest.Headers(t, "cublasLt.h") }

// Products are described to the library itself, as far as that goes without a device.
func TestLongNoDevice(t *testing.T) {
	librariestest.Includes(t, "cublasLt.h")
	l, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(l.Version(), "12.") {
		t.Errorf("version %q", l.Version())
	}
	_, err = l.New(loaded)
	var e *CallError
	if !errors.As(err, &e) || e.Status != 1 || e.Name != "CUBLAS_STATUS_NOT_INITIALIZED" || !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want cublasLtCreate to answer 1", err)
	}
	for _, p := range []Product{{M: 3, N: 5, K: 7}, {M: 3, N: 5, K: 7, TransA: true, TransB: true, Batch: 2, NextD: 15, Type: BFloat16, Result: BFloat16, Bias: true, ReLU: true},
		{M: 3, N: 5, K: 7, TF32: true, RowD: 9}} {
		c, err := l.describe(&p)
		if err != nil {
			t.Fatalf("%v: %v", &p, err)
		}
		if err := l.drop(c, p.String()); err != nil {
			t.Error(err)
		}
	}
}
