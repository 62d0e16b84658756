package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// The page compares a network with idealised ensembles, interprets its histograms, and has skill
// scores for unusual weather; verdicts follow the intervals.
func TestIdealScores(t *testing.T) {
	ideal := func(id, reference string, crps, ratio, low, high score.Number) score.IdealScore {
		return score.IdealScore{ID: id, System: "network", Reference: reference, Variable: "t", Level: "850hPa", Lead: "96h", Unit: "K", CRPS: crps, CILow: crps, CIHigh: crps,
			Ratio: ratio, RatioLow: low, RatioHigh: high, Region: score.Everywhere, Season: score.AllYear}
	}
	r := &score.Result{
		Scores: []score.Value{{ID: "crps_gauss", System: "network", Variable: "t", Level: "850hPa", Lead: "96h", Value: 0.8, Unit: "K", N: 30}},
		Comparisons: []score.Comparison{
			{ID: "crps_gauss", System: "network", Reference: "raw10", Variable: "t", Level: "850hPa", Lead: "96h", SkillScore: 0.2, CILow: 0.1, CIHigh: 0.3},
			{ID: "crps_gauss", System: "network", Reference: "raw10", Variable: "t", Level: "850hPa", Lead: "96h", SkillScore: 0.31, CILow: 0.1, CIHigh: 0.4, Region: score.LargestEFI, Season: score.AllYear}},
		IdealScores: []score.IdealScore{ideal("perfect_model", "raw10", 0.4, 2, 1.9, 2.1), ideal("fair_calibrated", "raw10", 1, 0.8, 0.7, 0.9), ideal("expected", "network", 0.8, 1, 0.98, 1.03)},
		Calibration: []score.Calibration{{System: "network", Variable: "t", Level: "850hPa", Lead: "96h", Text: "The PIT histogram is flat."},
			{System: "network", Variable: "t", Level: "850hPa", Lead: "96h", Season: "DJF", Text: "In winter it is not."}},
	}
	var b bytes.Buffer
	if err := (&Page{Title: "x", Scores: r}).Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CRPS of idealised ensembles", "a CRPS of 0.8000.", "would still have 50\u202f% of this CRPS", "is below that of an infinite raw ensemble", "agrees with its expected CRPS",
		"What the histograms show", "The PIT histogram is flat.", "Skill scores for unusual weather", "31.0\u202f%"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(b.String(), "In winter") {
		t.Error("the season is in the list for the whole year")
	}
	for want, y := range map[string]score.IdealScore{"is above its expected CRPS (": ideal("expected", "network", 1, 1.1, 1.05, 1.2), "is below its expected CRPS (": ideal("expected", "network", 1, 0.9, 0.8, 0.95),
		"Members of raw10 would score 2.225 against one of them": ideal("perfect_model", "raw10", 2.225, 0.36, 0.3, 0.4),
		"above that of an infinite raw ensemble":                 ideal("fair_calibrated", "raw10", 1, 1.1, 1.05, 1.2)} {
		if got := idealScoreTables([]score.IdealScore{y}, r); !strings.Contains(got[0].Title, want) {
			t.Errorf("%q lacks %q", got[0].Title, want)
		}
	}
	if idealScoreTables(nil, r) != nil {
		t.Error("a table of nothing")
	}
}
