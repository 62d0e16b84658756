//go:build !cgo || !linux

package cuda

import "fmt"

// errPure is the error of a program without cgo.
var errPure = fmt.Errorf("%w: this program was built without cgo", ErrNoDriver)

// Inspect always fails without cgo.
//
// Errors: ErrNoDriver.
func Inspect() (*Inventory, error) { return nil, errPure }

// Watcher reads one GPU; without cgo there is none.
type Watcher struct{}

// Watch always fails without cgo.
//
// Errors: ErrNoDriver.
func Watch(string) (*Watcher, error) { return nil, errPure }

// Read always fails without cgo.
func (w *Watcher) Read() (Readings, error) { return Readings{}, errPure }

// Close does nothing without cgo.
func (w *Watcher) Close() error { return nil }

// Driver is empty without cgo.
func (w *Watcher) Driver() (version, cuda string) { return "", "" }
