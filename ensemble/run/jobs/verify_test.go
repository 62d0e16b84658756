package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/periods"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// A training that keeps a climate scores extremes, its products do with --run-dir as well, and
// what is summed month by month gives the bits of one run.
func TestVerifyExtremesAndSums(t *testing.T) {
	f := demotest.Files(t)
	runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
	c := demotest.Config(t, f, "climate.source=members", "climate.windows=4", "climate.days=120", "train.loss.extreme=2", "train.epochs=1", "train.networks=1")
	finished, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	test := f.GRIB2[17:]
	predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: test, Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	all := verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: test, RunDir: runDir, Out: filepath.Join(out, "all"), Selection: scoring.Selection{Seasons: true}, Bootstrap: significance.Bootstrap{Resamples: 50}, By: "year"}
	whole, err := verify.Run(context.Background(), all)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*score.Result{finished.Scores, whole.Scores} {
		for _, id := range []string{"eecrps_gauss", "eecrps_plain", "efi", "efi_ens10", "sot_90", "sot_10"} {
			v := r.Find(id, "raw4", "t", "850hPa", "48h")
			if v == nil || math.IsNaN(float64(v.Value)) || strings.HasPrefix(id, "efi") && !(v.Value > 0 && v.Value < 1) {
				t.Errorf("%s: %+v", id, v)
			}
		}
		seen := map[string]bool{}
		for _, c := range r.Comparisons {
			seen["skill "+c.Region] = true
		}
		for _, c := range r.SkillComponents {
			seen["share "+c.Region+" "+c.Weights] = true
		}
		for _, y := range r.IdealScores {
			seen["ideal "+y.ID+" "+y.Region] = true
			network := r.Find("crps_gauss", "network", "t", "850hPa", "48h").Value
			if score.IsOverall(y.Region, y.Season) && math.Abs(float64(y.CRPS*y.Ratio-network)) > 1e-5*float64(network) {
				t.Errorf("%s: %g times %g is not the network's %g", y.ID, y.CRPS, y.Ratio, network)
			}
		}
		for _, want := range []string{"skill all", "skill largest_efi", "share largest_efi cos(latitude)", "ideal perfect_model all", "ideal fair_calibrated all", "ideal expected largest_efi"} {
			if !seen[want] {
				t.Errorf("no %s among %v", want, seen)
			}
		}
	}
	if a, b := finished.Scores.Find("eecrps_gauss", "network", "t", "850hPa", "48h"), whole.Scores.Find("eecrps_gauss", "network", "t", "850hPa", "48h"); math.Abs(float64(a.Value-b.Value)) > 1e-5*float64(a.Value) {
		t.Errorf("training has EECRPS %g, its products %g", a.Value, b.Value)
	}

	// One verification per month, the last month first.
	byCycle := map[string][]string{}
	for _, path := range predicted.Outputs {
		byCycle[filepath.Dir(path)] = append(byCycle[filepath.Dir(path)], path)
	}
	var files []string
	for _, cycle := range slices.Backward(slices.Sorted(maps.Keys(byCycle))) {
		part := all
		part.Forecast, part.Out, part.Sums = byCycle[cycle], "", filepath.Join(out, filepath.Base(cycle)+".sums")
		part.Bootstrap.BlockLength = 1
		if _, err := verify.Run(context.Background(), part); err != nil {
			t.Fatal(err)
		}
		files = append(files, part.Sums)
	}
	if len(files) != 3 {
		t.Fatalf("%d files of sums", len(files))
	}
	twoFile := filepath.Join(out, "two.sums")
	if _, err := verify.JoinSums(verify.JoinOptions{Files: files[:2], Sums: twoFile}); err != nil {
		t.Fatal(err)
	}
	joined, err := verify.JoinSums(verify.JoinOptions{Files: []string{files[2], twoFile}, Out: filepath.Join(out, "joined"), Bootstrap: all.Bootstrap, By: all.By})
	if err != nil || len(joined.Warnings) > 0 {
		t.Fatal(joined, err)
	}
	for _, name := range []string{trained.ScoresFile, trained.ScoresTable, trained.DatesTable, scoring.ComparisonsTable, scoring.DiagramsTable, scoring.ScoresCSV, periods.Files[0], periods.Files[1]} {
		a, err := os.ReadFile(filepath.Join(out, "all", name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(out, "joined", name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s of joined sums differs from that of one run, %v", name, err)
		}
	}
	checkYear(t, whole.Scores)
	refusedSums(t, all, files)
	unweighted(t, all)
	noClimate(t, all)
	checkCaseStudy(t, all)
}

// checkYear checks that the skill in the only year of a verification, and in all years, is that of its scores.
func checkYear(t *testing.T, r *score.Result) {
	t.Helper()
	network, raw := r.Find("crps_gauss", "network", "t", "850hPa", "48h"), r.Find("crps_plain", "raw4", "t", "850hPa", "48h")
	found := 0
	for _, p := range r.Periods {
		if p.Reference == "raw4" {
			found++
			if want := 1 - network.Value/raw.Value; p.N != 3 || p.Unit != "K" || p.Origin != "2002-01-01" && p.Origin != score.AllPeriods || math.Abs(float64(p.SkillScore-want)) > 1e-5 || p.CILow == p.CILow {
				t.Errorf("%+v, want %g", p, want)
			}
		}
	}
	if found != 2 || len(r.Trends) == 0 || r.Trends[0].PerYear == r.Trends[0].PerYear {
		t.Errorf("periods %+v, trends %+v", r.Periods, r.Trends)
	}
}

// refusedSums checks that sums of different verifications are not joined.
func refusedSums(t *testing.T, o verify.Options, files []string) {
	t.Helper()
	other := o
	other.Out, other.Selection = "", scoring.Selection{Seasons: true, Weights: scoring.NoWeights}
	other.Sums = filepath.Join(t.TempDir(), "other.sums")
	if _, err := verify.Run(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	cut, not, old := filepath.Join(t.TempDir(), "cut.sums"), filepath.Join(t.TempDir(), "not.sums"), filepath.Join(t.TempDir(), "old.sums")
	for path, text := range map[string][]byte{cut: text[:len(text)/2], not: []byte("{}"), old: bytes.Replace(text, []byte(scoring.SumsSchema), []byte("ensemble.sums/2"), 1)} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		files []string
		want  string
		code  exit.Code
	}{
		{[]string{files[0], files[0]}, "was added twice", exit.BadData},
		{[]string{files[0], other.Sums}, "other selection", exit.BadData},
		{[]string{cut}, "damaged or truncated", exit.BadData},
		{[]string{not}, `want schema "ensemble.sums/4"`, exit.BadData},
		{[]string{old}, `got "ensemble.sums/2"`, exit.BadData},
		{[]string{not + ".none"}, "", exit.NotYet},
	} {
		_, err := verify.JoinSums(verify.JoinOptions{Files: c.files})
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.files, err, c.want)
		}
	}
}

