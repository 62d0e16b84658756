//go:build !cgo || !linux

package dnnl

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Info describes the opened library.
type Info struct{ Version, Headers, Path, WaitPolicy string }

// Open always fails in a program built without cgo.
func Open() (Info, error) {
	return Info{}, &exit.Error{
		Code: exit.NoDevice, What: "cannot use oneDNN for convolutions on the CPU",
		Why: "this program was built without cgo", Fix: "build with CGO_ENABLED=1 on Linux",
		Err: ErrUnavailable,
	}
}

// Version is empty without cgo.
func Version() string { return "" }

// Pass is a prepared direction of a convolution; without cgo there is none.
type Pass struct{}

// NewPass always fails without cgo.
func NewPass(Shape, Options) (*Pass, error) {
	_, err := Open()
	return nil, fmt.Errorf("dnnl convolution: %w", err)
}

// ScratchLen is 0 without cgo.
func (p *Pass) ScratchLen() int { return 0 }

// Implementation is empty without cgo.
func (p *Pass) Implementation() string { return "" }

// Reorders is 0 without cgo.
func (p *Pass) Reorders() int { return 0 }

// Run always fails without cgo.
func (p *Pass) Run(_, _, _, _, _ []float32) error { return ErrUnavailable }

// Close does nothing without cgo.
func (p *Pass) Close() error { return nil }

// SGEMM always fails without cgo.
func SGEMM(_, _, _ int, _, _, _ []float32, _ int) error { return ErrUnavailable }
