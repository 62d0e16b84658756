package train_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// TestTrainingPrefetches checks that caching, prefetching and stops within an epoch change no bit of a
// training. A training with memory for all samples reads the store once, before its first step.
func TestTrainingPrefetches(t *testing.T) {
	f := demotest.Files(t)
	dir := samplestest.PrepareStore(t, demotest.Config(t, f), "f32")
	n := runtest.InitBytes(t, dir)
	config := append(runtest.ShortTraining, "data.store="+dir, "train.batch_size=3")
	whole := traintest.CheckResume(t, demotest.Config(t, f, append(config, "data.memory=1B", "data.prefetch=2")...), 3, 7)
	want := runtest.ModelFiles(t, whole)
	for _, c := range []struct {
		name         string
		set          []string
		reads, cache func(reads float64) bool // of an epoch
	}{
		{"in memory", nil, func(n float64) bool { return n == 0 }, func(n float64) bool { return n == 0 }},
		{"in memory and on disk", []string{fmt.Sprintf("data.memory=%dB", 6*n), "data.disk_cache.folder=" + t.TempDir(), fmt.Sprintf("data.disk_cache.size=%dB", 6*n), "data.prefetch=1", "data.direct_io=true"},
			func(n float64) bool { return n > 0 && n < 10 }, func(n float64) bool { return n > 0 }},
	} {
		runDir := filepath.Join(t.TempDir(), "run")
		r, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, append(config, c.set...)...), RunDir: runDir, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		runtest.SameModels(t, c.name, want, runtest.ModelFiles(t, runDir))
		for _, e := range runtest.Epochs(t, runDir) {
			store, _ := e.Number("file_system_reads")
			cache, _ := e.Number("disk_cache_reads")
			if _, ok := e.Number("input_waited_s"); !ok || len(e.Values) < 12 {
				t.Errorf("%s: an epoch has %v", c.name, e.Values)
			}
			if e.Epoch == 2 && !(c.reads(store) && c.cache(cache)) {
				t.Errorf("%s: %v reads from the store, %v from the disk cache in an epoch", c.name, store, cache)
			}
		}
		if in := r.Input; c.set == nil && (in.FileSystem.Reads != 20 || in.Share <= 0 || in.Share >= 1) {
			t.Errorf("%s: %+v, want each of 20 samples read once", c.name, in)
		}
	}
}
