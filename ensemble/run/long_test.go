//go:build long

package run

import (
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestLongTimedRuns: determinism of level D1 of a network of the published size, five
// stages of base 32, on two threads. Two starts of 32×64 are as many points as one
// crop of 64².
func TestLongTimedRuns(t *testing.T) {
	sum := checkTimedRuns(t, fifty(t, "model.stages=5", "train.batch_size=2", "train.epochs=10"))
	t.Logf("runs without timings, with them, and resumed without its table end with SHA-256 %s", sum)
}

// TestLongRankFailures: TestRankFailures with every signal on either rank.
func TestLongRankFailures(t *testing.T) {
	checkRankFailures(t, []rankFailure{
		{syscall.SIGKILL, 0, 0, "illed"},
		{syscall.SIGKILL, 1, 0, "illed"},
		{syscall.SIGSTOP, 0, exit.RankLost, "error[E071]: rank 0 was lost"},
		{syscall.SIGSTOP, 1, exit.RankLost, "error[E071]: rank 1 was lost"},
		{syscall.SIGTERM, 0, exit.SaveAndStop, "error[E075]: another rank was told to stop"},
		{syscall.SIGTERM, 1, exit.SaveAndStop, "error[E075]: interrupted by signal terminated"},
	})
}
