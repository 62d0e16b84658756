//go:build long

package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLongFaults21And22: each error at every operation of train, predict, data prepare and verify that changes their output. At
// the time limit of the test it stops, and reports what it has done.
func TestLongFaults21And22(t *testing.T) {
	for _, w := range writers(t) {
		for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EIO} {
			points := 0
			for ; ; points++ {
				if atTimeLimit(t) {
					t.Errorf("%s, %v: only %d points", w.name, errno, points)
					return
				}
				if _, done := w.fail(t, points+1, errno); done {
					break
				}
			}
			t.Logf("%s, %v: %d points", w.name, errno, points)
		}
	}
}
