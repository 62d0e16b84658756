//go:build cgo && linux

package mpi

/*
typedef int (*version_fn)(char *, int *);

static int call_version(void *f, char *text, int *length) { return ((version_fn)f)(text, length); }
*/
import "C"

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/dl"
)

// maxVersion is not less than MPI_MAX_LIBRARY_VERSION_STRING of any library: Open
// MPI has 256, MPICH 8192.
const maxVersion = 16384

// Probe opens an MPI library and asks for its version, which MPI allows before it is
// initialised. Nothing else is called.
//
// Errors: dl.ErrNotFound if the library is not there; one that does not answer.
func Probe(i Implementation) (Library, error) {
	lib, err := dl.Open(i.Files...)
	if err != nil {
		return Library{}, err
	}
	f, err := lib.Symbol("MPI_Get_library_version")
	if err != nil {
		return Library{}, err
	}
	var text [maxVersion]C.char
	var length C.int
	if rc := C.call_version(f, &text[0], &length); rc != 0 {
		return Library{}, fmt.Errorf("%s: MPI_Get_library_version answers %d", lib.Path(), int(rc))
	}
	return Library{Version: shortVersion(C.GoString(&text[0])), Path: lib.Path()}, nil
}
