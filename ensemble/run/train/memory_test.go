package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// TestTrainInLessMemory checks that a training in the least memory ends with the weights of an unlimited one;
// less memory is refused before the first step, with a remedy. So does one that copies activations to a file.
func TestTrainInLessMemory(t *testing.T) {
	f := demotest.Files(t)
	train := func(memory string, more ...string) (string, error) {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), Options{Config: demotest.Config(t, f, append(more, "train.memory="+memory, "train.networks=1", "train.epochs=2", "model.stages=2")...), RunDir: dir, Version: "test"})
		return dir, err
	}
	free, err := train("0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = train("1B")
	var small *pass.MemoryLimitError
	if exit.CodeOf(err) != exit.NoDevice || !errors.As(err, &small) {
		t.Fatalf("training in one byte: error %v", err)
	}
	if !strings.Contains(err.Error(), "at: train.memory") || !strings.Contains(err.Error(), fmt.Sprintf("set train.memory: %dMiB or more", setup.CeilMiB(small.Smallest)>>20)) {
		t.Errorf("training in one byte: %v", err)
	}
	if _, err := train(fmt.Sprintf("%dB", small.Smallest-1)); exit.CodeOf(err) != exit.NoDevice {
		t.Errorf("one byte less than %d: error %v", small.Smallest, err)
	}
	least := fmt.Sprintf("%dB", small.Smallest)
	tight, err := train(least)
	if err != nil {
		t.Fatal(err)
	}
	compareWeights(t, tight, free)
	folder := t.TempDir()
	if _, err := train(least, "train.offload_folder="+filepath.Join(folder, "absent")); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("activations to a folder that is absent: error %v", err)
	}
	if filesystem.IsInMemory(folder) {
		return
	}
	copied, err := train(least, "train.offload_folder="+folder)
	if err != nil {
		t.Fatal(err)
	}
	compareWeights(t, copied, free)
}

// compareWeights checks that two run directories have the same weights.
func compareWeights(t *testing.T, got, want string) {
	t.Helper()
	g, w := runtest.ModelFiles(t, got), runtest.ModelFiles(t, want)
	n := 0
	for name := range w {
		if strings.HasSuffix(name, ".safetensors") {
			n++
			if !bytes.Equal(g[name], w[name]) {
				t.Errorf("%s differs", name)
			}
		}
	}
	if n == 0 {
		t.Errorf("no weights among %d files", len(w))
	}
}
