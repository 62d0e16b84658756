//go:build long

package run

import "testing"

// TestLongTimedRuns: determinism of level D1 of a network of the published size, five
// stages of base 32, on two threads. Two starts of 32×64 are as many points as one
// crop of 64².
func TestLongTimedRuns(t *testing.T) {
	sum := checkTimedRuns(t, fifty(t, "model.stages=5", "train.batch_size=2", "train.epochs=10"))
	t.Logf("runs without timings, with them, and resumed without its table end with SHA-256 %s", sum)
}
