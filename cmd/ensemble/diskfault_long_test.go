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
