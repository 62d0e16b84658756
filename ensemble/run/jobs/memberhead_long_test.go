//go:build long

package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// As TestNetworksOfMembersOnParts, with every loss of members and every axis of meshes.
func TestLongNetworksOfMembersOnParts(t *testing.T) {
	traintest.LossesOnParts(t, runtest.Giving("train.loss.kind=crps", "data.members.least=3", "train.mesh=lat:2"),
		runtest.Giving("train.loss.kind=crps_members", "train.loss.fairness=plain", "train.mesh=data:2"),
		runtest.Giving("train.loss.kind=crps_members", "train.loss.fairness=fair", "train.mesh=lon:3"),
		runtest.Giving("train.loss.kind=crps_members", "train.mesh=level:2 lon:2"),
		runtest.Giving("model.kind=poet", "train.loss.kind=crps", "train.mesh=lat:2"),
		runtest.Giving("model.kind=poet", "model.attention=axial", "train.loss.kind=crps_members", "train.loss.scales=[4, 2]", "train.mesh=lat:2 lon:2"),
		runtest.Giving("model.kind=ens_transformer", "model.attention=point", "train.loss.kind=crps_members", "train.mesh=lon:3"),
		runtest.Encoding("model.pool=mean", "train.mesh=level:2"), runtest.Encoding("model.pool=attention", "model.encoder.channels=8", "train.mesh=lat:2"), runtest.Encoding("model.pool=min_max", "train.mesh=data:2 lat:2"))
}
