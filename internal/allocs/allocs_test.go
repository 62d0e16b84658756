package allocs

import "testing"

var kept []byte

// Allocations of every run are counted, occasional ones are not.
func TestPerRun(t *testing.T) {
	calls := 0
	if n := PerRun(4, func() {
		if calls++; calls == 3 {
			for range 8 { // the mean of a round is a whole number
				kept = make([]byte, 1<<16)
			}
		}
	}); n != 0 || calls != 2*(1+4) {
		t.Errorf("once: %v after %d calls", n, calls)
	}
	if n := PerRun(4, func() { kept = make([]byte, 1<<16) }); n < 1 {
		t.Errorf("always: %v", n)
	}
}
