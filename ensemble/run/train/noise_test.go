package train_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Epoch events have the noise scale if steps accumulate batches or data ranks sum gradients, and none otherwise.
func TestNoiseScaleEvents(t *testing.T) {
	f := demotest.Files(t)
	scales := func(epochs int, set ...string) (found []float64) {
		t.Helper()
		dir := traintest.Train(t, demotest.Config(t, f, append(set, "train.networks=1", fmt.Sprint("train.epochs=", epochs), "train.learning_rate=0.01", "model.dropout=0")...))
		events, err := rundir.ReadEvents(dir)
		runtest.Must(t, err)
		for _, e := range events {
			if v, ok := e.Number("noise_scale"); ok && e.Kind == "epoch" {
				found = append(found, v)
			}
		}
		return found
	}
	for _, set := range [][]string{{"train.batch_size=2", "train.accumulate=3"}, {"train.batch_size=6", "train.mesh=data:3"}} {
		found := scales(4, set...)
		if len(found) == 0 {
			t.Errorf("%v: no epoch has a noise scale", set)
		}
		for _, v := range found {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Errorf("%v: noise scales %v", set, found)
			}
		}
	}
	for _, set := range [][]string{{"train.batch_size=4"}, {"train.batch_size=4", "train.mesh=lat:2"}, {"train.batch_size=5", "train.mesh=data:2"}} {
		if found := scales(1, set...); found != nil {
			t.Errorf("%v: noise scales %v", set, found)
		}
	}
}
