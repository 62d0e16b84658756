package train_test

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Epoch events have the noise scale if steps accumulate batches, and none otherwise.
func TestNoiseScaleEvents(t *testing.T) {
	f := demotest.Files(t)
	scales := func(set ...string) (found []float64) {
		t.Helper()
		dir := traintest.Train(t, demotest.Config(t, f, append(set, "train.networks=1", "train.epochs=4", "train.learning_rate=0.01", "model.dropout=0")...))
		events, err := rundir.ReadEvents(dir)
		runtest.Must(t, err)
		for _, e := range events {
			if v, ok := e.Number("noise_scale"); ok && e.Kind == "epoch" {
				found = append(found, v)
			}
		}
		return found
	}
	found := scales("train.batch_size=2", "train.accumulate=3")
	if len(found) == 0 {
		t.Error("no epoch has a noise scale")
	}
	for _, v := range found {
		if !(v > 0) || math.IsInf(v, 0) {
			t.Errorf("noise scales %v", found)
		}
	}
	if found := scales("train.batch_size=4"); found != nil {
		t.Errorf("noise scales %v without accumulated batches", found)
	}
}
