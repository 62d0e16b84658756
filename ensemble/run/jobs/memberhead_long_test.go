//go:build long

package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// TestLongNetworksOfMembersOnParts runs TestNetworksOfMembersOnParts with every loss of members and every
// mesh axis.
func TestLongNetworksOfMembersOnParts(t *testing.T) {
	traintest.CheckLossesOnMeshes(t, runtest.MemberOutput("train.loss.kind=crps", "data.members.minimum=3", "train.mesh=lat:2"),
		runtest.MemberOutput("train.loss.kind=crps_members", "train.loss.fairness=plain", "train.mesh=data:2"),
		runtest.MemberOutput("train.loss.kind=crps_members", "train.loss.fairness=fair", "train.mesh=lon:3"),
		runtest.MemberOutput("train.loss.kind=crps_members", "train.mesh=level:2 lon:2"),
		runtest.MemberOutput("model.kind=poet", "train.loss.kind=crps", "train.mesh=lat:2"),
		runtest.MemberOutput("model.kind=poet", "model.attention=axial", "train.loss.kind=crps_members", "train.loss.scales=[4, 2]", "train.mesh=lat:2 lon:2"),
		runtest.MemberOutput("model.kind=ens_transformer", "model.attention=point", "train.loss.kind=crps_members", "train.mesh=lon:3"),
		runtest.MemberInput("model.pool=mean", "train.mesh=level:2"), runtest.MemberInput("model.pool=attention", "model.encoder.channels=8", "train.mesh=lat:2"), runtest.MemberInput("model.pool=min_max", "train.mesh=data:2 lat:2"))
}
