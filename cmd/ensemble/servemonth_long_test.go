//go:build long

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// TestLongServeMonth: thirty days of two initialisations each, through the change of the clocks, of three seeds.
func TestLongServeMonth(t *testing.T) {
	first := testseed.Of(t)
	for seed := first; seed < first+3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			simulate(t, drawMonth(seed, time.Date(2001, 10, 8, 0, 0, 0, 0, time.UTC), 30))
		})
	}
}
