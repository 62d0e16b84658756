//go:build cgo && linux

package dnnl

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#cgo noescape ens_conv_run
#cgo nocallback ens_conv_run
#cgo noescape ens_sgemm
#cgo nocallback ens_sgemm
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Info describes the opened library.
type Info struct {
	Version    string // of the library, such as "2.6.3"
	Headers    string // version of the headers at compile time
	Path       string // the file
	WaitPolicy string // "passive" if Open set it, "user" if the environment had it
}

// opener opens a library; tests replace it to simulate missing files and symbols.
type opener func(names ...string) (*dl.Library, error)

var (
	openOnce sync.Once
	opened   Info
	openErr  error
)

// Open loads oneDNN once per process. Later calls return the first result.
//
// Errors: *exit.Error (exit.NoDevice) that wraps ErrUnavailable if the library or one
// of its functions is missing, or if it has another major version.
func Open() (Info, error) {
	openOnce.Do(func() { opened, openErr = open(dl.Open) })
	return opened, openErr
}

// Version returns the version of the library; "" if it cannot be opened.
func Version() string {
	info, err := Open()
	if err != nil {
		return ""
	}
	return info.Version
}

// unavailable returns the error of Open.
func unavailable(why string, cause error) error {
	major := int(C.ens_dnnl_major())
	return &exit.Error{
		Code: exit.NoDevice,
		What: "cannot use oneDNN for convolutions on the CPU",
		At:   fmt.Sprintf("libdnnl.so.%d", major),
		Why:  why,
		Fix:  fmt.Sprintf("install oneDNN %d.x (Debian, Ubuntu: apt install libdnnl%d) or set LD_LIBRARY_PATH to its folder", major, major),
		Err:  fmt.Errorf("%w: %w", ErrUnavailable, cause),
	}
}

// open loads the library with load and binds its functions.
func open(load opener) (Info, error) {
	var minor, patch C.int
	major := int(C.ens_dnnl_header_version(&minor, &patch))
	info := Info{Headers: fmt.Sprintf("%d.%d.%d", major, minor, patch), WaitPolicy: "user"}
	if set, err := dl.Setenv("OMP_WAIT_POLICY", "passive"); err != nil {
		return Info{}, unavailable(err.Error(), err)
	} else if set {
		info.WaitPolicy = "passive"
	}
	lib, err := load(fmt.Sprintf("libdnnl.so.%d", major), "libdnnl.so")
	if err != nil {
		return Info{}, unavailable(err.Error(), err)
	}
	info.Path = lib.Path()
	var name *C.char
	if C.ens_dnnl_bind(lib.Handle(), &name) != 0 {
		err := fmt.Errorf("%s has no function %s (want oneDNN %d.x): %w", info.Path, C.GoString(name), major, dl.ErrNoSymbol)
		return Info{}, unavailable(err.Error(), err)
	}
	var a, b, c C.int
	C.ens_dnnl_version(&a, &b, &c)
	info.Version = fmt.Sprintf("%d.%d.%d", a, b, c)
	if int(a) != major {
		err := fmt.Errorf("%s is version %s, want %d.x, for which this program was built", info.Path, info.Version, major)
		return Info{}, unavailable(err.Error(), err)
	}
	return info, nil
}

// Pass is a prepared pass of a convolution. It must not be used by two goroutines at
// once.
type Pass struct {
	c       *C.ens_conv
	dir     Direction
	bias    bool
	lens    [4]int // values of src, filter, bias, dst
	scratch int    // values
	impl    string // oneDNN's name of the kernel
	moves   int    // tensors that change layout in each run
}

