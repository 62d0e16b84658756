package experiment

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// datedSplit is a split of the small data by dates.
var datedSplit = []string{"data.split.train.from=2001-01-01", "data.split.train.to=2001-09-01", "data.split.validation.from=2001-09-05", "data.split.validation.to=2001-12-01",
	"data.split.test.from=2001-12-03", "data.split.test.to=2002-12-31"}

// twoPeriods has test periods of five and four initialisations.
const twoPeriods = "origins: {first: 2001-11-01, periods: 2, test_months: 4, validation_months: 3}\nscores:"

// originsExperiment is an experiment with two origins and three seeds on the small data.
func originsExperiment(t *testing.T, change ...string) *experimentfile.Config {
	t.Helper()
	c := demotest.Config(t, demotest.Files(t), datedSplit...)
	return recordedOf(t, c, append([]string{"scores:", twoPeriods, "seeds: [3]", "seeds: [3, 4, 5]"}, change...)...)
}

// Each origin is trained on what was known before it. Rows of periods are the scores of the trainings, and the row of
// all periods is their mean by initialisation. The record is replayed to the same bits.
func TestOriginsAreTrainedAndPooled(t *testing.T) {
	o := Options{Experiment: originsExperiment(t), Dir: t.TempDir(), Version: "test"}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Record.Runs) != 6 || r.Record.FindRun(experimentfile.BaseVariant, "2002-03-01", 4) == nil || len(r.Record.Checks[0].Values) != 6 {
		t.Fatalf("runs %+v, checks %+v", r.Record.Runs, r.Record.Checks)
	}
	for _, of := range trainings(o.Experiment) {
		checkKnownAtOrigin(t, filepath.Join(o.Dir, of.dir()), of.origin)
		checkDates(t, filepath.Join(o.Dir, of.dir()))
	}
	checkPeriods(t, &o, r.Record)
	for _, path := range r.Outputs() {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 || strings.HasSuffix(path, ".html") && !strings.Contains(string(text), "Reduction in CRPS by test period") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if len(r.Outputs()) != 4 {
		t.Errorf("outputs %q", r.Outputs())
	}
	var b strings.Builder
	if err := r.Sections().WriteText(&b); err != nil || !strings.Contains(b.String(), "all, from 2001-11-05") || !strings.Contains(b.String(), "dates and of seeds") || !strings.Contains(b.String(), "needs two years") {
		t.Errorf("%v\n%s", err, b.String())
	}
	p, err := Reproduce(context.Background(), r.Path, Options{Dir: t.TempDir(), Data: filepath.Dir(demotest.Files(t).GRIB2[0]), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Comparison.Verdict != record.SameBits || len(p.Comparison.Runs) != 6 || p.Comparison.Runs[3].Origin != "2002-03-01" {
		t.Errorf("%+v", p.Comparison)
	}
}

// checkKnownAtOrigin checks that all that a training was fitted to was valid before its origin.
func checkKnownAtOrigin(t *testing.T, dir, origin string) {
	t.Helper()
	c, err := config.LoadTrain(config.Sources{Files: []string{filepath.Join(dir, "config.effective.yaml")}})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Data.Split
	begin, err := time.Parse(time.DateOnly, origin)
	if err != nil {
		t.Fatal(err)
	}
	last := ensemble.InitAt(s.Validation.Period().To).Valid(c.Data.TargetLeads[0])
	if !s.Test.From.Equal(begin) || !last.Before(begin) || !ensemble.InitAt(s.Train.Period().To).Valid(c.Data.TargetLeads[0]).Before(s.Validation.From.Time) {
		t.Errorf("%s: split %+v", dir, s)
	}
	m, err := rundir.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := m.Details["inits_validation"].(float64); n < 3 {
		t.Errorf("%s: %g validated", dir, n)
	}
}

// checkDates checks that the weighted means of the scores by initialisation are the scores, for every system.
func checkDates(t *testing.T, dir string) {
	t.Helper()
	dates, _, err := trained.ReadDates(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := trained.ReadScores(dir)
	if err != nil {
		t.Fatal(err)
	}
	type mean struct{ weight, sum float64 }
	of := map[[2]string]mean{}
	for _, d := range dates {
		k := [2]string{d.System, d.Score}
		of[k] = mean{of[k].weight + d.Weight, of[k].sum + d.Weight*float64(d.CRPS)}
	}
	for k, m := range of {
		if v := scores.Find(k[1], k[0], "t", "850hPa", "48h"); v == nil || math.Abs(m.sum/m.weight-float64(v.Value)) > 1e-6 {
			t.Errorf("%v: mean %g of the dates, score %+v", k, m.sum/m.weight, v)
		}
	}
	for _, k := range [][2]string{{scoring.SystemNetwork, "crps_gauss"}, {"raw3", "crps_plain"}, {"raw4", "crps_plain"}, {"climatology", "crps_gauss"}} {
		if of[k].weight == 0 {
			t.Errorf("no dates of %v", k)
		}
	}
}

// checkPeriods compares the rows of periods with the scores of the trainings.
func checkPeriods(t *testing.T, o *Options, r *record.Record) {
	t.Helper()
	n := map[string]int{"2001-11-01": 5, "2002-03-01": 4, score.AllPeriods: 9}
	rows := map[string]map[string]score.Period{}
	for _, p := range r.Periods {
		if rows[p.Reference] == nil {
			rows[p.Reference] = map[string]score.Period{}
		}
		rows[p.Reference][p.Origin] = p
		if want := 1 - p.Value/p.ReferenceValue; p.N != n[p.Origin] || math.Abs(float64(p.SkillScore-want)) > 1e-9 || p.Unit != "K" || !(p.SD > 0) {
			t.Errorf("row %+v", p)
		}
		if p.CILow == p.CILow || p.CIHigh == p.CIHigh { // fewer than 13 dates have no interval
			t.Errorf("interval of %+v", p)
		}
		if p.Origin == score.AllPeriods {
			continue
		}
		var value, reference float64
		for _, seed := range o.Experiment.Seeds {
			scores, err := trained.ReadScores(filepath.Join(o.Dir, experimentfile.BaseVariant, p.Origin, fmt.Sprintf("seed-%d", seed)))
			if err != nil {
				t.Fatal(err)
			}
			value += float64(scores.Find(p.Score, p.System, p.Variable, p.Level, p.Lead).Value) / 3
			id := score.CRPSPlain.ID
			if p.Reference == "climatology" {
				id = score.CRPSGauss.ID
			}
			reference += float64(scores.Find(id, p.Reference, p.Variable, p.Level, p.Lead).Value) / 3
		}
		if math.Abs(float64(p.Value)-value) > 1e-6 || math.Abs(float64(p.ReferenceValue)-reference) > 1e-6 {
			t.Errorf("%+v, the trainings have %g and %g", p, value, reference)
		}
	}
	if len(rows) != 3 || len(r.Periods) != 9 || len(r.Trends) != 3 {
		t.Fatalf("%d rows, trends %+v", len(r.Periods), r.Trends)
	}
	for reference, of := range rows { // all dates have the same points
		if want := (5*of["2001-11-01"].Value + 4*of["2002-03-01"].Value) / 9; math.Abs(float64(of[score.AllPeriods].Value-want)) > 1e-9 {
			t.Errorf("%s: all %g, want %g", reference, of[score.AllPeriods].Value, want)
		}
	}
	if tr := r.Trends[0]; tr.PerYear == tr.PerYear { // of eight months
		t.Errorf("trend %+v", tr)
	}
}

// Origins without data, and trainings that cannot be, are refused with what is wrong.
func TestOriginsRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []string
		code   exit.Code
		want   string
	}{
		{"no initialisations", []string{"first: 2001-11-01, periods: 2", "first: 2002-08-01, periods: 1"}, exit.NotYet, "no initialisation lies in the test period"},
		{"no initialisations in the last period", []string{"periods: 2", "periods: 4"}, exit.NotYet, "origin 2002-07-01"},
		{"a gap shorter than the lead", []string{"validation_months: 3", "validation_months: 3, gap: 12h"}, exit.Usage, "shorter than the longest lead, 48h"},
		{"no time for training", []string{"first: 2001-11-01", "first: 2001-03-01"}, exit.Usage, "no time for training before the origin 2001-03-01"},
	} {
		o := Options{Experiment: originsExperiment(t, append([]string{"seeds: [3, 4, 5]", "seeds: [3]"}, c.change...)...), Dir: t.TempDir(), Version: "test"}
		_, err := Run(context.Background(), o)
		if exit.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(filepath.Join(o.Dir, experimentfile.BaseVariant)); err == nil {
			t.Errorf("%s: trained before", c.name)
		}
	}
}
