package verify

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// rawMembers writes raw members N(obs + 2, 1), worse than the products.
func (p *publishing) rawMembers(count int) (files []string) {
	p.t.Helper()
	r := rand.New(rand.NewPCG(5, 2))
	for k, init := range p.inits {
		var members []ensemble.Member
		for m := range count {
			members = append(members, ensemble.Member(m+1))
		}
		fc := ensemble.NewForecast(init, ensemble.Axes{Variables: []string{"2t"}, Levels: []ensemble.Level{twoMetres}, Leads: []ensemble.Lead{p.lead}}, members, p.grid)
		for m := range members {
			for q := range fc.Field(0, m, 0, 0) {
				fc.Field(0, m, 0, 0)[q] = p.obs[k][q] + 2 + float32(r.NormFloat64())
			}
		}
		path := filepath.Join(p.dir, "fc_"+product.InitName(init)+".nc")
		runtest.Must(p.t, product.WriteEnsembleNetCDF(context.Background(), p.pool, path, fc, product.Metadata{Title: "synthetic"}, product.Options{}))
		files = append(files, path)
	}
	return files
}

// TestScoreFields: the area means of score fields are the scores; points are better or worse by the test and the false discovery rate; a missing analysis is not counted.
func TestScoreFields(t *testing.T) {
	p := startPublishing(t)
	an := p.analyses("an.nc", 3)
	products := p.publish("products", func([]float32) []product.Field { return nil })
	out := filepath.Join(p.dir, "fields.nc")
	o := Options{Forecast: products, Analysis: an, Members: p.rawMembers(4), Bootstrap: significance.Bootstrap{Resamples: 20}, Fields: out}
	r, err := Run(context.Background(), o)
	runtest.Must(t, err)
	if len(r.Outputs) != 1 || r.Outputs[0] != out {
		t.Errorf("outputs %q", r.Outputs)
	}
	if st, err := os.Stat(out); err != nil || st.Size() == 0 {
		t.Errorf("no file: %v", err)
	}

	v := &Verification{Options: o}
	defer v.Close()
	runtest.Must(t, v.scoreAll(context.Background(), team.Teams{}))
	target := v.Targets[0]
	byScore := map[string]product.ScoreField{}
	for _, f := range scoreFields(target.target(), target.scoring.FieldScores()) {
		byScore[f.Score] = f
	}
	w := p.grid.Weights()
	mean := func(name string) (sum float64) {
		total := 0.0
		for q, x := range byScore[name].Values {
			sum += w[q] * float64(x)
			total += w[q]
		}
		return sum / total
	}
	for _, c := range []struct{ field, id, system string }{{"crps", "crps_gauss", "network"}, {"crps_raw4", "crps_plain", "raw4"}, {"bias", "bias", "network"}} {
		if got, want := mean(c.field), float64(r.Scores.Find(c.id, c.system, "2t", "2m", "24h").Value); math.Abs(got-want) > 1e-5 {
			t.Errorf("mean of %s: %g, score %g", c.field, got, want)
		}
	}
	significant := 0
	for q := range p.grid.Size() {
		at := func(name string) float64 { return float64(byScore[name].Values[q]) }
		if at("n") != 13 || math.Abs(at("rmse")-1) > 1e-5 || math.Abs(at("spread_skill")-(1+float64(q)/100)) > 1e-5 || math.Abs(at("crpss_raw4")-(1-at("crps")/at("crps_raw4"))) > 1e-6 {
			t.Errorf("point %d: %g dates, RMSE %g, spread-skill ratio %g, skill %g", q, at("n"), at("rmse"), at("spread_skill"), at("crpss_raw4"))
		}
		if better := at("significant_raw4") == 1; better != (at("p_value_raw4") < scoring.FieldFalseDiscoveries) {
			t.Errorf("point %d: p value %g, significance %g", q, at("p_value_raw4"), at("significant_raw4"))
		} else if better {
			significant++
		}
	}
	if significant < 4 {
		t.Errorf("%d points are better", significant)
	}
}

