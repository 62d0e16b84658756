//go:build cgo && linux

package cublaslt

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#cgo noescape ens_lt_run
#cgo nocallback ens_lt_run
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
)

// Library is cuBLASLt, opened.
type Library struct {
	t       *C.ens_lt // never freed, as the library is never unloaded
	version string
	path    string
}

// Open opens cuBLASLt. find looks for it; nil is libraries.Find.
//
// Errors: *exit.Error (no device) that wraps ErrUnavailable if the library, one of its
// functions or the right version is not there.
func Open(find func(libraries.Library) (*dl.Library, error)) (*Library, error) {
	l := &Library{t: (*C.ens_lt)(C.calloc(1, C.sizeof_ens_lt))}
	var err error
	if l.path, err = use.Open(find, l.bind); err != nil {
		C.free(unsafe.Pointer(l.t))
		return nil, err
	}
	return l, nil
}

func (l *Library) bind(lib *dl.Library) error {
	if err := lib.Bind(C.GoString(C.ens_lt_names), unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(l.t)), C.sizeof_ens_lt/C.sizeof_uintptr_t)); err != nil {
		return err
	}
	v := int(C.ens_lt_version(l.t)) // 120903
	if l.version = fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100); v < 120000 || v >= 140000 {
		return fmt.Errorf("it is version %s, this program was built for 12.x and 13.x", l.version)
	}
	return nil
}

// use is what the library is opened as.
var use = libraries.Use{Library: libraries.CuBLASLt, For: "matrix products on the GPU", Install: "cuBLAS", Marker: ErrUnavailable}

// Version is that of the library, "12.9.3".
func (l *Library) Version() string { return l.version }

// Path is the file that was opened.
func (l *Library) Path() string { return l.path }

// failed is the error of a call; nil if it has not failed.
func (l *Library) failed(call *C.char, what string, status C.int) error {
	if status == 0 {
		return nil
	}
	return &CallError{Call: C.GoString(call), What: what, Status: int(status), Name: C.GoString(C.ens_lt_name(l.t, status)),
		Detail: C.GoString(C.ens_lt_text(l.t, status))}
}

// named is failed where Go knows the call.
func (l *Library) named(call, what string, status C.int) error {
	if status == 0 {
		return nil
	}
	c := C.CString(call)
	defer C.free(unsafe.Pointer(c))
	return l.failed(c, what, status)
}

// Handle is cuBLASLt on one device. It is used by one goroutine at a time, on the thread
// where the context of the device is current.
type Handle struct {
	l      *Library
	handle unsafe.Pointer
	stream unsafe.Pointer
}

// New prepares cuBLASLt for a device, whose context is current.
//
// Errors: *exit.Error (no device) that wraps ErrUnavailable and a *CallError.
func (l *Library) New(d device.Loaded) (*Handle, error) {
	var p unsafe.Pointer
	if err := l.named("cublasLtCreate", "the handle", C.ens_lt_create(l.t, &p)); err != nil {
		return nil, use.Unavailable(l.path, err)
	}
	return &Handle{l: l, handle: p, stream: d.Stream()}, nil
}

// Close ends the handle; plans are closed before. It may be repeated.
func (h *Handle) Close() error {
	if h.handle == nil {
		return nil
	}
	p := h.handle
	h.handle = nil
	return h.l.named("cublasLtDestroy", "the handle", C.ens_lt_destroy(h.l.t, p))
}

// Plan is a prepared product. It is used like its Handle.
type Plan struct {
	h         *Handle
	p         Product
	c         *C.ens_lt_product
	name      string
	workspace int64
	bias      unsafe.Pointer // of the last run
}

func typeOf(t Type) C.int { return [...]C.int{C.CUDA_R_32F, C.CUDA_R_16BF, C.CUDA_R_16F}[t] }

func operation(transposed bool) C.int {
	if transposed {
		return C.CUBLAS_OP_T
	}
	return C.CUBLAS_OP_N
}

