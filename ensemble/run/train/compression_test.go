package train_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// compressed are the settings of a short training in which most gradients are sparse.
func compressed(set ...string) []string {
	return append([]string{"model.base=16", "train.networks=1", "train.epochs=2", "train.mesh=data:2", "train.compression.density=0.02"}, set...)
}

// With density 1 two data ranks whose gradients are summed train with the bits of dense sums. Epochs count the bytes that were sent.
func TestCompressionOfDensityOne(t *testing.T) {
	f := demotest.Files(t)
	dense := traintest.Train(t, demotest.Config(t, f, compressed()[:4]...))
	one := traintest.Train(t, demotest.Config(t, f, compressed("train.compression.density=1", "train.compression.sums=gradients")...))
	runtest.SameModels(t, "density 1", runtest.ModelFiles(t, dense), runtest.ModelFiles(t, one))
	sparse := traintest.Train(t, demotest.Config(t, f, compressed()...))
	for _, c := range []struct {
		dir   string
		ratio float64 // at most, of bytes sent
	}{{dense, 1}, {sparse, 0.35}} {
		for _, e := range runtest.Epochs(t, c.dir) {
			sent, _ := e.Values["gradient_sent_bytes"].(float64)
			all, _ := e.Values["gradient_dense_bytes"].(float64)
			if sent <= 0 || sent > c.ratio*all {
				t.Errorf("%s: %g of %g bytes sent", filepath.Base(c.dir), sent, all)
			}
		}
	}
}

// A training that is stopped and resumed has the bits of one that is not, with all options, at any step; pruned weights too.
func TestCompressionResumes(t *testing.T) { checkCompressionResumes(t, 1) }

// checkCompressionResumes takes n cases, which the seed selects.
func checkCompressionResumes(t *testing.T, n int) {
	f := demotest.Files(t)
	for _, set := range testseed.Some(t, [][]string{
		{"train.compression.values=bf16", "train.compression.warmup=2", "train.ema=0.9"},
		{"train.compression.sums=gradients"},
		{"train.optimizer=sgd", "train.compression.momentum=0.9", "train.compression.clip=1", "train.mesh=data:2 lat:2"},
		{"prune.method=magnitude", "prune.target=0.5", "prune.from=0%", "prune.every=1"},
	}, n) {
		traintest.CheckResume(t, demotest.Config(t, f, compressed(set...)...), 1, 3)
	}
}

// Any number of processes trains with the same bits.
func TestCompressionOnProcesses(t *testing.T) {
	traintest.CheckProcessCounts(t, []traintest.ProcessCounts{{Mesh: "data:4", Processes: [][]int{{2, 1, 3}}, Overrides: []string{"model.base=16", "train.compression.density=0.02"}}})
}

// What cannot be combined with sparse sums is refused before fields are read, with the nearest setting that works.
func TestCompressionRefusals(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct{ set, fix string }{
		{"train.mesh=lat:2", "train.mesh=data:2"},
		{"train.mesh=auto", "train.mesh=data:2"},
	} {
		_, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, compressed(c.set)...), RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), c.fix) {
			t.Errorf("%s: error %v, want exit 64 with %q", c.set, err, c.fix)
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	stop := func() error { return &exit.Error{Code: exit.SaveAndStop, What: "stopped"} }
	steps := 0
	_, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, compressed()...), RunDir: dir, Version: "test", Stop: func() error {
		if steps++; steps > 4 {
			return stop()
		}
		return nil
	}})
	if exit.CodeOf(err) != exit.SaveAndStop {
		t.Fatal(err)
	}
	_, err = train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, compressed("train.mesh=data:4")...), RunDir: dir, Version: "test", Resume: "auto"})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), "train.mesh=data:2") {
		t.Errorf("resumed on another mesh: error %v, want exit 64 with the former mesh", err)
	}
}

// A training that diverges ends with the error of dense sums.
func TestCompressionDiverges(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), compressed("train.optimizer=sgd", "train.learning_rate=1e30", "train.clip=0")...)
	_, err := train.Run(context.Background(), train.Options{Config: c, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
	if exit.CodeOf(err) != exit.No || !strings.Contains(fmt.Sprint(err), "not finite at step") {
		t.Errorf("error %v, want exit 1", err)
	}
}
