package train

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
)

// TestTrainFromStore checks that a training from a store in float32 gives the weights, statistics and scores
// of a training from files, bit by bit.
func TestTrainFromStore(t *testing.T) {
	f := demotest.Files(t)
	set := []string{"train.networks=1", "train.epochs=2"}
	dir := samplestest.PrepareStore(t, demotest.Config(t, f, set...), "f32")
	var made []map[string][]byte
	for _, more := range []string{"", "data.store=" + dir} {
		s := set
		if more != "" {
			s = append(slices.Clone(set), more)
		}
		run := filepath.Join(t.TempDir(), "run")
		if _, err := Run(context.Background(), Options{Config: demotest.Config(t, f, s...), RunDir: run, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		files := runtest.ModelFiles(t, run)
		scores, err := os.ReadFile(filepath.Join(run, "scores.json"))
		if err != nil {
			t.Fatal(err)
		}
		files["scores"] = scores
		made = append(made, files)
	}
	for name, want := range made[0] {
		if !bytes.Equal(made[1][name], want) {
			t.Errorf("%s differs", name)
		}
	}
}
