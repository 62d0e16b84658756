package train_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// A globe whose columns the poolings do not divide is trained with the same losses on ranks that part its longitudes.
func TestPaddedGlobeOnRanks(t *testing.T) {
	traintest.CheckLossesOnMeshes(t, []string{"train.networks=1", "data.grid.to=12deg", "model.stages=2", "train.mesh=lon:2"})
}
