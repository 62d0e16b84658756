package run

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// validationStart is the first one of a configuration.
func validationStart(t *testing.T, c *config.TrainConfig) *ensemble.Forecast {
	t.Helper()
	forecasts, analyses, err := trainingFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readData(context.Background(), c, forecasts, analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	next := d.validation.stream(context.Background(), nil)
	defer next.Close()
	fc, _, err := next.next()
	if err != nil {
		t.Fatal(err)
	}
	return fc
}

// A training whose layers share half of their parameters resumes to the same bits; its model keeps stores, and predicts with
// filters that are built of them what the trained network says. What is exported are plain networks.
func TestSharedParameters(t *testing.T) {
	f := smallData(t)
	c := quick(t, f, "train.networks=1", "train.epochs=2", "train.ema=0.5", "model.share.budget=50%", "model.share.groups=one", "baselines=[climatology]")
	runDir := resumesToTheSameBits(t, c, 5)
	dir := filepath.Join(runDir, "model")
	_, doc, err := model.LoadReference(dir)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Format != 11 || doc.Sharing == nil || doc.Sharing.Stored != (doc.Sharing.Filters+1)/2 || doc.Sharing.Own != 0 {
		t.Errorf("format %d, %+v", doc.Format, doc.Sharing)
	}
	stored, _, err := ckpt.ReadFile(filepath.Join(dir, "weights-00.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(stored, func(x ckpt.Tensor) bool { return x.Name == "share.all.store" && x.Shape[1] == doc.Sharing.Stored }) {
		t.Error("the file of weights has no store")
	}
	fc := validationStart(t, c)
	var said []*model.Forecast
	for _, asTrained := range []bool{true, false} {
		m, err := model.Load(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		if m.Spec.Shares() {
			t.Error("a model that was loaded shares parameters")
		}
		if asTrained {
			m.Spec.Share, m.Networks[0] = doc.Spec.Share, exchange.Weights(stored)
		}
		out, err := m.Predict(context.Background(), model.Options(1, ""), fc, m.Task.Used)
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, out)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range said[0].Sigma {
		if math.Abs(float64(said[1].Sigma[i]/v-1)) > 1e-6 || math.Abs(float64(said[1].Mean[i]/said[0].Mean[i]-1)) > 1e-6 {
			t.Fatalf("value %d: N(%v, %v) by the network that was trained, N(%v, %v) by the one that was loaded", i, said[0].Mean[i], v, said[1].Mean[i], said[1].Sigma[i])
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

// With all parameters, one template and no trained coefficients a training is that of the network itself, bit for bit.
func TestSharingAllIsTheNetworkItself(t *testing.T) {
	f := smallData(t)
	var weights []model.Weights
	for _, more := range [][]string{nil, {"model.share.budget=100%", "model.share.groups=one", "model.share.coefficients=average", "model.share.templates=1"}} {
		dir := filepath.Join(t.TempDir(), "run")
		c := quick(t, f, append(more, "train.networks=1", "train.epochs=2", "data.split.fractions.validation=0.3", "baselines=[climatology]")...)
		if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: dir, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, m.Networks[0])
	}
	for _, w := range weights[0] {
		at := slices.IndexFunc(weights[1], func(x ckpt.Tensor) bool { return x.Name == w.Name })
		if at < 0 || !slices.Equal(w.Data.([]float32), weights[1][at].Data.([]float32)) {
			t.Errorf("%s differs", w.Name)
		}
	}
	if len(weights[0]) != len(weights[1]) {
		t.Errorf("%d tensors, want %d", len(weights[1]), len(weights[0]))
	}
}

func TestParametersThatCannotBeShared(t *testing.T) {
	c := quick(t, smallData(t), "model.share.budget=50%") // no two filters of this small network have one shape
	_, err := Train(context.Background(), TrainOptions{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "groups by shape share nothing") || !strings.Contains(err.Error(), "set model.share.groups: one") {
		t.Errorf("%v", err)
	}
}
