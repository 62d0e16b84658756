//go:build long

package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLongFaults21And22: each error at every operation of train, predict, data prepare and verify that changes their output.
func TestLongFaults21And22(t *testing.T) {
	for _, w := range writers(t) {
		points := 0
		for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EIO} {
			for n := 1; ; n++ {
				if _, done := w.fail(t, n, errno); done {
					break
				}
				points++
			}
		}
		t.Logf("%s: %d points", w.name, points)
	}
}

// TestLongFault23: a kill at every operation of train and predict that changes their output.
func TestLongFault23(t *testing.T) {
	for _, w := range writers(t)[:2] {
		n := 1
		for !w.killAndRepeat(t, n) {
			n++
		}
		t.Logf("%s: %d points", w.name, n-1)
	}
}
