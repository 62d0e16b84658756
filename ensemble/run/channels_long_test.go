//go:build long

package run

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// TestLongChannelSpeed: of the published network at base 32 on 2×352×704 points a quarter of the operations
// is left without some channels; what that saves of the processor's time, on one thread, is told.
func TestLongChannelSpeed(t *testing.T) {
	dense := BenchCase{Model: BenchUNet3D, Base: 32, Crop: Crop{352, 704}, Batch: 1, Depth: 2, Threads: 1}
	cases := []BenchCase{dense}
	for _, multiple := range []int{8, 16} {
		c := dense
		c.Operations, c.Multiple = 0.25, multiple
		cases = append(cases, c)
	}
	var flops, seconds []float64
	for _, c := range cases {
		n, err := c.FLOPs()
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile(false, false)
		if err != nil {
			t.Fatal(err)
		}
		var took time.Duration
		for range 2 { // the first fills memory
			began := processorTime(t)
			if err := s.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			took = processorTime(t) - began
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		flops, seconds = append(flops, float64(n)), append(seconds, took.Seconds())
		fewer, faster := flops[0]/float64(n), seconds[0]/took.Seconds()
		t.Logf("multiple %d: %.2f times fewer operations, %.2f times less processor time, %.2f s", c.Multiple, fewer, faster, took.Seconds())
		if c.Operations > 0 && fewer < 4 {
			t.Errorf("multiple %d: %.2f times fewer operations, want 4", c.Multiple, fewer)
		}
	}
}

// processorTime is what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
