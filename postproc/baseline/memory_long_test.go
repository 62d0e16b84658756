//go:build long

package baseline

import "testing"

// EMOS by point on a grid of 0.25 degrees and 500 dates: 5.8 GiB of training data within 1 GiB.
func TestLongGlobalGrid(t *testing.T) {
	if peak := fitInChild(t, 1440*721, 500); peak > 1<<30 {
		t.Errorf("a peak of %d MiB of resident memory, want at most 1024", peak>>20)
	}
}
