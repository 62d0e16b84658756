package run

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// giving is a quick training of a network that gives members.
func giving(set ...string) []string {
	return slices.Concat([]string{"model.head=members", "model.encoder.input=[field]", "train.loss.spread=0", "train.networks=1", "train.epochs=2", "data.members.use=4",
		"data.members.sampling=fixed", "baselines=[mbm]"}, set)
}

// A network that gives members: training scores them, prediction publishes them under the numbers
// of the raw ones, with the statistics of just these, and a verification of the products finds the
// scores of the training. Members that are corrected each by itself pass the Jacobian test.
func TestNetworkOfMembers(t *testing.T) {
	f := smallData(t)
	runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
	c := quick(t, f, giving("train.loss.kind=crps_members", "train.loss.fairness=cross_pair")...)
	trained, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	publish := config.Publishing{Products: []string{config.MeanProduct, config.SpreadProduct, config.MembersProduct, config.QuantilesProduct, config.ProbabilitiesProduct},
		Quantiles: []float64{0.5}, Probabilities: []ensemble.Question{{Variable: "t", Event: ensemble.Event{Relation: ensemble.Above, Lower: 280}}}}
	predicted, err := Predict(context.Background(), PredictOptions{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test", Publish: publish})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := Verify(context.Background(), VerifyOptions{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	for system, ids := range map[string][]string{SystemNetwork: {"crps_gauss", "rmse"}, systemMembers: {"crps_plain", "crps_fair"}} {
		for _, id := range ids {
			a, b := trained.Scores.Find(id, system, "t", "850hPa", "48h"), verified.Scores.Find(id, system, "t", "850hPa", "48h")
			if a == nil || b == nil || !(math.Abs(float64(a.Value-b.Value)) < 1e-5*float64(a.Value)) {
				t.Errorf("%s of %s: %+v from training, %+v from the products", id, system, a, b)
			}
		}
	}
	if _, err := exchange.Export(context.Background(), exchange.ExportOptions{RunDir: runDir, Out: t.TempDir(), Threads: 1, Version: "test"}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("an export: %v", err)
	}
	i := slices.IndexFunc(trained.Scores.Coupling, func(x score.Coupling) bool { return x.System == systemMembers && x.Test == "jacobian" })
	if i < 0 || !trained.Scores.Coupling[i].Passed {
		t.Errorf("members that are corrected one by one: %+v", trained.Scores.Coupling)
	}
	fc := startWithMembers(t, c, f.NetCDF[17])
	got := predictOf(t, runDir, fc, PredictOptions{Publish: publish})
	x := make([]float64, len(fc.Members))
	for p := range got["mean"] {
		above := 0
		for m, id := range fc.Members {
			x[m] = float64(got[id.String()][p])
			if x[m] > 280 {
				above++
			}
		}
		mean, std := ensemble.MeanSpread(x, 1)
		slices.Sort(x)
		for kind, want := range map[string]float64{"mean": mean, "spread": std, "0.5": (x[1] + x[2]) / 2, "above 280": float64(above) / 4} {
			if d := math.Abs(float64(got[kind][p]) - want); !(d < 1e-4) {
				t.Fatalf("point %d: %s is %g, of the members %v %g", p, kind, got[kind][p], x, want)
			}
		}
	}
	// Exchanged members are corrected as before, and keep their numbers.
	from := []int{2, 0, 3, 1}
	exchanged := predictOf(t, runDir, with(fc, fc.Members, from...), PredictOptions{Publish: publish})
	for m, was := range from {
		if !equalBits(exchanged[fc.Members[m].String()], got[fc.Members[was].String()]) {
			t.Errorf("member %s is not what member %s was", fc.Members[m], fc.Members[was])
		}
	}
	if !equalBits(exchanged["mean"], got["mean"]) {
		t.Error("the mean is another one")
	}
}

// Networks of members take the same steps on parts of the fields and of the batch as on whole ones,
// also where numbers of members differ.
func TestNetworksOfMembersOnParts(t *testing.T) {
	lossesOnParts(t, giving("model.kind=poet", "train.loss.kind=crps_members", "train.loss.fairness=cross_pair", "train.mesh=data:2 lat:2"), encoding("data.members.least=2", "train.mesh=lon:3"))
}

// lossesOnParts compares the losses of trainings on meshes with those on one rank.
func lossesOnParts(t *testing.T, trainings ...[]string) {
	t.Helper()
	f := smallData(t)
	for i, set := range trainings {
		var first []float64
		for _, mesh := range []string{"auto", ""} {
			runDir := filepath.Join(t.TempDir(), "run")
			c := quick(t, f, append(set, "train.epochs=1", "model.dropout=0", "baselines=[emos]", "data.split.fractions.train=0.4", "data.split.fractions.validation=0.5")...)
			if mesh != "" {
				c.Train.Train.Mesh = mesh
			}
			if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test"}); err != nil {
				t.Fatalf("%q %s: %v", set, mesh, err)
			}
			got := losses(t, runDir)
			if mesh == "auto" {
				first = got
			}
			for k := range first {
				if !(math.Abs(got[k]-first[k]) < 1e-4*math.Abs(first[k])) {
					t.Errorf("case %d, step %d: loss %v, on one part %v", i, k+1, got[k], first[k])
				}
			}
		}
	}
}

