//go:build long

package main

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// TestLongServeMonth: thirty days of two initialisations each, through the change of the clocks.
func TestLongServeMonth(t *testing.T) {
	simulate(t, drawMonth(testseed.Of(t), time.Date(2001, 10, 8, 0, 0, 0, 0, time.UTC), 30))
}
