//go:build !cgo || !linux

package kern

// Pool is a set of threads; without cgo there is none.
type Pool struct{}

// NewPool always fails without cgo.
func NewPool(int) (*Pool, error) { return nil, ErrUnavailable }

// Threads is 0 without cgo.
func (p *Pool) Threads() int { return 0 }

// Close does nothing without cgo.
func (p *Pool) Close() error { return nil }

// ISA is empty without cgo.
func ISA() string { return "" }

// HasVNNI is false without cgo.
func HasVNNI() bool { return false }
