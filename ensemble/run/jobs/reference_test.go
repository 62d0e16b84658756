package jobs

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Every baseline with a normal distribution can be the reference, if it reads no more members than the network.
func TestReferencesAreTheNormalBaselines(t *testing.T) {
	var ids []string
	for _, m := range baseline.Methods {
		if m.Family == dist.Normal && m.Predictors != baseline.FullMomentPredictors {
			ids = append(ids, m.ID)
		}
	}
	if !slices.Equal(ids, config.References) {
		t.Errorf("the schema has %q, the methods are %q", config.References, ids)
	}
}
