//go:build long

package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

func TestLongRanksShareParameters(t *testing.T) {
	traintest.CheckLossesOnMeshes(t, []string{"train.networks=1", "train.epochs=1", "model.share.budget=40%", "model.share.groups=one", "model.share.coefficients=embedding", "baselines=[climatology]", "train.mesh=data:2 lat:2"})
}