// unweighted: without weights a score is the mean over points as they are.
func unweighted(t *testing.T, o verify.Options) {
	t.Helper()
	o.Selection = scoring.Selection{Weights: scoring.NoWeights, Regions: []string{"tropics"}}
	r, err := verify.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	v := r.Scores.Find("crps_gauss", "network", "t", "850hPa", "48h")
	o.Selection = scoring.Selection{}
	by, err := verify.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	w := by.Scores.Find("crps_gauss", "network", "t", "850hPa", "48h")
	if v.Weights != scoring.EqualWeights || w.Weights != "cos(latitude)" || v.Value == w.Value {
		t.Errorf("with %s %g, with %s %g", v.Weights, v.Value, w.Weights, w.Value)
	}
	text, err := json.Marshal(r.Scores)
	if err != nil || bytes.Contains(text, []byte(`"weights":"cos(latitude)"`)) {
		t.Errorf("a number with other weights among those without, %v", err)
	}
	for _, s := range r.Scores.SkillComponents {
		if s.Component == "total" && s.Region == "tropics" {
			return
		}
	}
	t.Error("the skill score is not decomposed in the tropics")
}

// noClimate: the climate must be valid and on the grid of the forecasts.
func noClimate(t *testing.T, o verify.Options) {
	t.Helper()
	path := filepath.Join(o.RunDir, "model", task.ClimateFile)
	c, err := task.LoadClimate(path)
	if err != nil || c.Dates != 17 || c.MinValues < 4 || len(c.Warnings()) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	read, _, err := train.LoadOrFitClimate(context.Background(), config.Climate{Source: config.NoClimate, File: config.Path(path)}, nil, &samples.Data{Grid: c.Grid})
	if err != nil || !reflect.DeepEqual(read.Quantiles, c.Quantiles) {
		t.Errorf("a climate of another training is not read: %v", err)
	}
	g := *c.Grid
	g.Lat = append([]float64{g.Lat[0] - 1}, g.Lat[1:]...)
	c.Grid = &g
	o.Climate = filepath.Join(t.TempDir(), task.ClimateFile)
	if err := c.Save(o.Climate); err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Run(context.Background(), o); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "another grid") {
		t.Errorf("a climate of another grid: %v", err)
	}
	o.Climate = filepath.Join(o.RunDir, "model", "baselines.safetensors")
	if _, err := verify.Run(context.Background(), o); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "not a valid climatology") {
		t.Errorf("baselines for a climate: %v", err)
	}
}
