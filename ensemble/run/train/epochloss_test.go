package train_test

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// The loss of an epoch event is the mean over the samples of that epoch alone: that of its steps, if all batches are full.
func TestLossOfEachEpoch(t *testing.T) {
	dir := traintest.Train(t, demotest.Config(t, demotest.Files(t), append(runtest.ShortTraining, "train.networks=1", "train.epochs=3", "train.batch_size=1")...))
	all, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	sum, steps, epochs := 0.0, 0, 0
	for _, e := range all {
		loss, _ := e.Number("loss")
		switch e.Kind {
		case "step":
			sum, steps = sum+loss, steps+1
		case "epoch":
			if want := sum / float64(steps); !(math.Abs(loss-want) <= 1e-6*math.Abs(want)) {
				t.Errorf("epoch %d: loss %v, the mean of its %d steps is %v", e.Epoch, loss, steps, want)
			}
			sum, steps, epochs = 0, 0, epochs+1
		}
	}
	if epochs != 3 {
		t.Errorf("%d epochs, want 3", epochs)
	}
}
