package config

import (
	"slices"
	"testing"
)

// Every baseline but that of the full ensemble can replace a network's forecast.
func TestFallbacks(t *testing.T) {
	all := Fallbacks()
	if slices.Contains(all, FullEnsembleBaseline) || !slices.Contains(all, RawFallback) || len(all) != len(Baselines) {
		t.Errorf("fallbacks %q of baselines %q", all, Baselines)
	}
	if !slices.Contains(Baselines, FullEnsembleBaseline) {
		t.Error("Fallbacks changes Baselines")
	}
}
