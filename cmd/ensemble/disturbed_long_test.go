//go:build long

package main

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// disturb disturbs all commands that write in turn, with another seed in each round, until it has done so at least n times. A
// command that failed is left out from then on. At the time limit of the test it stops, and reports what it has done.
func disturb(t *testing.T, n int, each func(d disturbed, t *testing.T, seed uint64, n int) (int, bool)) {
	const perRound = 5
	seed, total, all := testseed.Of(t), 0, disturbances(t)
	counts, failed := make([]int, len(all)), make([]bool, len(all))
	for round, before := seed, -1; total < n && total > before; round++ {
		before = total
		for i, d := range all {
			if failed[i] || total >= n || atTimeLimit(t) {
				continue
			}
			done, ok := each(d, t, round, min(perRound, n-total))
			counts[i], total, failed[i] = counts[i]+done, total+done, !ok
		}
	}
	for i, d := range all {
		t.Logf("%s: %d, %d operations on files", d.name, counts[i], len(d.record(t).log.Ops))
	}
	t.Logf("%d in all", total)
	if total < n {
		t.Errorf("only %d of %d", total, n)
	}
}

// atTimeLimit reports whether a test should end, before the time limit of go test ends it without a report.
func atTimeLimit(t *testing.T) bool {
	end, ok := t.Deadline()
	return ok && time.Until(end) < 20*time.Second
}

// TestLongKilledProcesses is TestFault23 with a thousand kills.
func TestLongKilledProcesses(t *testing.T) { disturb(t, 1000, disturbed.kill) }

// TestLongPowerFailures is TestFault24 with a thousand power failures.
func TestLongPowerFailures(t *testing.T) { disturb(t, 1000, disturbed.cutPower) }