// describe makes the product that cuBLASLt is asked for: its first factor is our second.
func (l *Library) describe(p *Product) (*C.ens_lt_product, error) {
	s := C.ens_lt_spec{compute: C.CUBLAS_COMPUTE_32F, _type: typeOf(p.Type), result: typeOf(p.Result),
		trans_a: operation(p.TransB), trans_b: operation(p.TransA), epilogue: C.CUBLASLT_EPILOGUE_DEFAULT,
		batch: C.int(max(1, p.Batch)), alpha: C.float(p.Scale), beta: C.float(p.Beta)}
	if p.TF32 {
		s.compute = C.CUBLAS_COMPUTE_32F_FAST_TF32
	}
	switch {
	case p.Bias && p.ReLU:
		s.epilogue = C.CUBLASLT_EPILOGUE_RELU_BIAS
	case p.Bias:
		s.epilogue = C.CUBLASLT_EPILOGUE_BIAS
	case p.ReLU:
		s.epilogue = C.CUBLASLT_EPILOGUE_RELU
	}
	if p.Scale == 0 {
		s.alpha = 1
	}
	sides := p.sides()
	for i, m := range []side{sides[1], sides[0], sides[2]} {
		s.rows[i], s.cols[i] = C.uint64_t(m.cols), C.uint64_t(m.rows)
		s.ld[i], s.stride[i] = C.int64_t(m.row), C.int64_t(m.next)
	}
	var c *C.ens_lt_product
	var call *C.char
	status := C.ens_lt_new(l.t, &s, &c, &call)
	return c, l.failed(call, p.String(), status)
}

// drop frees a product.
func (l *Library) drop(c *C.ens_lt_product, what string) error {
	var call *C.char
	status := C.ens_lt_drop(l.t, c, &call)
	return l.failed(call, what, status)
}

// usual is how many plans are asked for where the caller does not say.
const usual = 8

// Plans finds plans, in the order of cuBLASLt's guess of their speed. Each is closed by the
// caller.
//
// Errors: ErrUnsupported if there is none; *CallError.
func (h *Handle) Plans(p Product, limits Limits) ([]*Plan, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	most := limits.Most
	if most < 1 {
		most = usual
	}
	found, err := h.find(&p, max(0, limits.Workspace), most)
	if err != nil {
		return nil, err
	}
	var plans []*Plan
	reasons := []error{ErrUnsupported}
	for i := range found {
		f := &found[i]
		if f.bytes > limits.Workspace {
			reasons = append(reasons, fmt.Errorf("%s: %d bytes of workspace", f.name, f.bytes))
			continue
		}
		plan, err := h.take(&p, f)
		if err != nil {
			for _, plan := range plans {
				err = errors.Join(err, plan.Close())
			}
			return nil, err
		}
		plans = append(plans, plan)
	}
	if len(plans) == 0 {
		return nil, fmt.Errorf("cublaslt: %v with at most %d bytes of workspace: %w", &p, limits.Workspace, errors.Join(reasons...))
	}
	return plans, nil
}

// algorithm is one that was found for a product.
type algorithm struct {
	name  string
	bytes int64 // of workspace
	algo  C.ens_lt_algo
}

// find asks for algorithms and gives each once; none where cuBLASLt knows none.
func (h *Handle) find(p *Product, workspace int64, most int) (all []algorithm, err error) {
	what := p.String()
	c, err := h.l.describe(p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.l.drop(c, what)) }()
	found := make([]C.ens_lt_result, most)
	var n C.int
	var call *C.char
	status := C.ens_lt_find(h.l.t, h.handle, c, C.uint64_t(workspace), Alignment, C.int(most), &found[0], &n, &call)
	if status == notSupported {
		return nil, nil
	}
	if err := h.l.failed(call, what, status); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i := range min(int(n), most) {
		if found[i].state != 0 {
			continue
		}
		var config [C.ENS_LT_CONFIG]C.int64_t
		status := C.ens_lt_read(h.l.t, &found[i].algo, &config[0], &call)
		if err := h.l.failed(call, what, status); err != nil {
			return nil, err
		}
		var s settings
		for k := range s {
			s[k] = int64(config[k])
		}
		if name := s.String(); !seen[name] {
			seen[name] = true
			all = append(all, algorithm{name, int64(found[i].workspaceSize), found[i].algo})
		}
	}
	return all, nil
}

