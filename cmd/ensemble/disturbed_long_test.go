//go:build long

package main

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// disturb calls a test of each command that writes until it has disturbed all of them together at least n times.
func disturb(t *testing.T, n int, each func(d disturbed, t *testing.T, seed uint64, n int) int) {
	seed, total := testseed.Of(t), 0
	all := disturbances(t)
	for i, d := range all {
		t.Run(d.name, func(t *testing.T) { total += each(d, t, seed, (n-total+len(all)-i-1)/(len(all)-i)) })
	}
	t.Logf("%d in all", total)
	if total < n && !t.Failed() {
		t.Errorf("only %d of %d", total, n)
	}
}

// TestLongKilledProcesses is TestFault23 with a thousand kills.
func TestLongKilledProcesses(t *testing.T) { disturb(t, 1000, disturbed.kill) }

// TestLongPowerFailures is TestFault24 with a thousand power failures.
func TestLongPowerFailures(t *testing.T) { disturb(t, 1000, disturbed.cutPower) }
