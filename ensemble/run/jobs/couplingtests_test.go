package jobs

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// A training tests the members sampled from its network's distribution, and those of baselines. Verification
// of its products repeats these results and tests the published members.
func TestCouplingOfSystems(t *testing.T) {
	f := demotest.Files(t)
	runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
	c := demotest.Config(t, f, runtest.MemberInput("data.members.use=4", "data.members.sampling=fixed", "model.encoder.channels=2", "train.epochs=1", "baselines=[mbm, quantile_map, emos]")...)
	trained, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	found := func(r *score.Result, of string) map[string][]score.Coupling {
		tests := map[string][]score.Coupling{}
		for _, x := range r.Coupling {
			if x.DatesFrom == of {
				tests[x.System] = append(tests[x.System], x)
			}
		}
		return tests
	}
	names := func(rows []score.Coupling) (out []string) {
		for _, r := range rows {
			out = append(out, r.Test)
		}
		return out
	}
	all := []string{"jacobian", "r", "size_crps", "size_spread", "cross_pair"}
	for _, system := range []string{scoring.SystemMembers, "mbm"} {
		rows := found(trained.Scores, score.FromTraining)[system]
		if got := names(rows); !slices.Equal(got, all) {
			t.Errorf("training tests %s by %q, want %q", system, got, all)
			continue
		}
		if j := rows[0]; j.Passed || j.Value != 4*3 || j.N != 3 || j.Members != 4 {
			t.Errorf("%s: each of 4 members is made of all: %+v", system, j)
		}
	}
	if _, tested := found(trained.Scores, score.FromTraining)["emos"]; tested {
		t.Error("emos makes no members")
	}
	predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test",
		Publish: config.Publishing{Products: []string{config.MeanProduct, config.SpreadProduct, config.MembersProduct}}})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	if got := found(verified.Scores, score.FromTraining)[scoring.SystemMembers]; !slices.EqualFunc(got, found(trained.Scores, score.FromTraining)[scoring.SystemMembers], func(a, b score.Coupling) bool { return a.Test == b.Test && a.Value-b.Value < 1e-9 }) {
		t.Errorf("the training's tests became %+v", got)
	}
	own := found(verified.Scores, score.FromProducts)
	if got := names(own[scoring.SystemMembers]); !slices.Equal(got, []string{"r"}) {
		t.Errorf("products are tested by %q, want r", got)
	}
	r := found(trained.Scores, score.FromTraining)[scoring.SystemMembers][1]
	if d := math.Abs(float64(own[scoring.SystemMembers][0].Value - r.Value)); !(d < 1e-3*float64(r.Value)) {
		t.Errorf("R is %g of the products, %g of the training", own[scoring.SystemMembers][0].Value, r.Value)
	}
	if got := names(own["mbm"]); !slices.Equal(got, all) {
		t.Errorf("verification tests mbm by %q", got)
	}
	if v := verified.Scores.Find("crps_fair", scoring.SystemMembers, "t", "850hPa", "48h"); v == nil || v.Members != 4 {
		t.Errorf("fair CRPS of the members: %+v", v)
	}
}
