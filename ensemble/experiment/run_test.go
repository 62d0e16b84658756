package experiment

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// recorded is an experiment on the small data, with their digests.
func recorded(t *testing.T, change ...string) *experimentfile.Config {
	t.Helper()
	return recordedOf(t, demotest.Config(t, demotest.Files(t)), change...)
}

// recordedOf is recorded with another training.
func recordedOf(t *testing.T, c *config.TrainConfig, change ...string) *experimentfile.Config {
	t.Helper()
	dir, data := t.TempDir(), filepath.Dir(demotest.Files(t).GRIB2[0])
	if err := os.WriteFile(filepath.Join(dir, "train.yaml"), c.YAML(), 0o644); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `version: 1
name: tiny
title: "a test"
config: train.yaml
set: ["train.networks=1", "train.epochs=1"]
threads: 1
seeds: [3]
data:
  folder: %s
  forecasts: ["demo_fc_*.grib2"]
  analyses: ["demo_an_*.nc"]
  files:
`, data)
	for _, p := range []string{"demo_fc_*.grib2", "demo_an_*.nc"} {
		files, err := filepath.Glob(filepath.Join(data, p))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			s, err := manifest.SumFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "    - {path: %s, sha256: %q}\n", filepath.Base(path), s.SHA256)
		}
	}
	b.WriteString("scores:\n  - {score: crps_gauss, variable: t, level: 850hPa, lead: 48h, value: 0.5, tolerance: 5}\n")
	text := b.String()
	for i := 0; i+1 < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			t.Fatalf("no %q in\n%s", change[i], text)
		}
		text = strings.Replace(text, change[i], change[i+1], 1)
	}
	if err := os.WriteFile(filepath.Join(dir, experimentfile.FileName), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := experimentfile.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A record contains no path of this machine. Its replay gives the same bits, also in another environment, and fails
// if the recorded scores differ.
func TestRecordedIsReproduced(t *testing.T) {
	t.Setenv("ENSEMBLE_TRAIN_EPOCHS", "7")
	e := recorded(t)
	o := Options{Experiment: e, Dir: t.TempDir(), Version: "test"}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Passed() || len(r.Record.Runs) != 1 || r.Record.Runs[0].Seed != 3 || len(r.Record.Runs[0].Checkpoint) == 0 || r.Record.Runs[0].Steps != 4 {
		t.Errorf("record %+v", r.Record)
	}
	if m := r.Record.Machine; m.Libraries["ecCodes"] == "" || m.Libraries["netCDF"] == "" || m.Threads != 1 || m.CPUFamily == "" {
		t.Errorf("machine %+v", m)
	}
	text, err := os.ReadFile(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()                                      // records do not contain the host name
	runs := string(text[bytes.Index(text, []byte(`"machine"`)):]) // the test wrote a path into its experiment.yaml
	for _, secret := range []string{o.Dir, filepath.Dir(demotest.Files(t).GRIB2[0]), host} {
		if secret != "" && strings.Contains(runs, secret) {
			t.Errorf("the record holds %q", secret)
		}
	}
	again := Options{Dir: t.TempDir(), Data: filepath.Dir(demotest.Files(t).GRIB2[0]), Version: "test"}
	p, err := Reproduce(context.Background(), r.Path, again)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Passed() || p.Comparison.Verdict != record.SameBits || !p.Comparison.Promised {
		t.Errorf("%+v", p.Comparison)
	}
	// A replayed run is not compared with itself, and its number of threads is reported correctly.
	if _, err := Reproduce(context.Background(), p.Path, again); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(fmt.Sprint(err), "compared with themselves") {
		t.Errorf("in its own folder: %v", err)
	}
	two := again
	two.Threads = 2
	if _, err := Reproduce(context.Background(), r.Path, two); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(fmt.Sprint(err), "threads 1, here 2") {
		t.Errorf("with other threads: %v", err)
	}
	for name, change := range map[string]func(r *record.Record){
		"but experiment.yaml of":     func(r *record.Record) { r.Experiment = "tin" },
		"description of the machine": func(r *record.Record) { r.Machine = record.Machine{} },
		"base with seed 3":           func(r *record.Record) { r.Runs[0].Seed = 4 },
		"or its trainings":           func(r *record.Record) { r.Runs = nil },
		"missing check":              func(r *record.Record) { r.Checks = nil },
		"different bound":            func(r *record.Record) { r.Checks[0].Tolerance = 1000 },
		"is not 0.1":                 func(r *record.Record) { r.Checks[0].Value = 0.1 },
	} {
		edited, err := record.Read(r.Path)
		if err != nil {
			t.Fatal(err)
		}
		change(edited)
		path := filepath.Join(t.TempDir(), "edited.json")
		if err := edited.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Reproduce(context.Background(), path, again); exit.CodeOf(err) != exit.BadData || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The recorded run has other weights, and no recorded difference explains it.
	was := *r.Record
	was.Runs[0].Outputs[0].SHA256, was.Runs[0].Outputs[1].SHA256 = strings.Repeat("0", 64), strings.Repeat("0", 64)
	for i := range was.Runs[0].Outputs {
		was.Runs[0].Outputs[i].SHA256 = strings.Repeat("0", 64)
	}
	other := filepath.Join(t.TempDir(), "other.json")
	if err := was.Write(other); err != nil {
		t.Fatal(err)
	}
	p, err = Reproduce(context.Background(), other, again)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.Sections().WriteText(&b); err != nil || p.Passed() || !strings.Contains(b.String(), "NOT reproduced on an equivalent machine") || !strings.Contains(b.String(), "other bits") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestRecordedRefuses: missing, different or unlisted data, and settings that a record cannot hold, are rejected
// before any training, with all their faults.
func TestRecordedRefuses(t *testing.T) {
	data := filepath.Dir(demotest.Files(t).GRIB2[0])
	fc := filepath.Base(demotest.Files(t).GRIB2[0])
	for _, c := range []struct {
		name   string
		change []string
		code   exit.Code
		want   string
	}{
		{"no folder", []string{"folder: " + data, "folder: " + data + "/none"}, exit.NotYet, "are missing"},
		{"where data lie", []string{"folder: " + data, "folder: " + data + "/none"}, exit.NotYet, "with the subdirectory tiny"},
		{"a file is missing", []string{"  files:\n", "  files:\n    - {path: demo_fc_x.grib2, sha256: \"" + strings.Repeat("0", 64) + "\"}\n"}, exit.NotYet, "demo_fc_x.grib2"},
		{"another file", []string{"{path: " + fc + ", sha256: \"", "{path: " + fc + ", sha256: \"" + strings.Repeat("0", 64) + "\"} #"}, exit.BadData, "wrong checksum"},
		{"not listed", []string{"    - {path: " + fc, "    #"}, exit.BadData, "not listed in the experiment"},
		{"no file of a pattern", []string{`["demo_an_*.nc"]`, `["other_*.nc"]`}, exit.NotYet, "other_*.nc"},
		{"reads more", []string{`"train.epochs=1"`, `"train.epochs=1", "model.pretrained=/some/where"`}, exit.Usage, "model.pretrained"},
		{"no such key", []string{`"train.epochs=1"`, `"train.epoch=1"`}, exit.Usage, "train.epochs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Experiment: recorded(t, c.change...), Dir: filepath.Join(t.TempDir(), "out"), Version: "test"}
			_, err := Run(context.Background(), o)
			if exit.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, want code %d and %q", err, c.code, c.want)
			}
			if _, err := os.Stat(filepath.Join(o.Dir, experimentfile.BaseVariant)); err == nil {
				t.Error("something was trained")
			}
		})
	}
}

// Files are fetched only on request, from the addresses in the experiment.
func TestRecordedFetches(t *testing.T) {
	data := filepath.Dir(demotest.Files(t).GRIB2[0])
	asked := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.ServeFile(w, r, filepath.Join(data, filepath.Base(r.URL.Path)))
	}))
	defer s.Close()
	name := filepath.Base(demotest.Files(t).GRIB2[0])
	sum, err := manifest.SumFile(demotest.Files(t).GRIB2[0])
	if err != nil {
		t.Fatal(err)
	}
	e := recorded(t)
	e.Data.Folder = ""
	e.Data.Files = []experimentfile.DataFile{{Path: name, SHA256: sum.SHA256, URL: s.URL + "/" + name}}
	e.Data.Forecasts, e.Data.Analyses = []string{name}, nil
	var warnings []string
	o := Options{Experiment: e, Dir: t.TempDir(), Version: "test", client: s.Client(), Warn: func(w string) { warnings = append(warnings, w) }}
	if _, err := o.prepareData(context.Background()); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), "--fetch") || asked > 0 {
		t.Errorf("%v, the server was asked %d times", err, asked)
	}
	o.Fetch = true
	d, err := o.prepareData(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.files) != 1 || d.record.Files[0].SHA256 != sum.SHA256 || asked != 1 || len(warnings) != 1 || !strings.Contains(warnings[0], s.URL) {
		t.Errorf("%+v, asked %d times, warnings %q", d, asked, warnings)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	demotest.Remove()
	os.Exit(code)
}
