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

// Info is what was opened.
type Info struct {
	Version    string // of the library, "2.6.3"
	Headers    string // the headers this program was built with
	Path       string // file opened
	WaitPolicy string // "passive" if we set it, "user" if it was in the environment
}

// opener loads a library; tests replace it to try missing files and symbols.
type opener func(names ...string) (*dl.Library, error)

var (
	openOnce sync.Once
	opened   Info
	openErr  error
)

// Open loads oneDNN once for the process; later calls give the first answer.
//
// Errors: *exit.Error (no device) that wraps ErrUnavailable when the library,
// one of its functions or the right version is missing.
func Open() (Info, error) {
	openOnce.Do(func() { opened, openErr = open(dl.Open) })
	return opened, openErr
}

// Version is the version of the library, empty if it cannot be opened.
func Version() string {
	info, err := Open()
	if err != nil {
		return ""
	}
	return info.Version
}

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
		err := fmt.Errorf("%s lacks %s; oneDNN %d.x was expected: %w", info.Path, C.GoString(name), major, dl.ErrNoSymbol)
		return Info{}, unavailable(err.Error(), err)
	}
	var a, b, c C.int
	C.ens_dnnl_version(&a, &b, &c)
	info.Version = fmt.Sprintf("%d.%d.%d", a, b, c)
	if int(a) != major {
		err := fmt.Errorf("%s is version %s, this program was built for %d.x", info.Path, info.Version, major)
		return Info{}, unavailable(err.Error(), err)
	}
	return info, nil
}

// Pass is a prepared direction of a convolution. Not for two goroutines at once.
type Pass struct {
	c       *C.ens_conv
	dir     Direction
	bias    bool
	lens    [4]int // src, filter, bias, dst
	scratch int
	impl    string
	moves   int
}

// NewPass prepares a pass. Its threads are OpenMP's, of the calling OS thread
// when it runs: run all passes on one locked thread.
//
// Errors: ErrUnavailable as from Open, or the call and status of oneDNN when
// it has no implementation for the shape, layout or algorithm.
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
		bias: b2i(o.Bias), relu: b2i(o.ReLU), inference: b2i(o.Inference), threads: C.int(o.Threads),
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
	// The number of threads is a setting of the OS thread that creates.
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

// ScratchLen is the number of float32 that Run wants as scratch.
func (p *Pass) ScratchLen() int { return p.scratch }

// Implementation is oneDNN's name of the kernel.
func (p *Pass) Implementation() string { return p.impl }

// Reorders is the number of tensors that change layout in each Run.
func (p *Pass) Reorders() int { return p.moves }

// Run executes the pass; it allocates nothing in Go. By direction:
//
//	Forward          reads src, filter, bias; writes dst
//	BackwardData     reads filter, dst (its gradient); writes src (its gradient)
//	BackwardWeights  reads src, dst (its gradient); writes filter, bias (their gradients)
//
// Memory: the slices are lent for the call. scratch needs no values and keeps none.
// Errors: Status of oneDNN. A slice of the wrong length is a broken invariant and panics.
func (p *Pass) Run(src, filter, bias, dst, scratch []float32) error {
	if !p.bias {
		bias = nil
	}
	if len(src) != p.lens[0] || len(filter) != p.lens[1] || (p.bias && len(bias) != p.lens[2]) ||
		len(dst) != p.lens[3] || len(scratch) < p.scratch {
		panic("dnnl: Run with slices of other lengths than prepared for")
	}
	rc := C.ens_conv_run(p.c, ptr(src), ptr(filter), ptr(bias), ptr(dst), ptr(scratch))
	if rc != 0 {
		return Status(rc)
	}
	return nil
}

// Close releases the primitive; more than once does no harm.
func (p *Pass) Close() error {
	if p.c != nil {
		C.ens_conv_close(p.c)
		p.c = nil
	}
	return nil
}

// SGEMM computes C = A·B for row-major m×k and k×n matrices on the given
// number of threads: the yardstick of what the machine can reach.
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
