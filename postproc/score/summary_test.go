package score

import (
	"strings"
	"testing"
)

// A summary has one row for each system, with its most informative score and the skill score of the first system relative to it.
func TestSummary(t *testing.T) {
	number := func(id, system string, members int, v float64) Value {
		return Value{ID: id, System: system, Members: members, Variable: "t", Level: "850hPa", Lead: "48h", Value: Number(v), N: 9, Unit: "K", Region: Everywhere, Season: AllYear}
	}
	r := Result{Bootstrap: Bootstrap{Confidence: 0.95}, Scores: []Value{
		number("crps_family", "network", 5, 0.6), number("rmse", "network", 5, 1.2), number("spread_skill", "network", 5, 1.01), number("spread_rmse", "network", 5, 0.2),
		number("crps_gauss", "raw5", 5, 0.85), number("crps_plain", "raw5", 5, 0.9), number("crps_fair", "raw5", 5, 0.8),
		number("crps_gauss", "climatology", 0, 2), number("spread_rmse", "affine", 5, 0.3),
	}}
	part := number("crps_family", "network", 5, 0.7)
	part.Region = "tropics"
	r.Scores = append(r.Scores, part)
	for _, c := range []struct {
		ref, id string
		gain    float64
	}{{"raw5", "crps_gauss", 0.29}, {"raw5", "crps_plain", 0.333}, {"climatology", "crps_gauss", 0.7}} {
		r.Comparisons = append(r.Comparisons, Comparison{ID: "crps_family", System: "network", Reference: c.ref, ReferenceID: c.id, Variable: "t", Level: "850hPa", Lead: "48h",
			SkillScore: Number(c.gain), CILow: Number(c.gain - 0.1), CIHigh: Number(c.gain + 0.1), Region: Everywhere, Season: AllYear})
	}
	r.Calibration = []Calibration{{System: "network", Variable: "t", Level: "850hPa", Lead: "48h", Region: Everywhere, Season: AllYear, Text: "The PIT histogram is flat."}}
	var b strings.Builder
	if err := r.Summary().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `t 850hPa +48h, 9 dates
system       members   value  unit  score          rmse  spread / error  skill of network  95 % low   high
network            5  0.6000  K     crps_family  1.2000          1.0100
raw5               5  0.9000  K     crps_plain        -               -           33.30 %     23.30  43.30
climatology        -  2.0000  K     crps_gauss        -               -           70.00 %     60.00  80.00
  network: The PIT histogram is flat.

value: value of the score in its unit; smaller is better (docs/verification.md)
spread / error: spread-skill ratio; 1 is calibrated, below 1 overconfident, above 1 underconfident
skill of network: skill score, 1 - its value / value of this row; low and high are its 95 % confidence interval
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
