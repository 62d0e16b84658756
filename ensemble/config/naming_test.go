package config

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestNaming: names and units of own files, from a file and --set; wrong ones are refused with what to write.
func TestNaming(t *testing.T) {
	path := write(t, "train.yaml", minimal)
	load := func(set ...string) (*TrainConfig, error) {
		return LoadTrain(Sources{Files: []string{path}, Set: set, IgnoreEnvironment: true})
	}
	c, err := load("data.names={T850_ens: t@850hPa, rain: tp, analyses:x: own}", "data.units={T850_ens: degC, frac: 1}", "data.file_leads={\"*_048h.nc\": 48h}")
	if err != nil {
		t.Fatal(err)
	}
	const names, units = "names: {T850_ens: t@850hPa, analyses:x: own, rain: tp}", "units: {T850_ens: degC, frac: \"1\"}"
	if text := string(c.YAML()); !strings.Contains(text, names) || !strings.Contains(text, units) || !strings.Contains(text, "file_leads: {'*_048h.nc': 48h}") {
		t.Errorf("no %q or %q in\n%s", names, units, text)
	}
	again, err := LoadTrain(Sources{Files: []string{write(t, "again.yaml", string(c.YAML()))}, IgnoreEnvironment: true})
	if err != nil || again.Identity() != c.Identity() {
		t.Errorf("the effective configuration does not load again: %v", err)
	}
	plain, err := load()
	if err != nil || plain.Identity() == c.Identity() || !plain.Data.Stated().IsZero() {
		t.Errorf("names and units are not part of the identity: %v", err)
	}
	for set, want := range map[string]string{
		"data.names={a: t@850}":                "write 850hPa",
		"data.names={a: 2t@850hPa}":            "2t is at 2m only",
		"data.names={a: tp@single}":            "has no level",
		"data.names={a: \"t 850\"}":            "write t@850hPa",
		"data.names=[t]":                       "a mapping from names",
		"data.names={a: [t]}":                  "has no plain value",
		"data.units={a: degZ}":                 "is not a unit",
		"data.units={a: }":                     "has no plain value",
		"data.units=K":                         "a mapping from names",
		"data.unit={a: K}":                     "type `--set data.units={a: K}`",
		"data.file_leads=24":                   "write it with its unit, such as 24h",
		"data.file_leads={a: -24h}":            "is not a lead",
		"data.file_leads={\"[\": 24h}":         "is not a pattern",
		"data.file_leads=[24h]":                "a mapping from patterns",
		"data.names={a: t, b: t, \"\": gh@1m}": "a name is empty",
	} {
		c, err := load(set)
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) || c != nil {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	if c, err := load("data.file_leads=24h"); err != nil || c.Data.Naming.Leads.String() != "24h" || c.Data.Stated().Leads["*"] != ensemble.Lead(24*time.Hour) {
		t.Errorf("one lead for all files: %v", err)
	}
	if n, err := ParseNaming(nil, nil, []string{"24h", "a.nc=PT48H"}); err != nil || n.Leads.String() != "{'*': 24h, a.nc: 48h}" {
		t.Errorf("flags state the leads %s: %v", n.Leads, err)
	}
	if _, err := ParseNaming([]string{"a=t@850hPa"}, []string{"a"}, nil); !strings.Contains(err.Error(), "--units T850_ens=degC") {
		t.Errorf("a flag without value: %v", err)
	}
}

// TestFixesOfValues: the fix of a wrong value is the corrected line.
func TestFixesOfValues(t *testing.T) {
	for text, want := range map[string]string{
		"train: {epochs: \"5\"}\n":            "write `epochs: 5`",
		"train: {epochs: [5]}\n":              "write `epochs: 5`",
		"model: {location: yes}\n":            "write `location: true`",
		"train: {loss: {kind: CRPS}}\n":       "write `kind: crps`",
		"train:\n  epoch: 5\n":                "did you mean `epochs`? write `epochs: 5`",
		"epochs: 5\n":                         "did you mean `train.epochs`? under `train:` write `epochs: 5`",
		"model: {kinds: unet3d, bas: 4}\n":    "did you mean `base`? write `base: 4`",
		"datas: {forecasts: [f]}\n":           "did you mean `data`? write `data: {forecasts: [f]}`",
		"baselines: emos\n":                   "`baselines: [emos]`",
		"baselines: [emso]\n":                 "did you mean `emos`?",
		"train: {stall_timeout: 90}\n":        "write `stall_timeout: 90s`",
		"model: {pretrained: ~/w.st}\n":       "write `pretrained: \"${HOME}/w.st\"`",
		"model: {pretrained: $HOME/w.st}\n":   "write `pretrained: \"${HOME}/w.st\"`",
		"train: {machine: 5}\n":               "write `machine: \"5\"`",
		"train: {early_stopp: {patience: 1}}": "write `early_stop: {patience: 1}`",
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "train.yaml", minimal+text)}, IgnoreEnvironment: true})
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", text, err, want)
		}
	}
	gust := strings.ReplaceAll(minimal, "targets: [{variable: t, levels: [850hPa]}]", "targets: [{variable: 10fg}]")
	if _, err := LoadTrain(Sources{Files: []string{write(t, "train.yaml", gust)}, IgnoreEnvironment: true}); !strings.Contains(err.Error(), "add `levels: [single]`") {
		t.Errorf("levels of 10fg: %v", err)
	}
}
