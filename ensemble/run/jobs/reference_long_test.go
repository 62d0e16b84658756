//go:build long

package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// A training with a reference, on two shards of the fields, resumes to the same bits.
func TestLongReferenceResumes(t *testing.T) {
	traintest.CheckResume(t, demotest.Config(t, demotest.Files(t), "model.reference=emos_grid", "model.cross_fit.folds=4", "model.cross_fit.gap=0h", "data.split.fractions.train=0.8",
		"data.split.fractions.validation=0.05", "train.networks=1", "train.epochs=2", "train.mesh=lat:2"), 5)
}
