package model

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/drift"
)

// TestDriftWords: a drift is described in words and units that a forecaster reads.
func TestDriftWords(t *testing.T) {
	x := DriftScore{Variable: "t", Level: ensemble.PressureLevel(500), Lead: ensemble.Lead(48 * time.Hour), Distance: drift.Distance{Mean: 26.1, MeanShift: 8}}
	if got, want := x.Describe(x.Words(), "K"), "mean temperature at 500 hPa +48 h is 8.0 K above what training saw (26.1 standard deviations)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
