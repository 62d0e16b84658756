package train_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
)

// Wherever a training is suspended while it publishes a checkpoint, its model, its scores or a record, no other process can take its
// run directory over, also if it replaces another run.
func TestPublishedWithinLease(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, "train.networks=1", "train.epochs=3", "train.checkpoint.every=3 steps", "train.checkpoint.keep=2", "baselines=[climatology]")
	dir := filepath.Join(t.TempDir(), "run")
	for _, overwrite := range []bool{false, true} {
		rundirtest.CheckPublished(t, dir, func() {
			_, err := train.Run(context.Background(), train.Options{Config: c, RunDir: dir, Version: "test", Overwrite: overwrite})
			runtest.Must(t, err)
		})
	}
}
