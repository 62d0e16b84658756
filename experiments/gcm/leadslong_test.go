//go:build long

package gcm

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// TestLongSeveralLeads trains three networks once each: the U-Net of leads.yaml, whose leads are channels, a U-Net
// of as many parameters whose leads are batch items, and one with ConvLSTM cells. It checks on 1984 the results
// that README.md states for three seeds: leads as batch items are better for temperature and its spread at both
// leads, with significance, and ConvLSTM cells do not improve on them.
func TestLongSeveralLeads(t *testing.T) {
	data := testdata.Dir(t, "gcm")
	testdecoder.Path(t)
	const conditions = "model.conditions=[lead,day_of_year]"
	src := config.Sources{Files: []string{"leads.yaml"}, Set: []string{fmt.Sprintf("data.forecasts=[%s/gcm_fc_*.grib2]", data), fmt.Sprintf("data.analyses=[%s/gcm_an_*.nc]", data)}}
	e, err := experiment.RunStudy(context.Background(), experiment.StudyOptions{Config: src, Dir: filepath.Join(t.TempDir(), "leads"), Reference: "rows", Version: "test", Variants: []experiment.Variant{
		{Name: "rows", Set: []string{"model.lead_axis=batch", conditions}},
		{Name: "channels"},
		{Name: "cells", Set: []string{"model.kind=conv_lstm", "model.base=7", "model.recurrent.hidden=10", conditions}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, r := range e.Rows {
		t.Logf("%s %s %s %s: %s %.4f %s, over rows %.2f %% [%.2f, %.2f]", r.Variant, r.Variable, r.Level, r.Lead, r.Score, float64(r.Value), r.Unit,
			100*float64(r.SkillScoreReference), 100*float64(r.SkillScoreReferenceLow), 100*float64(r.SkillScoreReferenceHigh))
		switch {
		case r.Variable != "t":
			continue
		case r.Variant == "channels" && !(r.SkillScoreReferenceHigh < 0):
			t.Errorf("channels are not worse than rows: %+v", r)
		case r.Variant == "cells" && !(r.SkillScoreReference < 0.005):
			t.Errorf("cells are better than rows: %+v", r)
		}
		if r.Variant == "channels" && (r.Score == score.CRPSGauss.ID || r.Score == score.SpreadRMSE.ID) {
			compared++
		}
	}
	if compared != 8 {
		t.Errorf("%d rows of temperature, want 8", compared)
	}
}
