//go:build long

package run

import "testing"

func TestLongRanksShareParameters(t *testing.T) {
	lossesOnParts(t, []string{"train.networks=1", "train.epochs=1", "model.share.budget=40%", "model.share.groups=one", "model.share.coefficients=embedding", "baselines=[climatology]", "train.mesh=data:2 lat:2"})
}
