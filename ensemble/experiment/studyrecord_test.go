package experiment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// study is a study of two widths on the small data.
func study(t *testing.T, seeds int) StudyOptions {
	return StudyOptions{Config: experimentSources(t), Dir: filepath.Join(t.TempDir(), "Two widths"), Title: "Two widths", Seeds: seeds, Reference: "base", Version: "v1.2.3",
		Variants: []Variant{{Name: "base"}, {Name: "wide", Set: []string{"model.base=3"}}}}
}

// A study with three seeds has a record with expected scores of every variant, names no path of the machine, is
// replayed to the same bits, and can be recorded and bundled as any experiment.
func TestStudyIsReproduced(t *testing.T) {
	o := study(t, 3)
	e, err := RunStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(demotest.Files(t).GRIB2[0])
	path := filepath.Join(o.Dir, record.File)
	r, err := record.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var variants []string
	for _, c := range r.Checks {
		variants = append(variants, c.Variant)
		if !c.Pass || !(c.Tolerance > 0) {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(slices.Compact(slices.Sorted(slices.Values(variants))), []string{"base", "wide"}) || len(r.Runs) != 6 || r.Experiment != "two-widths" || r.Machine.Program != "v1.2.3" || len(r.Outputs) != 3 || !slices.Contains(e.Outputs(), path) {
		t.Errorf("variants %q, %d trainings of %q by %q, outputs %+v", variants, len(r.Runs), r.Experiment, r.Machine.Program, r.Outputs)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), o.Dir) || strings.Contains(string(text), data) {
		t.Errorf("%v: the record names a directory of this machine", err)
	}
	p, err := Reproduce(context.Background(), path, Options{Dir: t.TempDir(), Data: data, Version: "v1.2.3"})
	if err != nil || p.Comparison.Verdict != record.SameBits || len(p.Comparison.Checks) != len(r.Checks) {
		t.Fatalf("%+v, %v", p, err)
	}
	draft, err := experimentfile.LoadDraft(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Expect(context.Background(), Options{Experiment: draft, Dir: o.Dir, Data: data, Version: "v1.2.3"})
	if err != nil || !again.Passed() || again.Record.Sources[0].SHA256 != r.Sources[0].SHA256 || len(again.Record.Outputs) != 3 {
		t.Errorf("recorded again: %+v, %v", again, err)
	}
	licence := filepath.Join(t.TempDir(), "LICENSE")
	if err := os.WriteFile(licence, []byte("You may.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := BundleOptions{Results: o.Dir, Out: filepath.Join(t.TempDir(), "a.zip"), Licence: licence, Authors: []string{"Doe, Jane"}}
	if _, err := WriteBundle(b); err != nil {
		t.Fatal(err)
	}
	files := unzip(t, b.Out)
	for _, name := range []string{"tables/experiment.json", "tables/experiment.csv", "tables/report/index.html", "runs/wide/seed-3/scores.json"} {
		if files[name] == "" || strings.Contains(files[name], o.Dir) {
			t.Errorf("%s: %q", name, files[name])
		}
	}
	if err := os.WriteFile(filepath.Join(o.Dir, experimentTable), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteBundle(b); exit.CodeOf(err) != exit.BadData {
		t.Errorf("another table: %v", err)
	}
}

// A study with one seed has no tolerances: only the same bits reproduce it.
func TestStudyOfOneSeed(t *testing.T) {
	o := study(t, 1)
	if _, err := RunStudy(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(demotest.Files(t).GRIB2[0])
	p, err := Reproduce(context.Background(), filepath.Join(o.Dir, record.File), Options{Dir: t.TempDir(), Data: data, Version: "v1.2.3"})
	if err != nil || !p.Passed() || len(p.Original.Checks) > 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	was := *p.Original
	was.Machine.Kernels = "another" // explains other bits
	was.Runs[0].Checkpoint[0].SHA256 = strings.Repeat("0", 64)
	path := filepath.Join(t.TempDir(), record.File)
	if err := was.Write(path); err != nil {
		t.Fatal(err)
	}
	p, err = Reproduce(context.Background(), path, Options{Dir: t.TempDir(), Data: data, Version: "v1.2.3"})
	var b strings.Builder
	if err != nil || p.Passed() || p.Sections().WriteText(&b) != nil || !strings.Contains(b.String(), "no tolerances, which need 3 seeds") {
		t.Errorf("%v\n%s", err, b.String())
	}
	draft, err := experimentfile.LoadDraft(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Expect(context.Background(), Options{Experiment: draft, Dir: o.Dir, Data: data, Version: "v1.2.3"}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "--seeds") {
		t.Errorf("recorded with one seed: %v", err)
	}
}

// The record of trainings from a sample store lists the files of the store with checksums and is replayed from them. A store to
// which a file was added is refused, as is an experiment that does not list its store.
func TestStudyFromAStore(t *testing.T) {
	o := study(t, 1)
	c, err := config.LoadTrain(o.Config)
	runtest.Must(t, err)
	dir := samplestest.PrepareStore(t, c, "f32")
	o.Config.Set, o.Variants = append(o.Config.Set, "data.store="+dir), o.Variants[:1]
	_, err = RunStudy(context.Background(), o)
	runtest.Must(t, err)
	data := commonFolder(append(slices.Concat(c.Data.Forecasts, c.Data.Analyses), config.Path(dir)))
	for _, name := range []string{record.File, experimentfile.FileName, studyConfig} {
		text, err := os.ReadFile(filepath.Join(o.Dir, name))
		if err != nil || strings.Contains(string(text), data+"/") || !strings.Contains(string(text), filepath.Base(dir)) {
			t.Errorf("%s: %v, want the store without directories of this machine", name, err)
		}
	}
	path := filepath.Join(o.Dir, record.File)
	reproduce := func() (*Reproduced, error) {
		return Reproduce(context.Background(), path, Options{Dir: t.TempDir(), Data: data, Version: "v1.2.3"})
	}
	if p, err := reproduce(); err != nil || p.Comparison.Verdict != record.SameBits {
		t.Errorf("%+v, %v", p, err)
	}
	added := filepath.Join(dir, "c", "9999")
	runtest.Must(t, os.MkdirAll(filepath.Dir(added), 0o755))
	runtest.Must(t, os.WriteFile(added, []byte("x"), 0o644))
	if _, err := reproduce(); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), added) {
		t.Errorf("a file was added to the store: %v", err)
	}
	draft, err := experimentfile.LoadDraft(o.Dir)
	runtest.Must(t, err)
	draft.Data.Store = ""
	if _, err := Run(context.Background(), Options{Experiment: draft, Dir: t.TempDir(), Data: data, Version: "v1.2.3"}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), storeKey) || !strings.Contains(err.Error(), "experiment.yaml, as data.store") {
		t.Errorf("a store that is not listed: %v", err)
	}
	runtest.Must(t, os.RemoveAll(dir))
	if _, err := reproduce(); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("without the store: %v", err)
	}
}

// Trainings with inputs that records do not list leave none, with a warning.
func TestStudyWithoutRecord(t *testing.T) {
	o := study(t, 1)
	if _, err := RunStudy(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(o.Dir, "base", "seed-1", "model", "weights-00.safetensors")
	if _, err := os.Stat(weights); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	o.Config.Set = append(o.Config.Set, "model.pretrained="+weights)
	o.Dir, o.Variants, o.Warn = t.TempDir(), o.Variants[:1], func(w string) { warnings = append(warnings, w) }
	e, err := RunStudy(context.Background(), o)
	if err != nil || len(e.Rows) == 0 {
		t.Fatal(e, err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, record.File)); err == nil || !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "no record of this study: model.pretrained") }) {
		t.Errorf("warnings %q", warnings)
	}
}

// Static fields are files of a study as forecasts and analyses are: its record has their checksums and reproduces it.
func TestStudyWithStaticFields(t *testing.T) {
	o := study(t, 1)
	field := runtest.FirstMessage(t, demotest.Files(t).GRIB2[0])
	o.Config.Set = append(o.Config.Set, "data.auxiliary.files=["+field+"]", "data.auxiliary.variables=[gh]")
	if _, err := RunStudy(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(o.Dir, record.File)
	r, err := record.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := manifest.SumFile(field)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Data.Files, func(f manifest.File) bool {
		return filepath.Base(f.Path) == filepath.Base(field) && f.SHA256 == sum.SHA256
	}) {
		t.Errorf("the record lists %+v, without %s", r.Data.Files, field)
	}
	data := commonFolder([]config.Path{config.Path(field), config.Path(demotest.Files(t).GRIB2[0])})
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), o.Dir) || strings.Contains(string(text), field) {
		t.Errorf("%v: the record names a directory of this machine", err)
	}
	p, err := Reproduce(context.Background(), path, Options{Dir: t.TempDir(), Data: data, Version: "v1.2.3"})
	if err != nil || p.Comparison.Verdict != record.SameBits {
		t.Fatalf("%+v, %v", p, err)
	}
}

