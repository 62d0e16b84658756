//go:build cgo && linux

package kern

/*
#cgo CFLAGS: -O3 -Wall
#cgo LDFLAGS: -lpthread -lm
#include "kern.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Pool is a set of threads that share the work of one kernel. It runs one kernel at a
// time and must be used by one goroutine at a time. A nil Pool runs everything on the
// caller's thread.
type Pool struct{ c *C.ens_pool }

// NewPool starts threads−1 threads; the caller is the last one.
//
// Errors: threads < 1, or the system cannot start them.
func NewPool(threads int) (*Pool, error) {
	if threads < 1 {
		return nil, fmt.Errorf("kernel pool: %d threads, want at least 1", threads)
	}
	p := C.ens_pool_new(C.int(threads))
	if p == nil {
		return nil, errors.New("kernel pool: out of memory")
	}
	if got := int(C.ens_pool_threads(p)); got != threads {
		C.ens_pool_close(p)
		return nil, fmt.Errorf("kernel pool: %d of %d threads could be started", got, threads)
	}
	return &Pool{c: p}, nil
}

// Threads returns the number of threads, including the caller.
func (p *Pool) Threads() int { return int(C.ens_pool_threads(p.ptr())) }

// Close ends the threads. It may be called more than once.
func (p *Pool) Close() error {
	if p != nil && p.c != nil {
		C.ens_pool_close(p.c)
		p.c = nil
	}
	return nil
}

// ptr returns the pool in C; NULL for a nil Pool.
func (p *Pool) ptr() *C.ens_pool {
	if p == nil {
		return nil
	}
	return p.c
}

// ISA returns the instruction set of the kernels in use: amx (avx512bf16 with convolutions
// by AMX_BF16), avx512bf16, avx512, avx2 or base.
func ISA() string { return C.GoString(C.ens_isa_name()) }

// useISA selects an instruction set, for tests; false if the processor does not support
// it.
func useISA(name string) bool {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.ens_isa_use(c) == 0
}

// activeThreads returns how many of the active threads the pool uses for the next
// kernels (ens_pool_active).
func activeThreads(active int, running, together float64) int {
	return int(C.ens_pool_active(C.int(active), C.double(running), C.double(together)))
}

// spins returns how often a thread looks for the next kernel before it sleeps (ens_pool_spins).
func spins(active int, running float64) int {
	return int(C.ens_pool_spins(C.int(active), C.double(running)))
}

// f32 returns the address of the first value; NULL for an empty slice.
func f32(x []float32) *C.float {
	if len(x) == 0 {
		return nil
	}
	return (*C.float)(unsafe.Pointer(unsafe.SliceData(x)))
}

// want panics unless a slice has the expected length.
func want(what string, got, n int) {
	if got != n {
		panic(fmt.Sprintf("kern: %s has %d values, want %d", what, got, n))
	}
}

// atLeast panics unless a slice has at least the expected length.
func atLeast(what string, got, n int) {
	if got < n {
		panic(fmt.Sprintf("kern: %s has %d values, want at least %d", what, got, n))
	}
}

// want3 returns three sizes as longs of C.
func want3(in [3]int) (c [3]C.long) {
	for i, v := range in {
		c[i] = C.long(v)
	}
	return c
}
