package jobs

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// A training whose layers share half of their parameters resumes to the same bits. Its model stores the
// shared parameters and reproduces the predictions of the trained network. Exports are plain networks.
func TestSharedParameters(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, "train.networks=1", "train.epochs=2", "train.ema=0.5", "model.share.budget=50%", "model.share.groups=one", "baselines=[climatology]")
	runDir := traintest.CheckResume(t, c, 5)
	dir := filepath.Join(runDir, "model")
	_, doc, err := model.LoadDescription(dir)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Sharing == nil || doc.Sharing.Stored != (doc.Sharing.Filters+1)/2 || doc.Sharing.Unshared != 0 {
		t.Errorf("%+v", doc.Sharing)
	}
	stored, _, err := ckpt.ReadFile(filepath.Join(dir, "weights-00.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(stored, func(x ckpt.Tensor) bool { return x.Name == "share.all.store" && x.Shape[1] == doc.Sharing.Stored }) {
		t.Error("the file of weights has no store")
	}
	fc := samplestest.FirstValidationInit(t, c)
	var forecasts []*model.Forecast
	for _, asTrained := range []bool{true, false} {
		m, err := model.Load(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		if m.Spec.SharesParameters() {
			t.Error("a model that was loaded shares parameters")
		}
		if asTrained {
			m.Spec.Sharing, m.Networks[0] = doc.Spec.Sharing, exchange.SelectWeights(stored)
		}
		out, err := m.Predict(context.Background(), network.Options(1, ""), fc, m.Task.UsedMembers)
		if err != nil {
			t.Fatal(err)
		}
		forecasts = append(forecasts, out)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range forecasts[0].Sigma {
		if math.Abs(float64(forecasts[1].Sigma[i]/v-1)) > 1e-6 || math.Abs(float64(forecasts[1].Mean[i]/forecasts[0].Mean[i]-1)) > 1e-6 {
			t.Fatalf("value %d: N(%v, %v) by the network that was trained, N(%v, %v) by the one that was loaded", i, forecasts[0].Mean[i], v, forecasts[1].Mean[i], forecasts[1].Sigma[i])
		}
	}
	exported := filepath.Join(t.TempDir(), "exported")
	if _, err := exchange.Export(context.Background(), exchange.ExportOptions{RunDir: runDir, Out: exported, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	r, err := exchange.Import(context.Background(), exchange.ImportOptions{Weights: filepath.Join(exported, "network-00.safetensors"), Out: t.TempDir(), Threads: 1, Version: "test"})
	if err != nil || r.Difference == nil || r.Network.Base != 2 {
		t.Errorf("the exported network is read as %+v, %v", r, err)
	}
}