// Variants with static fields and a sample store of their own are recorded, with checksums of all files, and replayed from another
// place. Without its own fields a variant would be another training.
func TestStudyOfOtherInputs(t *testing.T) {
	o := study(t, 1)
	fields := []string{runtest.FirstMessage(t, demotest.Files(t).GRIB2[0]), runtest.FirstMessage(t, demotest.Files(t).GRIB2[1])}
	c, err := config.LoadTrain(o.Config)
	runtest.Must(t, err)
	store := samplestest.PrepareStore(t, c, "bf16")
	o.Variants = []Variant{{Name: "base"}, {Name: "store", Set: []string{"data.store=" + store}}}
	for i, field := range fields {
		o.Variants = append(o.Variants, Variant{fmt.Sprintf("field-%d", i), []string{"data.auxiliary.files=[" + field + "]", "data.auxiliary.variables=[gh]"}})
	}
	_, err = RunStudy(context.Background(), o)
	runtest.Must(t, err)
	path := filepath.Join(o.Dir, record.File)
	r, err := record.Read(path)
	runtest.Must(t, err)
	for _, file := range append(fields, store) {
		if !slices.ContainsFunc(r.Data.Files, func(f manifest.File) bool { return strings.Contains(f.Path, filepath.Base(file)) }) {
			t.Errorf("the record lists %+v, without %s", r.Data.Files, file)
		}
	}
	data := commonFolder(append(slices.Concat(c.Data.Forecasts, c.Data.Analyses), config.Path(fields[0]), config.Path(fields[1]), config.Path(store)))
	for _, name := range []string{record.File, experimentfile.FileName, studyConfig} {
		if text, err := os.ReadFile(filepath.Join(o.Dir, name)); err != nil || strings.Contains(string(text), data+"/") {
			t.Errorf("%s: %v, names a directory of this machine:\n%s", name, err, text)
		}
	}
	p, err := Reproduce(context.Background(), path, Options{Dir: t.TempDir(), Data: data, Version: "v1.2.3"})
	if err != nil || p.Comparison.Verdict != record.SameBits {
		t.Errorf("%+v, %v", p, err)
	}
	weights := map[string]string{}
	for _, run := range r.Runs {
		i := slices.IndexFunc(run.Outputs, func(f manifest.File) bool { return filepath.Ext(f.Path) == ".safetensors" })
		weights[run.Outputs[i].SHA256] = run.Variant
	}
	if len(weights) != len(o.Variants) {
		t.Errorf("%d different trainings of %d variants: %v", len(weights), len(o.Variants), weights)
	}
}

func TestCommonFolder(t *testing.T) {
	for want, patterns := range map[string][]config.Path{
		"/data/a": {"/data/a/fc_*.grib2", "/data/a/an_*.nc"},
		"/data":   {"/data/a/fc.grib2", "/data/ab/an.nc"},
		"/":       {"/data/fc.grib2", "/other/an.nc"},
		"/d":      {"/d/20*/x/fc.grib2"},
	} {
		if got := commonFolder(patterns); got != want {
			t.Errorf("%q: %s, want %s", patterns, got, want)
		}
	}
	if got := studyName("/runs/Neue_Breite 2"); got != "neue-breite-2" {
		t.Error(got)
	}
}
