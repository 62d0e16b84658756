//go:build !cgo || !linux

package optim

// sweeper runs the sweeps in plain Go.
type sweeper struct{ loopSweeper }

func newSweeper(int) (sweeper, error) { return sweeper{}, nil }

func (sweeper) close() error { return nil }
