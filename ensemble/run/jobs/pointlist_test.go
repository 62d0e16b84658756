package jobs

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// Pointwise and two-dimensional networks, with a reference and with learned and auxiliary input fields, train
// on shards, are exported, and reproduce their scores in prediction without the auxiliary file. The model's
// reference equals the baseline that it is compared with, bit by bit.
func TestNetworkBaselines(t *testing.T) {
	f := demotest.Files(t)
	auxiliary := runtest.FirstMessage(t, f.GRIB2[0])
	for _, c := range []struct {
		kind string
		set  []string
	}{
		{"drn", []string{"model.embedding=2", "data.auxiliary.files=[" + auxiliary + "]", "data.auxiliary.variables=[gh]", "train.mesh=lat:2 lon:2",
			"model.reference=emos_grid", "baselines=[emos_grid]", "model.cross_fit.folds=4", "model.cross_fit.gap=0h", "data.split.fractions.train=0.8",
			"data.split.fractions.validation=0.05"}},
		{"unet2d", []string{"model.embedding=1", "train.mesh=data:2"}},
	} {
		cfg := demotest.Config(t, f, append(c.set, "model.kind="+c.kind, "train.networks=1", "train.epochs=1")...)
		runDir := filepath.Join(t.TempDir(), c.kind)
		if _, err := train.Run(context.Background(), train.Options{Config: cfg, RunDir: runDir, Version: "test"}); err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		if err := os.Rename(auxiliary, auxiliary+".away"); err != nil {
			t.Fatal(err)
		}
		predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: t.TempDir(), Formats: []product.Format{product.NetCDF}, Version: "test"})
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		if err := os.Rename(auxiliary+".away", auxiliary); err != nil {
			t.Fatal(err)
		}
		verified, err := verify.Run(context.Background(), verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		trained, err := trained.ReadScores(runDir)
		if err != nil {
			t.Fatal(err)
		}
		a, b := trained.Find("crps_gauss", "network", "t", "850hPa", "48h"), verified.Scores.Find("crps_gauss", "network", "t", "850hPa", "48h")
		if a == nil || b == nil || math.Abs(float64(a.Value-b.Value)) > 1e-5*float64(a.Value) {
			t.Errorf("%s: CRPS %+v from training, %+v from the products", c.kind, a, b)
		}
		e, err := exchange.Export(context.Background(), exchange.ExportOptions{RunDir: runDir, Out: t.TempDir(), Threads: 1, Version: "test"})
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		m, err := model.Load(filepath.Join(runDir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		names := runtest.Exported(t, e.Out).Inputs
		if e.Network.Channels != len(names) || c.kind == "drn" && !slices.Equal(names[len(names)-3:], []string{"sigma of t by emos_grid", "maps.embedding 0", "maps.embedding 1"}) {
			t.Errorf("%s: %d channels, %q", c.kind, e.Network.Channels, names)
		}
		if c.kind != "drn" {
			continue
		}
		// The model's reference is the baseline that it is compared with, bit for bit.
		raw := baseline.Raw{Valid: m.Trained.To.AddDate(0, 1, 0), Mean: m.Task.Centre[0], Std: m.Task.Width[0]}
		at := slices.IndexFunc(m.Baselines[0].Fits, func(b task.Baseline) bool { return b.Method.ID == "emos_grid" })
		got, want := m.Task.Reference().Fits[0].Forecast(raw), m.Baselines[0].Fits[at].Fit.Forecast(raw)
		if len(got[0]) != m.Grid.Size() || !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
			t.Errorf("the model corrects N(%g, %g) at its first point, the baseline is N(%g, %g)", got[0][0], got[1][0], want[0][0], want[1][0])
		}
		if err := os.Remove(filepath.Join(runDir, "model", task.ReferenceFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := model.Load(filepath.Join(runDir, "model"), false); exit.CodeOf(err) != exit.BadData {
			t.Errorf("a model without its reference: %v, want exit 65", err)
		}
	}
}