// TestSignificance: the mask separates better, worse and not significant points, and points without a test.
func TestSignificance(t *testing.T) {
	nan := float32(math.NaN())
	s := &scoring.PlaceScores{System: "network", N: []int32{20, 20, 20, 0}, CRPS: []float32{1, 3, 2, nan}, Bias: make([]float32, 4), RMSE: make([]float32, 4), SpreadSkill: make([]float32, 4),
		References: []scoring.PlaceReference{{System: "raw4", CRPS: []float32{2, 2, 2, nan}, Difference: []float32{-1, 1, 0, nan}, P: []float64{0.001, 0.002, 0.9, math.NaN()}}}}
	for _, f := range scoreFields(score.Target{Variable: "2t", Unit: "K"}, s) {
		if f.Score == "significant_raw4" && (f.Values[0] != 1 || f.Values[1] != 2 || f.Values[2] != 0 || f.Values[3] == f.Values[3]) {
			t.Errorf("mask %v, want better, worse, not significant, missing", f.Values)
		}
	}
}

// TestFieldsOfFewDates: without the dates that a test needs there are no p-values and no mask, and a comment and the map of
// differences state why.
func TestFieldsOfFewDates(t *testing.T) {
	p := startPublishing(t)
	products := p.publish("products", func([]float32) []product.Field { return nil })[:significance.MinDates-1]
	v := &Verification{Options: Options{Forecast: products, Analysis: p.analyses("an.nc"), Members: p.rawMembers(4)[:len(products)], Bootstrap: significance.Bootstrap{Resamples: 20}, Out: filepath.Join(p.dir, "scores")}}
	defer v.Close()
	runtest.Must(t, v.scoreAll(context.Background(), team.Teams{}))
	of := func(s *scoring.PlaceScores) (comment string, tests int) {
		for _, f := range scoreFields(v.Targets[0].target(), s) {
			switch f.Score {
			case "p_value_raw4", "significant_raw4":
				tests++
			case "crpss_raw4":
				comment = f.Comment
			}
		}
		return comment, tests
	}
	const why = "the difference is not tested, no place has 13 dates"
	s := v.Targets[0].scoring
	if comment, tests := of(s.MapScores()); comment != "1 - CRPS / CRPS of raw4; "+why || tests > 0 {
		t.Errorf("%d tests, comment %q", tests, comment)
	}
	e := &scoring.MapExample{Grid: v.Grid}
	if e.AddPlaces(s); len(e.Fields) != 1 || e.Fields[0].Kind != scoring.ShowDifference || e.Fields[0].NoTest != why {
		t.Errorf("%+v", e.Fields)
	}
}

// TestPlaces: the folder of scores has the scores by place for the maps of a report, those of --fields at its points; a
// verification without a reference removes them.
func TestPlaces(t *testing.T) {
	p := startPublishing(t)
	an := p.analyses("an.nc", 3)
	products := p.publish("products", func([]float32) []product.Field { return nil })
	o := Options{Forecast: products, Analysis: an, Members: p.rawMembers(4), Bootstrap: significance.Bootstrap{Resamples: 20}, Out: filepath.Join(p.dir, "scores")}
	r, err := Run(context.Background(), o)
	runtest.Must(t, err)
	if path := filepath.Join(o.Out, scoring.ExampleFile); !slices.Contains(r.Outputs, path) {
		t.Errorf("outputs %q without %s", r.Outputs, path)
	}
	e, err := scoring.LoadExample(o.Out)
	runtest.Must(t, err)
	if e == nil || e.HasForecast() || len(e.Fields) != 2 || e.Fields[0].Reference != "raw4" || e.Fields[0].Kind != scoring.ShowDifference || e.Fields[1].Kind != scoring.ShowP {
		t.Fatalf("%+v", e)
	}
	sum, weight := 0.0, 0.0
	for q, w := range p.grid.Weights() {
		sum, weight = sum+w*float64(e.Fields[0].Values[q]), weight+w
	}
	want := float64(r.Scores.Find("crps_gauss", "network", "2t", "2m", "24h").Value - r.Scores.Find("crps_plain", "raw4", "2t", "2m", "24h").Value)
	if got := sum / weight; math.Abs(got-want) > 1e-5 {
		t.Errorf("mean difference %g, scores %g", got, want)
	}
	o.Members = nil
	_, err = Run(context.Background(), o)
	runtest.Must(t, err)
	if e, err := scoring.LoadExample(o.Out); err != nil || e != nil {
		t.Errorf("scores by place of an earlier verification: %+v, %v", e, err)
	}
}
