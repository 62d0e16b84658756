package train_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// A training that draws noise in each epoch ends with the same bits when it is stopped within an epoch and between two, and resumed.
func TestDrawsOfNoiseResume(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), runtest.MemberOutput("model.encoder.input=[field, noise]", "model.encoder.noise=anew", "train.loss.kind=crps_members", "train.networks=2", "train.epochs=2", "train.batch_size=4")...)
	traintest.CheckResume(t, c, 2, 3, 5)
}
