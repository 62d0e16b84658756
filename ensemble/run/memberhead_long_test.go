//go:build long

package run

import "testing"

// As TestNetworksOfMembersOnParts, with every loss of members and every axis of meshes.
func TestLongNetworksOfMembersOnParts(t *testing.T) {
	lossesOnParts(t, giving("train.loss.kind=crps", "data.members.least=3", "train.mesh=lat:2"),
		giving("train.loss.kind=crps_members", "train.loss.fairness=plain", "train.mesh=data:2"),
		giving("train.loss.kind=crps_members", "train.loss.fairness=fair", "train.mesh=lon:3"),
		giving("train.loss.kind=crps_members", "train.mesh=level:2 lon:2"),
		giving("model.kind=poet", "train.loss.kind=crps", "train.mesh=lat:2"),
		giving("model.kind=poet", "model.attention=axial", "train.loss.kind=crps_members", "train.loss.scales=[4, 2]", "train.mesh=lat:2 lon:2"),
		giving("model.kind=ens_transformer", "model.attention=point", "train.loss.kind=crps_members", "train.mesh=lon:3"),
		encoding("model.pool=mean", "train.mesh=level:2"), encoding("model.pool=attention", "model.encoder.channels=8", "train.mesh=lat:2"), encoding("model.pool=min_max", "train.mesh=data:2 lat:2"))
}
