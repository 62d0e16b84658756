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

// maxVersion is at least MPI_MAX_LIBRARY_VERSION_STRING of any supported library:
// 256 in Open MPI, 8192 in MPICH.
const maxVersion = 16384

// Probe opens an MPI library and queries its version, which MPI allows before
// initialisation.
//
// Errors: dl.ErrNotFound if the library is missing; a failed query.
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
		return Library{}, fmt.Errorf("%s: MPI_Get_library_version returned %d", lib.Path(), int(rc))
	}
	return Library{Version: shortVersion(C.GoString(&text[0])), Path: lib.Path()}, nil
}
