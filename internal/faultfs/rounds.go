package faultfs

import (
	"iter"
	"testing"
)

// Round is one run of what a test repeats, with a fault at one operation. The test may change the Fault before Run.
type Round struct {
	Fault
	system *System // of Run
}

// Rounds yields f at one operation after the other: at the first one that counts (f.N, unless that is 0), and at each every-th
// after it. It ends after a Round that has no such operation.
func Rounds(f Fault, every int) iter.Seq[*Round] {
	return func(yield func(*Round) bool) {
		for f.N = max(f.N, 1); ; f.N += every {
			if r := (&Round{Fault: f}); !yield(r) || r.Hit() == nil {
				return
			}
		}
	}
}

// Hit returns the operation to which the fault happened; nil: none yet.
func (r *Round) Hit() *Operation {
	if r.system == nil {
		return nil
	}
	if all := r.system.Injected(); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// Run calls do, in which the fault happens to one operation, hit; nil: do has fewer operations, and then has to succeed.
func (r *Round) Run(t testing.TB, do func() error) (hit *Operation, err error) {
	t.Helper()
	var restore func()
	r.system, restore = Use(r.Fault)
	defer restore()
	if err, hit = do(), r.Hit(); hit == nil && err != nil {
		t.Errorf("without a fault: %v", err)
	}
	return hit, err
}
