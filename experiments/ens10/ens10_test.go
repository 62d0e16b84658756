// Package ens10 runs the protocols for ECMWF's hindcasts on a synthetic archive in their layout, and checks their
// configurations.
package ens10

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/protocol"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/product"
)

func protocolNamed(t *testing.T, name string) *protocolfile.Config {
	t.Helper()
	p, err := protocolfile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func load(t *testing.T, path string, set ...string) *config.TrainConfig {
	t.Helper()
	c, err := config.LoadTrain(config.Sources{Files: []string{path}, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConfigurations: the configurations have the periods, input, targets and divisor of the protocols, and their
// file names. Validation inits are part of the training period if the protocol defines none.
func TestConfigurations(t *testing.T) {
	for _, c := range []struct{ file, protocol, task string }{
		{"z500.yaml", "ens10", "z500"}, {"t850.yaml", "ens10", "t850"}, {"t2m.yaml", "ens10", "t2m"},
		{"spread.yaml", "deep-weather", "t850"}, {"../ens5-mini/t850.yaml", "ens5-mini", "t850"},
	} {
		p, d := protocolNamed(t, c.protocol), load(t, c.file).Data
		task := p.Tasks[slices.IndexFunc(p.Tasks, func(x protocolfile.Task) bool { return x.Name == c.task })]
		train, validation := p.Split.Train, p.Split.Validation
		if validation == (config.Period{}) {
			validation.From, validation.To, train.To = d.Split.Validation.From, train.To, d.Split.Train.To
		}
		if d.Split.Train != train || d.Split.Validation != validation || d.Split.Test != p.Split.Test || d.Split.Train.To.End().After(d.Split.Validation.From.Time) {
			t.Errorf("%s: split %+v", c.file, d.Split)
		}
		sorted := func(x []string) []string { return slices.Sorted(slices.Values(x)) }
		if !slices.Equal(sorted(d.Variables), sorted(task.Inputs)) || d.TargetLead != task.Lead || d.Targets[0].Variable != task.Variable ||
			!slices.Contains(d.Levels, task.Level) || !slices.Contains(d.Targets[0].Levels, task.Level) {
			t.Errorf("%s: %v at %v, targets %v at %s", c.file, d.Variables, d.Levels, d.Targets, d.TargetLead)
		}
		if d.SpreadDDOF != p.Scoring.SpreadDDOF || d.Members.Full != p.Hindcasts.Members || d.Members.Control != "exclude" {
			t.Errorf("%s: divisor members - %d, members %+v", c.file, d.SpreadDDOF, d.Members)
		}
		matches := func(pattern config.Path, name string) {
			if ok, err := filepath.Match(filepath.Base(string(pattern)), name); err != nil || !ok {
				t.Errorf("%s: %s does not match %s", c.file, pattern, name)
			}
		}
		kind := slices.IndexFunc(p.Hindcasts.Files, func(f protocolfile.HindcastFile) bool { return slices.Contains(f.Levels, task.Level) })
		matches(d.Forecasts[0], p.Hindcasts.Files[kind].Path(p.Hindcasts.ReferenceYear, "0104"))
		if d.Analyses != nil {
			matches(d.Analyses[0], p.Analyses.Files[kind].Path(p.Split.Test.From.Time))
		}
	}
}

// TestPublishedScores: published scores are of the members of the two tracks, with a tolerance that distinguishes
// methods.
func TestPublishedScores(t *testing.T) {
	p := protocolNamed(t, "ens10")
	for _, s := range p.Published {
		if s.Members != 5 && s.Members != p.Hindcasts.Members || s.Tolerance <= 0 || s.Tolerance > 0.1 {
			t.Errorf("%+v", s)
		}
	}
}

// TestSyntheticArchive goes from files to scores in the layout of ENS-10, with 29 February.
func TestSyntheticArchive(t *testing.T) {
	testdecoder.Path(t)
	ctx := context.Background()
	root := t.TempDir()
	own := filepath.Join(root, "protocol.yaml")
	text := "version: 1\nbase: ens10\ntitle: ENS-10 with a leap day\nhindcasts: {last_year: 2000, members: 3, dates: [\"0229\", \"0402\", \"0702\"]}\ngrid: {rows: 9, columns: 18, east: 340}\n"
	if err := os.WriteFile(own, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := protocolNamed(t, own)
	archive := filepath.Join(root, "archive")
	made, err := protocol.Synthesize(ctx, protocol.SynthesizeOptions{Protocol: p, Out: archive, Seed: 1, Version: "test"})
	if err != nil || made.Inits != 7 || made.Files != 3*2+7*2 || made.Fields != 7*3*3*(77+11)+7*5 {
		t.Fatalf("%+v, %v", made, err)
	}
	set := func(more ...string) []string {
		return append([]string{fmt.Sprintf("data.forecasts=[%s/output.*]", archive), fmt.Sprintf("data.analyses=[%s/era5.*]", archive), "data.las.window=3",
			"data.members.full=3", "data.members.use=3", "data.split.train.to=1998-12-31", "data.split.validation.from=1999-01-01", "data.split.validation.to=1999-12-31",
			"data.split.test.from=2000-01-01", "data.split.test.to=2000-12-31", "model.base=2", "model.stages=2", "train.epochs=1", "train.warmup=0", "train.batch_size=2"}, more...)
	}
	prepare := func(c *config.TrainConfig, out string, p *protocolfile.Config) (*samples.PrepareResult, error) {
		return samples.Prepare(ctx, samples.PrepareOptions{Config: c, Protocol: p, Out: filepath.Join(root, out), Storage: "f32", Memory: 16 << 20, Version: "test"})
	}
	for _, task := range p.Tasks {
		if task.Name == "t850" { // same as z500
			continue
		}
		c := load(t, task.Name+".yaml", set()...)
		stored, err := prepare(c, task.Name, p)
		if err != nil || stored.Inits != 7 || len(stored.Warnings) > 0 || stored.Missing > 0 != (task.Name == "t2m") {
			t.Fatalf("%s: %+v, %v", task.Name, stored, err)
		}
		c = load(t, task.Name+".yaml", set("data.store="+stored.Out)...)
		dir := filepath.Join(root, "run-"+task.Name)
		var warned []string
		if _, err := train.Run(ctx, train.Options{Config: c, RunDir: dir, Version: "test", Warn: func(w string) { warned = append(warned, w) }}); err != nil {
			t.Fatal(err)
		}
		for _, w := range warned {
			if !strings.Contains(w, "do not determine a seasonal cycle") && !strings.Contains(w, "has no emos_grid") && !strings.Contains(w, "has no split of the CRPS reduction") {
				t.Errorf("%s: %s", task.Name, w)
			}
		}
		kind := "pl"
		if task.Name == "t2m" {
			kind = "sfc"
		}
		files := func(pattern string) []string {
			list, err := filepath.Glob(filepath.Join(archive, pattern))
			if err != nil || list == nil {
				t.Fatalf("%s: %v", pattern, err)
			}
			return list
		}
		products := filepath.Join(root, "products-"+task.Name)
		hindcasts := files("output." + kind + ".2018*")
		if _, err := predict.Run(ctx, predict.Options{RunDir: dir, Input: hindcasts, Out: products, Formats: []product.Format{"netcdf"}, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		published, err := filepath.Glob(filepath.Join(products, "2000*", "*.nc"))
		if err != nil || len(published) != 3 {
			t.Fatalf("%v, %v", published, err)
		}
		r, err := verify.Run(ctx, verify.Options{Forecast: published, Analysis: files("era5." + kind + ".2000*"), Members: hindcasts, RunDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, s := range r.Scores.Scores {
			got[s.ID+" "+s.System] = float64(s.Value)
		}
		for _, id := range []string{"crps_gauss network", "crps_plain raw3", "crps_fair raw3", "rmse emos", "spread_skill network"} {
			if x := got[id]; !(x > 0) || math.IsInf(x, 0) {
				t.Errorf("%s: %s is %g", task.Name, id, x)
			}
		}
		if a, b := got["rmse network"], got["rmse raw3"]; math.Abs(a/b-1) > 0.2 {
			t.Errorf("%s: RMSE %g of the mean of a network after short training, %g of the members'", task.Name, a, b)
		}
	}

	// The row of the table, with two seeds. Two years are too few to decompose a skill score, so there are no scores
	// per init: TestExperimentSeeds of ensemble/run covers those without weights.
	e, err := experiment.RunStudy(ctx, experiment.StudyOptions{Config: config.Sources{Files: []string{"t850.yaml"}, Set: set("baselines=[emos]")}, Dir: filepath.Join(root, "row"),
		Variants: []experiment.Variant{{Name: "base"}}, Reference: "base", Seeds: 2, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Rows) != 1 {
		t.Fatalf("rows %+v", e.Rows)
	}
	if r := e.Rows[0]; !(r.Value > 0 && r.SD > 0 && r.RawFull > 0) || r.N != 3 || r.Variable != "t" || r.Level != "850hPa" {
		t.Errorf("row %+v", r)
	}

	// File names are not used: inits come from the content.
	c := load(t, "z500.yaml", set()...)
	at := func(name string) string { return filepath.Join(archive, name) }
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	shard := func(store string) string {
		b, err := os.ReadFile(filepath.Join(root, store, "shards", "00000.bin"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	rename(at("output.pl.20180702"), at("output.pl.20170229"))
	if _, err := prepare(c, "renamed", p); err != nil || shard("renamed") != shard("z500") {
		t.Errorf("a file of another name: %v", err)
	}
	// Inits of the protocol that are missing are listed.
	rename(at("output.pl.20170229"), filepath.Join(root, "away"))
	_, err = prepare(c, "short", p)
	expectMissing(t, err, "3 of 7 initialisations", "1998-07-02T00:00Z, 1999-07-02T00:00Z, 2000-07-02T00:00Z", "output.pl.20180702 (3 years)")
	if r, err := prepare(c, "short", nil); err != nil || r.Inits != 4 {
		t.Errorf("without a protocol: %+v, %v", r, err)
	}
	rename(filepath.Join(root, "away"), at("output.pl.20180702"))
	narrow, err := p.Subset(1998, 1999, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := prepare(c, "more", narrow); err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "3 initialisations of the input do not belong to ENS-10") {
		t.Errorf("inits in addition to the protocol's: %+v, %v", r, err)
	}
	// Valid times without analysis are listed too.
	for _, month := range []string{"199807", "200003"} {
		rename(at("era5.pl."+month+".grib"), filepath.Join(root, month))
	}
	_, err = prepare(c, "unjudged", p)
	expectMissing(t, err, "no analysis of z at 500hPa for 1998-07-04T00:00Z", "2 valid times without: 1998-07-04T00:00Z, 2000-03-02T00:00Z")

	// A folder that may hold real data is not changed.
	real := filepath.Join(root, "real")
	if err := os.MkdirAll(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(real, "output.pl.20180104"), []byte("GRIB"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.Synthesize(ctx, protocol.SynthesizeOptions{Protocol: p, Out: real}); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("a folder with other files: %v", err)
	}
}

// expectMissing expects exit code 66 and the given texts.
func expectMissing(t *testing.T, err error, texts ...string) {
	t.Helper()
	e, _ := err.(*exit.Error)
	if e == nil || e.Code != exit.NotYet {
		t.Errorf("%v, want exit 66 with %q", err, texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(e.What+"\n"+e.Why, text) {
			t.Errorf("no %q in %s; %s", text, e.What, e.Why)
		}
	}
}