// NewPass prepares a pass. It runs on OpenMP threads of the calling OS thread: run all
// passes on one locked thread.
//
// Errors: those of Open; the failed call and its Status if oneDNN has no implementation
// for the shape, layout or algorithm.
func NewPass(s Shape, o Options) (*Pass, error) {
	if _, err := Open(); err != nil {
		return nil, err
	}
	n := len(s.In)
	if n < 2 || n > 3 {
		return nil, fmt.Errorf("dnnl convolution: %d spatial axes, want 2 or 3", n)
	}
	cs := C.ens_conv_spec{
		pass: C.int(o.Direction), layout: C.int(o.Layout), alg: C.int(o.Algorithm),
		bias: b2i(o.Bias), inference: b2i(o.Inference), threads: C.int(o.Threads),
		nsp: C.int(n), n: C.long(s.N), cin: C.long(s.Cin), cout: C.long(s.Cout),
	}
	p := &Pass{dir: o.Direction, bias: o.Bias && o.Direction != BackwardData}
	p.lens = [4]int{s.N * s.Cin, s.Cout * s.Cin, s.Cout, s.N * s.Cout}
	for i := range n {
		cs.in[i], cs.out[i] = C.long(s.In[i]), C.long(s.Out(i))
		cs.kernel[i], cs.stride[i], cs.dilation[i] = C.long(s.Kernel[i]), C.long(s.Stride[i]), C.long(s.Dilation[i])
		cs.pad_lo[i], cs.pad_hi[i] = C.long(s.PadLo[i]), C.long(s.PadHi[i])
		p.lens[0] *= s.In[i]
		p.lens[1] *= s.Kernel[i]
		p.lens[3] *= s.Out(i)
	}
	// The number of OpenMP threads is a setting of the OS thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var what *C.char
	if rc := C.ens_conv_new(&cs, &p.c, &what); rc != 0 {
		return nil, fmt.Errorf("dnnl convolution: %s: %w", C.GoString(what), Status(rc))
	}
	p.scratch = (int(C.ens_conv_scratch(p.c)) + 3) / 4
	p.impl = C.GoString(C.ens_conv_impl(p.c))
	p.moves = int(C.ens_conv_reorders(p.c))
	return p, nil
}

// ScratchLen returns the number of float32 values of scratch that Run needs.
func (p *Pass) ScratchLen() int { return p.scratch }

// Implementation returns oneDNN's name of the kernel.
func (p *Pass) Implementation() string { return p.impl }

// Reorders returns the number of tensors that change layout in each run.
func (p *Pass) Reorders() int { return p.moves }

// Run executes the pass:
//
//	Forward          reads src, filter, bias; writes dst
//	BackwardData     reads filter, dst (its gradient); writes src (its gradient)
//	BackwardWeights  reads src, dst (its gradient); writes filter, bias (their gradients)
//
// Memory: allocates nothing in Go. Slices are used during the call only. scratch need
// not be initialised.
// Errors: Status of oneDNN. It panics if a slice has another length than prepared.
func (p *Pass) Run(src, filter, bias, dst, scratch []float32) error {
	if !p.bias {
		bias = nil
	}
	if len(src) != p.lens[0] || len(filter) != p.lens[1] || (p.bias && len(bias) != p.lens[2]) ||
		len(dst) != p.lens[3] || len(scratch) < p.scratch {
		panic("dnnl: Run: lengths of slices differ from those prepared")
	}
	rc := C.ens_conv_run(p.c, ptr(src), ptr(filter), ptr(bias), ptr(dst), ptr(scratch))
	if rc != 0 {
		return Status(rc)
	}
	return nil
}

// Close frees the primitive. It may be called more than once.
func (p *Pass) Close() error {
	if p.c != nil {
		C.ens_conv_close(p.c)
		p.c = nil
	}
	return nil
}

// SGEMM computes C = A·B for row-major m×k and k×n matrices on the given number of
// threads.
func SGEMM(m, n, k int, a, b, c []float32, threads int) error {
	if _, err := Open(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	C.ens_dnnl_threads(C.int(threads))
	rc := C.ens_sgemm(C.long(m), C.long(n), C.long(k), (*C.float)(ptr(a)), (*C.float)(ptr(b)), (*C.float)(ptr(c)))
	if rc != 0 {
		return Status(rc)
	}
	return nil
}

func ptr(x []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(x)) }

func b2i(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