// take makes the plan of an algorithm that was found.
func (h *Handle) take(p *Product, f *algorithm) (*Plan, error) {
	c, err := h.l.describe(p)
	if err != nil {
		return nil, err
	}
	C.ens_lt_take(c, &f.algo)
	return &Plan{h: h, p: *p, c: c, name: f.name, workspace: f.bytes}, nil
}

// Plan makes the plan of a name that Plans gave, for the same product and the same version
// of cuBLASLt.
//
// Errors: ErrUnsupported around a *CallError if cuBLASLt has no such algorithm here.
func (h *Handle) Plan(p Product, name string) (*Plan, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s, err := parse(name)
	if err != nil {
		return nil, err
	}
	c, err := h.l.describe(&p)
	if err != nil {
		return nil, err
	}
	var config [C.ENS_LT_CONFIG]C.int64_t
	for k, v := range s {
		config[k] = C.int64_t(v)
	}
	var bytes C.uint64_t
	var call *C.char
	status := C.ens_lt_choose(h.l.t, h.handle, c, &config[0], &bytes, &call)
	if err := h.l.failed(call, fmt.Sprintf("%s of %v", name, &p), status); err != nil {
		err = errors.Join(fmt.Errorf("%w: %w", ErrUnsupported, err), h.l.drop(c, name))
		return h.again(&p, name, err)
	}
	return &Plan{h: h, p: p, c: c, name: name, workspace: int64(bytes)}, nil
}

// again looks for an algorithm that cannot be set by its settings among those that are
// found.
func (h *Handle) again(p *Product, name string, refused error) (*Plan, error) {
	found, err := h.find(p, anyWorkspace, many)
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	for i := range found {
		if found[i].name == name {
			return h.take(p, &found[i])
		}
	}
	return nil, refused
}

// What again asks for: more than any caller would.
const (
	anyWorkspace = 1 << 40
	many         = 64
)

// Name tells the plan apart from others of the same product.
func (p *Plan) Name() string { return p.name }

// Workspace is what Run wants, in bytes.
func (p *Plan) Workspace() int64 { return p.workspace }

// Run asks for the product, which is done when the work before it on the stream is; the
// caller goes on. It allocates nothing. It may be recorded, if it ran before: its first run
// may load kernels.
//
// Errors: an operand that is missing or not aligned; *CallError.
func (p *Plan) Run(o Operands) error {
	if p.c == nil {
		return fmt.Errorf("cublaslt: %s: the plan was closed", p.name)
	}
	c := o.C
	if c == nil {
		c = o.D
	}
	if !aligned(o.A) || !aligned(o.B) || !aligned(c) || !aligned(o.D) || p.p.Bias && !aligned(o.Bias) || p.workspace > 0 && !aligned(o.Workspace) {
		return fmt.Errorf("cublaslt: %s: operands %+v: want memory of the device, aligned to %d bytes", p.name, o, Alignment)
	}
	if p.p.Bias && o.Bias != p.bias {
		if status := C.ens_lt_bias(p.h.l.t, p.c, C.uint64_t(uintptr(o.Bias))); status != 0 {
			return p.h.l.named("cublasLtMatmulDescSetAttribute", p.name, status)
		}
		p.bias = o.Bias
	}
	status := C.ens_lt_run(p.h.l.t, p.h.handle, p.c, o.B, o.A, c, o.D, o.Workspace, C.size_t(p.workspace), p.h.stream)
	if status != 0 {
		return p.h.l.named("cublasLtMatmul", p.name, status)
	}
	return nil
}

func aligned(p unsafe.Pointer) bool { return p != nil && uintptr(p)%Alignment == 0 }

// Close frees the plan. It may be repeated.
func (p *Plan) Close() error {
	if p.c == nil {
		return nil
	}
	c := p.c
	p.c = nil
	return p.h.l.drop(c, p.name)
}
