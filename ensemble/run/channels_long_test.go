//go:build long

package run

import (
	"context"
	"slices"
	"testing"
	"time"
)

// TestLongChannelSpeed: the published network at base 32 on 2×352×704 points, without channels so that a
// quarter of its operations is left, predicts in less than a third of the time. Both take turns, as the
// machine may be busy.
func TestLongChannelSpeed(t *testing.T) {
	dense := BenchCase{Model: BenchUNet3D, Base: 32, Crop: Crop{352, 704}, Batch: 1}
	cases := []BenchCase{dense}
	for _, multiple := range []int{1, 8, 16, 32} {
		c := dense
		c.Operations, c.Multiple = 0.25, multiple
		cases = append(cases, c)
	}
	times := make([][]float64, len(cases))
	for range 4 {
		for i, c := range cases {
			s, err := c.Compile(false, false)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 2 { // the first fills caches
				began := time.Now()
				if err := s.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
				if n == 1 {
					times[i] = append(times[i], time.Since(began).Seconds())
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := dense.FLOPs()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		n, err := c.FLOPs()
		if err != nil {
			t.Fatal(err)
		}
		var ratios []float64
		for k := range times[i] {
			ratios = append(ratios, times[0][k]/times[i][k])
		}
		slices.Sort(ratios)
		fewer, faster := float64(all)/float64(n), (ratios[1]+ratios[2])/2
		t.Logf("multiple %d: %.2f times fewer operations, %.2f times faster (%.2f to %.2f), %.2f s", c.Multiple, fewer, faster, ratios[0], ratios[3], slices.Min(times[i]))
		if c.Multiple >= 16 && (fewer < 4 || faster < 3) {
			t.Errorf("multiple %d: %.2f times fewer operations and %.2f times faster, want 4 and 3", c.Multiple, fewer, faster)
		}
	}
}
