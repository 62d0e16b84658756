//go:build long

package run

import "testing"

// Attention along axes takes the same steps on parts of the fields and of the batch as on whole ones.
func TestLongAxialOnParts(t *testing.T) {
	axial := []string{"model.kind=axial_transformer", "model.base=8", "model.axial.window=3"}
	lossesOnParts(t, twoLeads(append(axial, "model.conditions=[lead]", "train.mesh=data:2 lat:2")...), twoLeads(append(axial, "train.mesh=lon:3")...),
		trajectories(append(axial, "train.loss.fairness=cross_pair", "train.mesh=lat:2 lon:2")...))
}
