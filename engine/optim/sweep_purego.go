//go:build !cgo || !linux

package optim

// sweeper runs the steps in plain Go, on one thread.
type sweeper struct{ refSweeper }

func newSweeper(_ int, chunks []chunk) (sweeper, error) { return sweeper{refSweeper{chunks}}, nil }

func (sweeper) close() error { return nil }
