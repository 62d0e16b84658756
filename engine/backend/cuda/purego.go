//go:build !cgo || !linux

package cuda

import "fmt"

// Inspect always fails without cgo.
//
// Errors: ErrNoDriver.
func Inspect() (*Inventory, error) {
	return nil, fmt.Errorf("%w: this program was built without cgo and cannot ask for one", ErrNoDriver)
}
