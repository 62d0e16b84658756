package run

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestTrainPrecision: a model that was trained in bfloat16 predicts in it, unless
// asked for float32.
func TestTrainPrecision(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	_, err := Train(context.Background(), TrainOptions{RunDir: dir, Version: "test",
		Config: quick(t, smallData(t), "train.precision=bf16", "train.networks=1", "train.epochs=1", "model.base=16")})
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
		o := engineOptions(1, "")
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
}
