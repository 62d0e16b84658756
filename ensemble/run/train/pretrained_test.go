package train

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A training with pretrained weights starts with them: at a learning rate near zero it ends with them.
// Tensors that the file lacks are random; a different shape is an error.
func TestPretrainedWeights(t *testing.T) {
	f := demotest.Files(t)
	dir := t.TempDir()
	first := filepath.Join(dir, "first")
	if _, err := Run(context.Background(), Options{Config: demotest.Config(t, f, "train.epochs=1", "train.networks=1"), RunDir: first, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(first, "model", "weights-00.safetensors")
	still := []string{"train.epochs=1", "train.networks=1", "train.learning_rate=1e-20", "train.seed=7"}
	train := func(name string, start ...ckpt.Tensor) (map[string]ckpt.Tensor, error) {
		t.Helper()
		file := filepath.Join(dir, name+".safetensors")
		if err := ckpt.WriteFile(file, start, nil); err != nil {
			t.Fatal(err)
		}
		run := filepath.Join(dir, name)
		if _, err := Run(context.Background(), Options{Config: demotest.Config(t, f, append(still, "model.pretrained="+file)...), RunDir: run, Version: "test"}); err != nil {
			return nil, err
		}
		out := map[string]ckpt.Tensor{}
		for _, x := range runtest.ReadTensors(t, filepath.Join(run, "model", "weights-00.safetensors")) {
			out[x.Name] = x
		}
		return out, nil
	}
	given := runtest.ReadTensors(t, path)
	const left = "enc_conv1.weight"
	got, err := train("most", slices.DeleteFunc(slices.Clone(given), func(x ckpt.Tensor) bool { return x.Name == left })...)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range given {
		same := slices.Equal(got[x.Name].Data.([]float32), x.Data.([]float32))
		if same != (x.Name != left) {
			t.Errorf("%s: equal to the weights of the start: %v", x.Name, same)
		}
	}
	at := slices.IndexFunc(given, func(x ckpt.Tensor) bool { return x.Name == "dec_conv0.bias" })
	n := given[at].Shape[0]
	given[at].Shape, given[at].Data = []int{n + 1}, make([]float32, n+1)
	if _, err := train("shape", given...); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), `"dec_conv0.bias"`) || !strings.Contains(err.Error(), "shape is [4], that of the network [3]") {
		t.Errorf("another shape: %v", err)
	}
	if _, err := train("foreign", ckpt.Tensor{Name: "fc", Shape: []int{1}, Data: []float32{1}}); exit.CodeOf(err) != exit.BadData {
		t.Errorf("no name in common: %v", err)
	}
	c := demotest.Config(t, f, append(still, "model.pretrained="+filepath.Join(dir, "none"))...)
	if _, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(dir, "none-run"), Version: "test"}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no such file: %v", err)
	}
}
