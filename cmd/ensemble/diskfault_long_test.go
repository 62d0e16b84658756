//go:build long

package main

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// TestLongFaults21And22: each error at every operation of train, predict, data prepare and verify that changes their output. At
// the time limit of the test it stops, and reports what it has done.
func TestLongFaults21And22(t *testing.T) {
	for _, w := range writers(t) {
		for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EIO} {
			points := 0
			for round := range faultfs.Rounds(w.fault(1, errno), 1) {
				if atTimeLimit(t) {
					t.Errorf("%s, %v: only %d points", w.name, errno, points)
					return
				}
				if !w.fail(t, round) {
					points++
				}
			}
			t.Logf("%s, %v: %d points", w.name, errno, points)
		}
	}
}
