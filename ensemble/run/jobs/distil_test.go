package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// A training with a teacher resumes to the same bits, with fixed and with random members.
func TestDistillationResumes(t *testing.T) {
	teacher := traintest.Train(t, demotest.Config(t, demotest.Files(t), "baselines=[climatology]", "train.epochs=1", "train.networks=1", "data.split.fractions.validation=0.3")) // of which no start is left for the test
	for _, sampling := range []string{"random", "fixed"} {
		traintest.CheckResume(t, demotest.Config(t, demotest.Files(t), "train.networks=1", "train.epochs=2", "model.base=1", "train.ema=0.5", "baselines=[climatology]", "data.members.sampling="+sampling,
			"data.split.fractions.validation=0.3", "teacher.runs=["+teacher+"]", "teacher.weight=0.7"), 5)
	}
}
