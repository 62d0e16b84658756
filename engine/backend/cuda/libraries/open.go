package libraries

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Use is a library whose functions a package calls, as its errors name it.
type Use struct {
	Library
	Purpose string // "convolutions on the GPU"
	Install string // "cuDNN 9"
	Marker  error  // that errors wrap
}

// Open finds the library, by find if it is not nil, and gives it to bind, which takes its
// functions and looks at its version.
//
// Errors: *exit.Error (no device) that wraps Marker, around those of find and bind.
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

// Unavailable is the error of a library that is there and cannot be used.
func (u Use) Unavailable(at string, cause error) error {
	return &exit.Error{Code: exit.NoDevice, What: "cannot use " + u.Name + " for " + u.Purpose, At: at, Why: cause.Error(),
		Fix: "install " + u.Install + " for the CUDA version of the driver (PyPI: " + u.install + "), or set " + PathVariable + " to its folder",
		Err: fmt.Errorf("%w: %w", u.Marker, cause)}
}
