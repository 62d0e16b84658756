//go:build !cgo || !linux

package nvrtc

import (
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
)

// Compiler is the opened library; without cgo there is none.
type Compiler struct{}

// Open always fails without cgo, with the reason.
func Open() (*Compiler, error) {
	_, err := libraries.Find(libraries.NVRTC)
	return nil, err
}

// Version is empty without cgo.
func (c *Compiler) Version() string { return "" }

// Path is empty without cgo.
func (c *Compiler) Path() string { return "" }

func (c *Compiler) options(device.Program, int) ([]string, bool, error) {
	_, err := Open()
	return nil, false, err
}

// Compile always fails without cgo.
func (c *Compiler) Compile(device.Program, int) ([]byte, error) {
	_, err := Open()
	return nil, err
}
