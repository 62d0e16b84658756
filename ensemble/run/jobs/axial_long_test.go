//go:build long

package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// Axial attention takes the same training steps on shards of fields and batches as on complete ones.
func TestLongAxialOnParts(t *testing.T) {
	axial := []string{"model.kind=axial_transformer", "model.base=8", "model.axial.window=3"}
	traintest.CheckLossesOnMeshes(t, runtest.TwoLeads(append(axial, "model.conditions=[lead]", "train.mesh=data:2 lat:2")...), runtest.TwoLeads(append(axial, "train.mesh=lon:3")...),
		runtest.Trajectories(append(axial, "train.loss.fairness=cross_pair", "train.mesh=lat:2 lon:2")...))
}