// Members that attend to each other are told from those that do not, and those exchanged with each
// other are corrected as before, bit by bit.
func TestAttendingMembersAreFlagged(t *testing.T) {
	f := smallData(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := quick(t, f, giving("model.kind=poet", "train.learning_rate=0.03", "train.loss.kind=crps_members", "train.loss.fairness=fair", "train.loss.scales=[2]")...)
	trained, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(trained.Scores.Coupling, func(x score.Coupling) bool { return x.System == systemMembers && x.Test == "jacobian" })
	if i < 0 || trained.Scores.Coupling[i].Passed || trained.Scores.Coupling[i].Value != 4*3 {
		t.Errorf("members that attend to each other: %+v", trained.Scores.Coupling)
	}
	fc := startWithMembers(t, c, f.NetCDF[17])
	got := predictOf(t, runDir, fc, PredictOptions{})
	from := []int{2, 0, 3, 1}
	exchanged := predictOf(t, runDir, with(fc, fc.Members, from...), PredictOptions{})
	for m, was := range from {
		if !equalBits(exchanged[fc.Members[m].String()], got[fc.Members[was].String()]) {
			t.Errorf("member %s is not what member %s was", fc.Members[m], fc.Members[was])
		}
	}
}

// Quantiles of members by the definition of type 8, and probabilities as shares.
func TestMemberStatistics(t *testing.T) {
	members := [][]float32{{3, 1}, {1, float32(math.NaN())}, {2, 2}, {5, 3}}
	for _, c := range []struct {
		name     string
		quantile bool
		level    float64
		event    ensemble.Event
		want     float64
	}{
		{"median", true, 0.5, ensemble.Event{}, 2.5},
		{"level of the second of four", true, (2 - 1./3) / (4 + 1./3), ensemble.Event{}, 2},
		{"between the third and the fourth", true, (3.25 - 1./3) / (4 + 1./3), ensemble.Event{}, 3.5},
		{"below all", true, 0.01, ensemble.Event{}, 1},
		{"above all", true, 0.99, ensemble.Event{}, 5},
		{"share above", false, 0, ensemble.Event{Relation: ensemble.Above, Lower: 2}, 0.5},
		{"share below", false, 0, ensemble.Event{Relation: ensemble.Below, Upper: 2}, 0.25},
		{"share between", false, 0, ensemble.Event{Relation: ensemble.Between, Lower: 1, Upper: 5}, 0.5},
	} {
		got := memberStatistic(members, c.quantile, c.level, c.event)
		if d := math.Abs(float64(got[0]) - c.want); !(d < 1e-6) || got[1] == got[1] {
			t.Errorf("%s: %v, want %g and NaN", c.name, got, c.want)
		}
	}
}
