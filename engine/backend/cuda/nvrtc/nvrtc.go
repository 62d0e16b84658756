//go:build cgo && linux

package nvrtc

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Compiler is the opened library. It is safe for concurrent use.
type Compiler struct {
	t             *C.ens_nvrtc // never freed, because libraries are not closed
	path          string
	major, minor  int
	architectures []int // ten times the compute capabilities that it supports, ascending
}

// opened holds the compilers of this process, by the file of the library.
var opened struct {
	sync.Mutex
	by map[string]*Compiler
}

// Open finds and opens the library. A second call with the same file returns the same
// compiler.
//
// Errors: *exit.Error (exit.NoDevice) that wraps dl.ErrNotFound or dl.ErrNoSymbol.
func Open() (*Compiler, error) {
	lib, err := libraries.Find(libraries.NVRTC)
	if err != nil {
		return nil, err
	}
	opened.Lock()
	defer opened.Unlock()
	if c := opened.by[lib.Path()]; c != nil {
		return c, nil
	}
	c := &Compiler{t: (*C.ens_nvrtc)(C.calloc(1, C.sizeof_ens_nvrtc)), path: lib.Path()}
	if err := c.start(lib); err != nil {
		C.free(unsafe.Pointer(c.t))
		return nil, err
	}
	if opened.by == nil {
		opened.by = map[string]*Compiler{}
	}
	opened.by[c.path] = c
	return c, nil
}

// start binds the functions and reads the version and the architectures.
//
// Errors: exit 69 for a library that lacks a function, such as one of CUDA 10.
func (c *Compiler) start(lib *dl.Library) error {
	unusable := func(why string, cause error) error {
		return &exit.Error{Code: exit.NoDevice, What: "cannot compile kernels", At: c.path, Why: why, Fix: "install NVRTC of CUDA 12 or later", Err: cause}
	}
	var missing [32]*C.char
	if n := int(C.ens_nvrtc_bind(c.t, lib.Handle(), &missing[0], C.int(len(missing)))); n > 0 {
		var names []string
		for _, p := range missing[:n] {
			names = append(names, C.GoString(p))
		}
		return unusable("it lacks "+strings.Join(names, ", "), dl.ErrNoSymbol)
	}
	var major, minor, n C.int
	if rc := C.ens_nvrtc_version(c.t, &major, &minor); rc != 0 {
		return unusable("nvrtcVersion: "+c.status(rc), errors.New(c.status(rc)))
	}
	var list [256]C.int
	if rc := C.ens_nvrtc_architectures(c.t, &list[0], C.int(len(list)), &n); rc != 0 {
		return unusable("nvrtcGetSupportedArchs: "+c.status(rc), errors.New(c.status(rc)))
	}
	if n == 0 {
		return unusable("it supports no architecture", errors.New("no architecture"))
	}
	c.major, c.minor = int(major), int(minor)
	for _, a := range list[:n] {
		c.architectures = append(c.architectures, int(a))
	}
	slices.Sort(c.architectures)
	return nil
}

func (c *Compiler) status(rc C.int) string { return C.GoString(C.ens_nvrtc_text(c.t, rc)) }

// Version returns the version of the library, such as "12.9".
func (c *Compiler) Version() string { return fmt.Sprintf("%d.%d", c.major, c.minor) }

// Path returns the file of the library.
func (c *Compiler) Path() string { return c.path }

// target returns the newest supported architecture that runs on the given one. machine
// is true if both have the same major number: then machine code runs; otherwise only
// PTX does, which the driver translates.
//
// Errors: a device that is older than all that the library supports.
// Source: NVIDIA, CUDA C++ Programming Guide, section on binary and PTX compatibility.
func (c *Compiler) target(architecture int) (best int, machine bool, err error) {
	for _, a := range c.architectures {
		if a <= architecture {
			best = a
		}
	}
	if best == 0 {
		return 0, false, fmt.Errorf("%s is NVRTC %s, which compiles for compute capability %d.%d and later, not %d.%d", c.path, c.Version(),
			c.architectures[0]/10, c.architectures[0]%10, architecture/10, architecture%10)
	}
	return best, best/10 == architecture/10, nil
}

// options returns the options of the compiler for a program. They are part of the key of the
// cache (Cache.Compile). machine is that of target.
//
// Errors: those of target.
func (c *Compiler) options(p device.Program, architecture int) (options []string, machine bool, err error) {
	target, machine, err := c.target(architecture)
	if err != nil {
		return nil, false, err
	}
	kind := "compute"
	if machine {
		kind = "sm"
	}
	// Line numbers let compute-sanitizer locate faults; they do not slow kernels down.
	// Programs include headers with functions that they do not use, which gives warnings.
	specific := ""
	if p.Specific && target == architecture && target >= firstSpecific {
		specific = "a"
	}
	options = []string{fmt.Sprintf("--gpu-architecture=%s_%d%s", kind, target, specific), "--std=c++17", "--generate-line-info", "--disable-warnings"}
	for _, d := range p.Defines {
		options = append(options, "-D"+d)
	}
	return options, machine, nil
}

// firstSpecific is the first architecture with instructions of its own, in targets such
// as sm_90a.
const firstSpecific = 90

// Compile returns machine code or PTX for a device of this architecture, ten times its
// compute capability.
//
// Memory: copies of source and result in C, freed before it returns.
// Errors: the log of the compiler, with the name of the program.
// Cost: from a tenth of a second to several seconds; Cache.Compile avoids it.
func (c *Compiler) Compile(p device.Program, architecture int) ([]byte, error) {
	options, machine, err := c.options(p, architecture)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", p.Name, err)
	}
	var texts []unsafe.Pointer
	text := func(s string) *C.char {
		t := C.CString(s)
		texts = append(texts, unsafe.Pointer(t))
		return t
	}
	defer func() {
		for _, t := range texts {
			C.free(t)
		}
	}()
	list := make([]*C.char, len(options))
	for i, o := range options {
		list[i] = text(o)
	}
	var ptx C.int
	if !machine {
		ptx = 1
	}
	var r C.ens_nvrtc_result
	rc := C.ens_nvrtc_compile(c.t, text(p.Source), text(p.Name), C.int(len(list)), &list[0], ptx, &r)
	defer C.free(unsafe.Pointer(r.image))
	defer C.free(unsafe.Pointer(r.log))
	if rc != 0 {
		err := fmt.Errorf("compile %s with %s: %s: %s", p.Name, strings.Join(options, " "), C.GoString(r.what), c.status(rc))
		if r.log != nil {
			err = fmt.Errorf("%w\n%s", err, strings.TrimSpace(C.GoString(r.log)))
		}
		return nil, err
	}
	if r.image == nil || r.image_bytes == 0 {
		return nil, fmt.Errorf("compile %s: no output of the compiler, or out of host memory", p.Name)
	}
	return C.GoBytes(unsafe.Pointer(r.image), C.int(r.image_bytes)), nil
}
