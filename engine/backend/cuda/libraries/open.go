package libraries

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Use is a library that a package uses, for its errors.
type Use struct {
	Library
	Purpose string // such as "convolutions on the GPU"
	Install string // such as "cuDNN 9"
	Marker  error  // sentinel that errors wrap
}

// Open finds the library, with find if it is not nil, and calls bind, which binds its
// functions and checks its version.
//
// The library stays open until the process ends.
//
// Errors: *exit.Error (exit.NoDevice) that wraps Marker and the error of find or bind.
func (u Use) Open(find func(Library) (*dl.Library, error), bind func(*dl.Library) error) (path string, err error) {
	if find == nil {
		find = Find
	}
	lib, err := find(u.Library)
	if err != nil {
		return "", fmt.Errorf("%w: %w", u.Marker, err)
	}
	if err := bind(lib); err != nil {
		return "", u.Unavailable(lib.Path(), err)
	}
	return lib.Path(), nil
}

// Unavailable returns the error of a library that exists but cannot be used.
func (u Use) Unavailable(at string, cause error) error {
	return &exit.Error{Code: exit.NoDevice, What: "cannot use " + u.Name + " for " + u.Purpose, At: at, Why: cause.Error(),
		Fix: "install " + u.Install + " for the CUDA version of the driver (PyPI: " + u.install + "), or set " + PathVariable + " to its folder",
		Err: fmt.Errorf("%w: %w", u.Marker, cause)}
}
