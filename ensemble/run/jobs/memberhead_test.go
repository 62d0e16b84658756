package jobs

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// A network that outputs members: training scores them, prediction publishes them under the numbers of the
// raw members with their statistics, and verification of the products reproduces the scores. Members that are
// corrected independently pass the Jacobian test.
func TestNetworkOfMembers(t *testing.T) {
	f := demotest.Files(t)
	runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
	c := demotest.Config(t, f, runtest.MemberOutput("train.loss.kind=crps_members", "train.loss.fairness=cross_pair")...)
	trained, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	publish := config.Publishing{Products: []string{config.MeanProduct, config.SpreadProduct, config.MembersProduct, config.QuantilesProduct, config.ProbabilitiesProduct},
		Quantiles: []float64{0.5}, Probabilities: []ensemble.VariableEvent{{VariableAt: ensemble.VariableAt{Variable: "t"}, Event: ensemble.Event{Relation: ensemble.Above, Lower: 280}}}}
	predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test", Publish: publish})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	for system, ids := range map[string][]string{scoring.SystemNetwork: {"crps_gauss", "rmse"}, scoring.SystemMembers: {"crps_plain", "crps_fair"}} {
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
	i := slices.IndexFunc(trained.Scores.Coupling, func(x score.Coupling) bool { return x.System == scoring.SystemMembers && x.Test == "jacobian" })
	if i < 0 || !trained.Scores.Coupling[i].Passed {
		t.Errorf("members that are corrected one by one: %+v", trained.Scores.Coupling)
	}
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	got := predictOf(t, runDir, fc, predict.Options{Publish: publish})
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
	exchanged := predictOf(t, runDir, runtest.WithMembers(fc, fc.Members, from...), predict.Options{Publish: publish})
	for m, was := range from {
		if !runtest.EqualBits(exchanged[fc.Members[m].String()], got[fc.Members[was].String()]) {
			t.Errorf("member %s is not what member %s was", fc.Members[m], fc.Members[was])
		}
	}
	if !runtest.EqualBits(exchanged["mean"], got["mean"]) {
		t.Error("the mean is another one")
	}
}

// Networks of members take the same steps on shards of fields and batches as on complete ones, also with
// varying numbers of members.
func TestNetworksOfMembersOnParts(t *testing.T) {
	traintest.CheckLossesOnMeshes(t, runtest.MemberOutput("model.kind=poet", "train.loss.kind=crps_members", "train.loss.fairness=cross_pair", "train.mesh=data:2 lat:2"), runtest.MemberInput("data.members.minimum=2", "train.mesh=lon:3"),
		append(noisyMembers, "model.encoder.noise=anew", "train.mesh=level:2"))
}

// Networks with attention between members are distinguished from those without. Exchanged members give the
// same results bit by bit.
func TestAvailableMembersAreFlagged(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, runtest.MemberOutput("model.kind=poet", "train.learning_rate=0.03", "train.loss.kind=crps_members", "train.loss.fairness=fair", "train.loss.scales=[2]")...)
	trained, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(trained.Scores.Coupling, func(x score.Coupling) bool { return x.System == scoring.SystemMembers && x.Test == "jacobian" })
	if i < 0 || trained.Scores.Coupling[i].Passed || trained.Scores.Coupling[i].Value != 4*3 {
		t.Errorf("members that attend to each other: %+v", trained.Scores.Coupling)
	}
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	got := predictOf(t, runDir, fc, predict.Options{})
	from := []int{2, 0, 3, 1}
	exchanged := predictOf(t, runDir, runtest.WithMembers(fc, fc.Members, from...), predict.Options{})
	for m, was := range from {
		if !runtest.EqualBits(exchanged[fc.Members[m].String()], got[fc.Members[was].String()]) {
			t.Errorf("member %s is not what member %s was", fc.Members[m], fc.Members[was])
		}
	}
}
