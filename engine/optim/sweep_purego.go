//go:build !cgo || !linux

package optim

// sweeper runs the steps in plain Go, on one thread.
type sweeper struct{ refSweeper }

func newSweeper(_ int, pieces []chunk) (sweeper, error) { return sweeper{refSweeper{pieces}}, nil }

func (sweeper) close() error { return nil }
