package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Sizes are words or lists; those that poolings do not divide, and settings that windows do not support, are refused with a fix.
func TestFieldSizes(t *testing.T) {
	const head = `version: 1
data: {forecasts: [fc.grib2], analyses: [an.nc], members: {use: 3}, leads: [48h], target_lead: 48h, levels: [850hPa], variables: [t], targets: [{variable: t, levels: [850hPa]}]}
`
	for _, x := range []struct{ text, want string }{ // the value, or a part of the error
		{"train: {}", "whole"},
		{"train: {sizes: mixed}", "mixed"},
		{"train: {sizes: [16, 24x48]}", "[16, 24x48]"},
		{"train: {sizes: [15, 24x50]}", "write 16 in place of 15"},
		{"train: {sizes: [24x50]}", "write 24x48 in place of 24x50"},
		{"train: {sizes: [16, 16]}", "listed twice"},
		{"train: {sizes: many}", "whole, mixed, or a list of sizes"},
		{"train: {whole_epochs: 0.5}", "set train.sizes: mixed"},
		{"train: {sizes: mixed, device: cuda}", "set train.device: cpu"},
		{"train: {sizes: mixed, pipeline: {stages: 2}}", "remove train.pipeline"},
		{"train: {sizes: mixed}\nmodel: {embedding: 2}", "set model.embedding: 0"},
	} {
		path := filepath.Join(t.TempDir(), "train.yaml")
		model := "\nmodel: {stages: 3}\n"
		if strings.Contains(x.text, "model:") {
			model = "\n"
		}
		if err := os.WriteFile(path, []byte(head+x.text+model), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := LoadTrain(Sources{Files: []string{path}})
		var fault *exit.Error
		switch {
		case err == nil:
			if got := formatFieldSizes(c.Train.Train.Sizes); got != x.want {
				t.Errorf("%s: %s, want %s", x.text, got, x.want)
			}
		case !errors.As(err, &fault) || fault.Code != exit.Usage || !strings.Contains(err.Error(), x.want):
			t.Errorf("%s: %v, want %q", x.text, err, x.want)
		}
	}
}
