package jobs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// An export can be read as a published network, contains a reference output and the trained weights, and
// lists all inputs of the network.
func TestExport(t *testing.T) {
	runDir, out := traintest.TrainedRun(t), filepath.Join(t.TempDir(), "out")
	o := exchange.ExportOptions{RunDir: runDir, Out: out, Threads: 1, Version: "test"}
	r, err := exchange.Export(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	doc := runtest.Exported(t, out)
	if len(doc.Inputs) != m.Task.Features.Channels() || len(doc.Outputs) != r.Network.Outputs || !slices.Contains(doc.Outputs, "shift of "+m.Task.Targets[0].Variable) {
		t.Errorf("inputs %q, outputs %q", doc.Inputs, doc.Outputs)
	}
	if doc.Model == nil || doc.Model.Task.Features.DDOF != m.Task.Features.DDOF || doc.Model.Control != m.Control || doc.Network.Periodic != m.Spec.Periodic {
		t.Errorf("described as %+v", doc)
	}
	if len(doc.Weights) != len(m.Networks) || len(doc.Maps) != len(m.Networks) || len(r.Outputs) != 2*len(m.Networks)+2 {
		t.Fatalf("files %q", r.Outputs)
	}
	for i, w := range m.Networks {
		imported, err := exchange.Import(context.Background(), exchange.ImportOptions{Weights: filepath.Join(out, doc.Weights[i]), Out: t.TempDir(), Threads: 1, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if imported.Difference == nil || imported.Network.Parameters != doc.Network.Parameters || imported.Network.Base != m.Spec.Base {
			t.Errorf("imported as %+v", imported)
		}
		net := exchange.SelectWeights(runtest.ReadTensors(t, filepath.Join(out, doc.Weights[i])))
		all := append(slices.Clone(net), runtest.ReadTensors(t, filepath.Join(out, doc.Maps[i]))...)
		if len(all) != len(w) {
			t.Errorf("%d tensors of %d", len(all), len(w))
		}
		for _, have := range all {
			at := slices.IndexFunc(w, func(x ckpt.Tensor) bool { return x.Name == have.Name })
			if at < 0 || !slices.Equal(have.Shape, w[at].Shape) || !slices.Equal(have.Data.([]float32), w[at].Data.([]float32)) {
				t.Errorf("tensor %s differs from the training's", have.Name)
			}
		}
		if slices.ContainsFunc(net, func(x ckpt.Tensor) bool { return strings.HasPrefix(x.Name, unet3d.MapsPrefix) }) {
			t.Error("maps among the published names")
		}
	}

	if _, err := exchange.Export(context.Background(), o); err != nil {
		t.Errorf("a second time: %v", err)
	}
	o.Overwrite = "never"
	if _, err := exchange.Export(context.Background(), o); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("never to be replaced: %v", err)
	}
	o.RunDir = t.TempDir()
	if _, err := exchange.Export(context.Background(), o); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no training: %v", err)
	}
}
