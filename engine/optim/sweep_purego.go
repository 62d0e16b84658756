//go:build !cgo || !linux

package optim

// sweeper runs the steps in plain Go, on one thread.
type sweeper struct{ refSweeper }

func newSweeper(_ int, chunks []chunk) (sweeper, error) { return sweeper{refSweeper{chunks}}, nil }

// of returns the sweep over some of the chunks.
func (s sweeper) of(chunks []chunk) sweeper { return sweeper{refSweeper{chunks}} }

func (sweeper) close() error { return nil }
