//go:build cgo && linux

package dl

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

static const char *ens_dl_path(void *h) {
	struct link_map *m = 0;
	if (dlinfo(h, RTLD_DI_LINKMAP, &m) != 0 || !m) return "";
	return m->l_name;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Library is an opened shared library. It is never unloaded, because threads of
// oneDNN, OpenMP or CUDA may still execute its code.
type Library struct {
	handle unsafe.Pointer
	path   string
}

// Open opens the first of names that the loader finds. Symbols stay local to the
// library (RTLD_LOCAL).
//
// Errors: a NotFoundError.
func Open(names ...string) (*Library, error) { return open(C.RTLD_LOCAL, names) }

// OpenGlobal is Open with RTLD_GLOBAL, for libraries whose plug-ins need their
// symbols.
func OpenGlobal(names ...string) (*Library, error) { return open(C.RTLD_GLOBAL, names) }

// open calls dlopen for each name.
func open(scope C.int, names []string) (*Library, error) {
	// dlerror is kept per OS thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fail := &NotFoundError{Names: names}
	for _, n := range names {
		cn := C.CString(n)
		h := C.dlopen(cn, C.RTLD_NOW|scope)
		C.free(unsafe.Pointer(cn))
		if h != nil {
			return &Library{handle: h, path: C.GoString(C.ens_dl_path(h))}, nil
		}
		fail.Reasons = append(fail.Reasons, C.GoString(C.dlerror()))
	}
	return nil, fail
}

// Path returns the file that the loader opened.
func (l *Library) Path() string { return l.path }

// Handle returns the dlopen handle, for C code that resolves many symbols.
func (l *Library) Handle() unsafe.Pointer { return l.handle }

// Symbol returns the address of an exported function or variable, of dependencies
// too. Errors: ErrNoSymbol.
func (l *Library) Symbol(name string) (unsafe.Pointer, error) {
	cn := C.CString(name)
	defer C.free(unsafe.Pointer(cn))
	p := C.dlsym(l.handle, cn)
	if p == nil {
		return nil, fmt.Errorf("%s: %s: %w", l.path, name, ErrNoSymbol)
	}
	return p, nil
}

// Bind fills a table with the addresses of functions; names are separated by
// spaces. Errors: ErrNoSymbol with all missing names; a table of another length.
func (l *Library) Bind(text string, table []unsafe.Pointer) error {
	names := strings.Fields(text)
	if len(names) != len(table) {
		return fmt.Errorf("%s: %d names for a table of %d functions", l.path, len(names), len(table))
	}
	var missing []string
	for i, n := range names {
		var err error
		if table[i], err = l.Symbol(n); err != nil {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("it lacks %s: %w", strings.Join(missing, ", "), ErrNoSymbol)
	}
	return nil
}

// Setenv sets a variable in the C environment unless it is set already, and reports
// whether it did. Libraries that read their settings when they are loaded need it
// before Open.
func Setenv(key, value string) (bool, error) {
	if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(value, "\x00") {
		return false, fmt.Errorf("setenv %q: %w", key, errors.ErrUnsupported)
	}
	k, v := C.CString(key), C.CString(value)
	defer C.free(unsafe.Pointer(k))
	defer C.free(unsafe.Pointer(v))
	if C.getenv(k) != nil {
		return false, nil
	}
	if rc, err := C.setenv(k, v, 0); rc != 0 {
		return false, fmt.Errorf("setenv %s: %w", key, err)
	}
	return true, nil
}
