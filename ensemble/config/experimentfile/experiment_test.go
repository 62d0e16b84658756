package experimentfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
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
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, []byte(rest+"quality: "+c.quality+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := Load(path)
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

// Test periods that cannot be are refused, with what is wrong about them.
func TestOrigins(t *testing.T) {
	const rest = `version: 1
name: x
title: x
config: train.yaml
data: {source: demo, forecasts: [a]}
scores: [{score: rmse, variable: t, level: 850hPa, lead: 48h, at_most: 1}]
`
	for _, c := range []struct{ name, origins, split, want string }{
		{"none", "{}", "", ""},
		{"years", "{first: 2003-01-01, periods: 2}", "", ""},
		{"a gap of the longest lead", "{first: 2003-01-01, periods: 2, gap: 2d}", "", ""},
		{"no first", "{periods: 2}", "", "origins.first is missing"},
		{"a gap only", "{gap: 2d}", "", "origins.first is missing"},
		{"no number", "{first: 2003-01-01}", "", "origins.periods is missing"},
		{"the end of a month", "{first: 2003-01-31, periods: 2, test_months: 1}", "", "day 31 of a month"},
		{"a time to quality", "{first: 2003-01-01, periods: 2}\nquality: {target: 0.5}", "", "quality.target with origins"},
		{"a short gap", "{first: 2003-01-01, periods: 2, gap: 1d}", "", "origins.gap of 24h is shorter than the longest lead, 48h"},
		{"before the data", "{first: 2001-02-01, periods: 2}", "", "no time for training before the origin 2001-02-01"},
		{"fractions", "{first: 2003-01-01, periods: 2}", "{fractions: {train: 0.7, validation: 0.1}}", "need a split by dates"},
	} {
		dir := t.TempDir()
		if c.split == "" {
			c.split = "{train: {from: 2001-01-01, to: 2001-06-30}, validation: {from: 2001-07-03, to: 2001-12-31}}"
		}
		training := `version: 1
data:
  forecasts: [a]
  analyses: [b]
  members: {use: 2}
  leads: [0h, 48h]
  target_lead: 48h
  levels: [850hPa]
  variables: [t]
  targets: [{variable: t, levels: [850hPa]}]
  split: ` + c.split + "\n"
		for name, text := range map[string]string{FileName: rest + "origins: " + c.origins + "\n", "train.yaml": training} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		e, err := Load(dir)
		if err == nil {
			var tc *config.TrainConfig
			if tc, err = config.LoadTrain(config.Sources{Files: []string{filepath.Join(dir, "train.yaml")}, IgnoreEnvironment: true}); err != nil {
				t.Fatal(err)
			}
			parts, bad := e.Origins.Splits(tc)
			if err = bad; bad == nil && len(parts) != e.Origins.Periods {
				t.Errorf("%s: %d splits", c.name, len(parts))
			}
			if c.name == "years" && (!slices.Equal(e.Origins.Names(), []string{"2003-01-01", "2004-01-01"}) || parts[1].Validation.To != tc.Data.Split.Train.From.AddDate(3, 0, -2).Add(-time.Second)) {
				t.Errorf("origins %v, splits %v", e.Origins.Names(), parts)
			}
		}
		if c.want == "" && err != nil || c.want != "" && (exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Files outside the data directory, also of variants, are refused: a record could not be replayed from another one.
func TestFilesOutsideTheData(t *testing.T) {
	for _, c := range []struct{ data, variant, outside string }{
		{"auxiliary: [/x.grib2]", "", "/x.grib2"},
		{"store: ../store", "", "../store"},
		{"source: demo", "auxiliary: [../x.grib2]", "../x.grib2"},
		{"source: demo", "store: /store", "/store"},
		{"store: store, auxiliary: [x.grib2]", "store: of/it, auxiliary: [x*.grib2]", ""},
	} {
		path := filepath.Join(t.TempDir(), FileName)
		text := "version: 1\nname: x\ntitle: x\nconfig: train.yaml\ndata: {forecasts: [a], " + c.data + "}\nvariants: [{name: base}, {name: other, " + c.variant + "}]\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := LoadDraft(path)
		if c.outside != "" {
			if exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), "within the data directory") || !strings.Contains(fmt.Sprint(err), c.outside) {
				t.Errorf("%s, %s: %v", c.data, c.variant, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct{ auxiliary, store string }{{"x.grib2", "store"}, {"x*.grib2", "of/it"}} {
			if v := e.Variants[i]; !slices.Equal(e.AuxiliaryOf(v), []string{want.auxiliary}) || e.StoreOf(v) != want.store {
				t.Errorf("variant %s reads %v and %s, want %+v", v.Name, e.AuxiliaryOf(v), e.StoreOf(v), want)
			}
		}
	}
}
