package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Families of positive values without a probability of 0 are refused for sums, and for these only.
func TestMassAtZero(t *testing.T) {
	for family, allowed := range map[string]bool{"normal": true, "censored_normal": true, "censored_logistic": true, "zero_normal": true, "censored_shifted_gamma": true, "bernstein": true,
		"logistic": true, "truncated_normal": false, "truncated_logistic": false, "log_normal": false} {
		for _, variable := range []string{"tp", "10si"} {
			_, err := LoadTrain(Sources{Files: []string{emptyFile(t)}, Set: []string{"version=1", "data.forecasts=[fc.nc]", "data.analyses=[an.nc]", "data.variables=[" + variable + "]", "data.levels=[single]", "data.leads=[24h]",
				"data.target_leads=[24h]", "data.targets=[{variable: " + variable + ", levels: [single]}]", "model.kind=drn", "model.family=" + family}, IgnoreEnvironment: true})
			if want := allowed || variable != "tp"; want != (err == nil) || !want && (exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "no probability of 0")) {
				t.Errorf("%s of %s: %v", family, variable, err)
			}
		}
	}
}

// Choices of statistics over time are checked with their fixes.
func TestStatisticsOverTime(t *testing.T) {
	base := []string{"version=1", "data.forecasts=[fc.nc]", "data.analyses=[an.nc]", "data.variables=[tp, 2t]", "data.levels=[single]", "data.leads=[24h]", "data.target_leads=[24h]", "model.kind=drn"}
	for _, c := range []struct{ set, text string }{
		{"data.statistics=[{variable: 2t, statistic: maximum, interval: 24h}]", ""},
		{"data.intervals=from_start", ""},
		{"data.intervals=PT6H", ""},
		{"data.intervals=daily", "data.intervals is \"daily\""},
		{"data.intervals=0h", "data.intervals is \"0h\""},
		{"data.statistics=[{variable: msl, interval: 24h}]", "not one of data.variables"},
		{"data.statistics=[{variable: 2t, interval: 24h}, {variable: 2t, interval: 6h}]", "twice in data.statistics"},
		{"data.statistics=[{variable: 2t, statistic: max}]", "did you mean `maximum`?"},
		{"data.targets=[{variable: tp, levels: [single], interval: 24h}, {variable: tp, levels: [single], interval: 6h}]", "statistics of tp differ between targets"},
	} {
		set := append(base[:len(base):len(base)], "data.targets=[{variable: tp, levels: [single]}]", c.set)
		_, err := LoadTrain(Sources{Files: []string{emptyFile(t)}, Set: set, IgnoreEnvironment: true})
		if (c.text == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

// emptyFile returns a configuration file without keys.
func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
