package experiment

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/optimum"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// optimumExperiment is a benchmark of a year with 19 initialisations, of which the last six are tested.
func optimumExperiment(t *testing.T, change ...string) *experimentfile.Config {
	t.Helper()
	c := demotest.Config(t, demotest.Files(t), "data.split.train.from=2001-01-01", "data.split.train.to=2001-06-20", "data.split.validation.from=2001-06-24", "data.split.validation.to=2001-08-25",
		"data.split.test.from=2001-09-01", "data.split.test.to=2001-12-31")
	dir := t.TempDir()
	text := `version: 1
name: optimum-tiny
title: "a test"
config: train.yaml
set: ["train.networks=1", "train.epochs=1", "baselines=[emos,emos_grid]", "regions=[northern_extratropics, 'south=-90:0:0:360']"]
threads: 1
seeds: [3]
data:
  source: optimum
  optimum: {years: 1, test_years: 1, interval: 20d, members: 4, oracle_members: 5}
  forecasts: ["optimum_fc_*.grib2"]
  analyses: ["optimum_an_*.nc"]
  oracle: ["optimum_or_*.grib2"]
scores:
  - {score: crps_gauss, variable: t, level: 850hPa, lead: 48h, value: 0.5, tolerance: 5}
`
	for i := 0; i+1 < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			t.Fatalf("no %q in\n%s", change[i], text)
		}
		text = strings.Replace(text, change[i], change[i+1], 1)
	}
	for name, text := range map[string]string{"train.yaml": string(c.YAML()), experimentfile.FileName: text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := experimentfile.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// inRegion is a score of a region; NaN without one.
func inRegion(r *score.Result, region, id, system string) score.Number {
	for _, v := range r.Scores {
		if v.Region == region && v.ID == id && v.System == system && score.IsOverall("", v.Season) {
			return v.Value
		}
	}
	return score.Missing()
}

// The oracle is scored on the dates and targets of the trainings, and the shares follow from its fair CRPS and the
// scores of the trainings. Bad input is refused before any training.
func TestSharesOfTheOptimum(t *testing.T) {
	o := Options{Experiment: optimumExperiment(t), Dir: t.TempDir(), Version: "test"}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	own, err := trained.ReadScores(filepath.Join(o.Dir, trainings(o.Experiment)[0].dir()))
	if err != nil {
		t.Fatal(err)
	}
	fair := r.Optimum.Oracle.Find(score.CRPSFair.ID, optimum.Oracle, "t", "850hPa", "48h")
	if fair == nil || fair.Members != 5 || fair.N != own.Find(score.CRPSGauss.ID, "network", "t", "850hPa", "48h").N {
		t.Fatalf("oracle %+v", fair)
	}
	found := map[string]int{}
	for _, x := range r.Optimum.Shares {
		of := own
		if x.System == optimum.Oracle {
			of = r.Optimum.Oracle
		}
		v, e := inRegion(of, x.Region, x.Score, x.System), inRegion(own, x.Region, score.CRPSGauss.ID, optimum.Reference)
		best := inRegion(r.Optimum.Oracle, x.Region, score.CRPSFair.ID, optimum.Oracle)
		want := (e - v) / (e - best)
		if e <= best {
			t.Errorf("%s: the reference is as good as the oracle", x.System)
		}
		if d := math.Abs(float64(want - x.Share)); !(d <= 1e-6) || x.Unit == "" || x.TrainingDates != 9 {
			t.Errorf("%+v: want share %g", x, want)
		}
		found[x.Region]++
	}
	if want := map[string]int{score.Everywhere: 6, "northern_extratropics": 6, "south": 6}; !maps.Equal(found, want) {
		t.Errorf("shares by region: %v, want %v", found, want)
	}
	var b strings.Builder
	if err := r.Sections().WriteText(&b); err != nil || !strings.Contains(b.String(), "Share of the way from emos_grid to the oracle") || !strings.Contains(b.String(), "The oracle") || !strings.Contains(b.String(), "core hours") {
		t.Errorf("%v\n%s", err, b.String())
	}
	for _, path := range r.Outputs() {
		if text, err := os.ReadFile(path); err != nil || len(text) == 0 || strings.HasSuffix(path, ".html") && !strings.Contains(string(text), "Share of the way") {
			t.Errorf("%s: %v", path, err)
		}
	}
	archive := BundleOptions{Results: o.Dir, Out: filepath.Join(t.TempDir(), "a.zip"), Authors: []string{"Doe, Jane"}, Licence: filepath.Join(t.TempDir(), "LICENSE")}
	if err := os.WriteFile(archive.Licence, []byte("You may.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteBundle(archive); err != nil {
		t.Fatal(err)
	}
	files := unzip(t, archive.Out)
	for _, name := range []string{"tables/optimum.csv", "tables/oracle/scores.json", "tables/report/index.html"} {
		if files[name] == "" || strings.Contains(files[name], o.Dir) {
			t.Errorf("%s: %q", name, files[name])
		}
	}
	for _, c := range []struct {
		name   string
		change []string
		code   exit.Code
		want   string
	}{
		{"no reference", []string{",emos_grid]", "]"}, exit.Usage, "an oracle without the baseline emos_grid"},
		{"data without oracle", []string{`["optimum_or_*.grib2"]`, `["oracle_*.grib2"]`}, exit.NotYet, "oracle_*.grib2"},
		{"an oracle of some test dates", []string{`["optimum_or_*.grib2"]`, `["optimum_or_200112*.grib2"]`}, exit.NotYet, "the oracle lacks 4 of 6 test initialisations"},
	} {
		bad := o
		bad.Experiment, bad.data = optimumExperiment(t, c.change...), nil
		bad.Dir = t.TempDir()
		if err := os.Rename(filepath.Join(o.Dir, "data"), filepath.Join(bad.Dir, "data")); err != nil { // the same data
			t.Fatal(err)
		}
		o.Dir = bad.Dir
		if _, err := Run(context.Background(), bad); exit.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: got %v, want code %d and %q", c.name, err, c.code, c.want)
		}
		if _, err := os.Stat(filepath.Join(bad.Dir, experimentfile.BaseVariant)); err == nil {
			t.Errorf("%s: something was trained", c.name)
		}
	}
}

// Networks learn from reforecasts of three members, and are tested on three of the four members of a later year.
func TestOptimumOfReforecasts(t *testing.T) {
	e := optimumExperiment(t, "years: 1, test_years: 1, interval: 20d, members: 4,", "years: 2, test_years: 1, interval: 20d, members: 4, reforecast_members: 3,",
		`set: [`, `set: ["data.members.use=3", "data.members.full=3", "data.split.test.from=2002-01-01", "data.split.test.to=2002-12-31", `)
	o := Options{Experiment: e, Dir: t.TempDir(), Version: "test"}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	network := slices.IndexFunc(r.Optimum.Shares, func(s optimum.Share) bool {
		return s.System == scoring.SystemNetwork && s.Region == score.Everywhere
	})
	if network < 0 || r.Optimum.Shares[network].N != 18 || r.Optimum.Shares[network].TrainingDates != 9 {
		t.Errorf("%+v", r.Optimum.Shares)
	}
}
