//go:build !cgo || !linux

package optim

// sweeper runs the sweeps in plain Go.
type sweeper struct{ loopSweeper }

func newSweeper(_ int, pieces []piece) (sweeper, error) { return sweeper{loopSweeper{pieces}}, nil }

func (sweeper) close() error { return nil }
