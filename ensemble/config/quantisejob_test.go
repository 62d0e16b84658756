package config

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestQuantisationFaults(t *testing.T) {
	for text, want := range map[string]string{
		"calibration: {inits: 0}":            "calibration.inits is 0",
		"calibration: {clip_fraction: 0.01}": "only percentile clips a fraction",
		"calibration: {method: entropy}":     "want one of least_error, max, percentile",
		"keep: [a, a]":                       `duplicate layer "a"`,
		"keeps: [a]":                         "unknown key",
	} {
		_, err := LoadQuantise(Sources{Files: []string{write(t, "quantise.yaml", "version: 1\nrun_dir: runs/a\n"+text+"\n")}})
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	c, err := LoadQuantise(Sources{Files: []string{write(t, "quantise.yaml", "version: 1\nrun_dir: runs/a\ncalibration: {method: percentile, clip_fraction: 0.01}\n")}})
	if err != nil || c.Calibration.Inits != 16 || c.Calibration.ClipFraction != 0.01 {
		t.Errorf("%+v, %v", c, err)
	}
}
