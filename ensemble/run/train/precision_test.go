package train

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestTrainPrecision checks that a model trained in bfloat16 predicts in bfloat16 unless float32 is
// requested, and that one trained in float16 predicts in float32 on a processor, which refuses unavailable
// precisions.
func TestTrainPrecision(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), Options{RunDir: dir, Version: "test",
		Config: demotest.Config(t, demotest.Files(t), "train.precision=bf16", "train.networks=1", "train.epochs=1", "model.base=16")})
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for precision, want := range map[string]bool{"": true, "bf16": true, "f32": false} {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		o := network.Options(1, "")
		o.Precision = precision
		if err := m.Open(o); err != nil {
			t.Fatal(err)
		}
		half := slices.ContainsFunc(m.Network.Plan.Graph().Nodes, func(n *graph.Node) bool { return n.DType == graph.BFloat16 })
		if half != want {
			t.Errorf("asked for precision %q, values in bfloat16: %v, want %v", precision, half, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	for precision, want := range map[string]exit.Code{"": exit.OK, "tf32": exit.OK, "f16": exit.NoDevice} {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		m.Spec.Precision = "f16"
		o := network.Options(1, "")
		o.Precision = precision
		if err := m.Open(o); exit.CodeOf(err) != want {
			t.Errorf("a model of float16, asked for %q: %v", precision, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if names := slices.Sorted(slices.Values(config.Precisions)); !slices.Equal(names, engine.Precisions()) {
		t.Errorf("configurations know %q, the engine %q", names, engine.Precisions())
	}
}
