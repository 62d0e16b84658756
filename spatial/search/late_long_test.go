//go:build long

package search

import "testing"

// TestLongLateSteps compares with ten times as many steps, and larger gradients.
func TestLongLateSteps(t *testing.T) { playLateSteps(t, 16000, 25000) }
