package verify

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
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
	o := Options{Forecast: products, Analysis: an, Members: p.rawMembers(4), Bootstrap: score.Bootstrap{Resamples: 20}, Fields: out}
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
	target.points.factor = 1
	byScore := map[string]product.ScoreField{}
	for _, f := range target.points.fields(target.target(), scoring.SystemNetwork, "raw4") {
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
		if at("n") != 9 || math.Abs(at("rmse")-1) > 1e-5 || math.Abs(at("spread_skill")-(1+float64(q)/100)) > 1e-5 || math.Abs(at("crpss")-(1-at("crps")/at("crps_raw4"))) > 1e-6 {
			t.Errorf("point %d: %g dates, RMSE %g, spread-skill ratio %g, skill %g", q, at("n"), at("rmse"), at("spread_skill"), at("crpss"))
		}
		if better := at("significant") == 1; better != (at("p_value") < fieldFalseDiscoveries) {
			t.Errorf("point %d: p value %g, significance %g", q, at("p_value"), at("significant"))
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
	var s pointSums
	nan := float32(math.NaN())
	for k := range 20 {
		swing := float32(k%2)*0.1 - 0.05
		s.add(pointScores{CRPS: []float32{1 + swing, 3 + swing, 2 + 10*swing, nan}, Raw: []float32{2, 2, 2, nan}, Error: []float32{1, 1, 1, nan}, Variance: []float32{1, 1, 1, nan}})
	}
	s.factor = 1
	for _, f := range s.fields(score.Target{Variable: "2t", Unit: "K"}, "network", "raw4") {
		if f.Score == "significant" && (f.Values[0] != 1 || f.Values[1] != 2 || f.Values[2] != 0 || f.Values[3] == f.Values[3]) {
			t.Errorf("mask %v, want better, worse, not significant, missing", f.Values)
		}
	}
}
