//go:build long

package search

import "testing"

// TestLongLateSteps compares with five times as many steps.
func TestLongLateSteps(t *testing.T) { playLateSteps(t, 8000, 4000) }

// TestLongSkipSteps compares with five times as many steps.
func TestLongSkipSteps(t *testing.T) { playSkipSteps(t, 8000, 4000) }
