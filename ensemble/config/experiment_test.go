package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// What an experiment says of its quality is refused where it could not be checked.
func TestQuality(t *testing.T) {
	const rest = `version: 1
name: x
title: x
config: train.yaml
seeds: [1, 2]
data: {source: demo, forecasts: [a]}
scores: [{score: rmse, variable: t, level: 850hPa, lead: 48h, at_most: 1}]
`
	for _, c := range []struct {
		name, quality string
		want          string // "" for none
	}{
		{"a target", "{target: 0.5}", ""},
		{"five seeds", "{target: 0.5, seeds: [1, 2, 3, 4, 5], epochs: 8, tolerance: 2}", ""},
		{"no target", "{seeds: [1, 2]}", "quality.target is missing"},
		{"a tolerance of nothing", "{target: 0.5, tolerance: 2}", "must be given together"},
		{"no tolerance", "{target: 0.5, seeds: [1, 2, 3, 4, 5], epochs: 8}", "must be given together"},
		{"epochs of too few", "{target: 0.5, epochs: 8, tolerance: 2}", "quality.epochs with 2 seeds"},
		{"a seed twice", "{target: 0.5, seeds: [3, 3]}", "seed 3 is listed twice"},
		{"no number", "{target: low}", "target"},
		{"no such key", "{target: 0.5, epoch: 8}", "epoch"},
	} {
		path := filepath.Join(t.TempDir(), ExperimentFileName)
		if err := os.WriteFile(path, []byte(rest+"quality: "+c.quality+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := LoadExperiment(path)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case c.name == "a target" && !slices.Equal(e.TimedSeeds(), []int{1, 2}):
			t.Errorf("seeds %v are timed, want those of the trainings", e.TimedSeeds())
		case c.name == "five seeds" && len(e.TimedSeeds()) != 5:
			t.Errorf("seeds %v are timed", e.TimedSeeds())
		}
	}
}
