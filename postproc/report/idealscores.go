package report

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// idealScoreNames maps the idealised ensembles to names for display. Package postproc/skill defines them.
var idealScoreNames = map[string]string{
	"perfect_model": "perfect ensemble of raw members", "fair_raw": "infinite raw ensemble", "fair_unbiased": "infinite raw ensemble without local bias",
	"fair_calibrated": "infinite raw ensemble without local bias, with corrected spread", "perfect_model_calibrated": "perfect ensemble of corrected members", "expected": "expected CRPS of the network",
}

// idealScoreTables is the table of idealised ensembles, with a summary as title; nil without any.
//
// The summary states the CRPS of the network, the share of it that a perfect ensemble would
// still have, and the comparison with calibrated raw members and with the expected CRPS. The share is
// the part that no calibration of these members can remove. If the network scores less than the perfect
// ensemble, the members are not an ideal, usually because their spread is too large; the summary
// states this instead of a share above 100 %.
//
// The CRPS has the unit of the variable, ratios have none. Intervals are those of the bootstrap.
func idealScoreTables(all []score.IdealScore, r *score.Result) []Table {
	if len(all) == 0 {
		return nil
	}
	t := Table{Columns: []string{"idealised ensemble", "CRPS" + unitInBrackets(unit(all[0].Unit)), "interval", "network / ideal", "interval"}}
	by := map[string]score.IdealScore{}
	for _, y := range all {
		by[y.ID] = y
		name := idealScoreNames[y.ID]
		if name == "" {
			name = y.ID
		}
		t.Rows = append(t.Rows, []string{name, figures(float64(y.CRPS)), interval(float64(y.CILow), float64(y.CIHigh), 1), figures(float64(y.Ratio)),
			interval(float64(y.RatioLow), float64(y.RatioHigh), 1)})
	}
	// The CRPS of the network is the same in all rows: ideal score times ratio.
	network := all[0].CRPS * all[0].Ratio
	t.Title = fmt.Sprintf("The network has a CRPS of %s.", figures(float64(network)))
	if y, ok := by["perfect_model"]; ok && y.Ratio < 1 {
		what := "Members"
		if r.VerdictOf(y.Reference, y.Variable, y.Level, y.Lead).Dispersion == "too_large" {
			what = "Overdispersive members"
		}
		t.Title += fmt.Sprintf(" %s of %s would score %s against one of them, more than the network against the reference, which is no ideal.", what, y.Reference, figures(float64(y.CRPS)))
	} else if ok {
		t.Title += fmt.Sprintf(" An infinite, perfectly calibrated ensemble of members like those of %s would still have %s of this CRPS.", y.Reference, share(1/float64(y.Ratio)))
	}
	// A ratio whose interval does not contain 1 is significant.
	if y, ok := by["fair_calibrated"]; ok {
		verdict := "not significantly different from"
		if y.RatioHigh < 1 {
			verdict = "below"
		} else if y.RatioLow > 1 {
			verdict = "above"
		}
		t.Title += fmt.Sprintf(" The CRPS of the network is %s that of an infinite raw ensemble with corrected local bias and spread (%s).", verdict, figures(float64(y.CRPS)))
	}
	if y, ok := by["expected"]; ok {
		verdict := r.VerdictOf(y.System, y.Variable, y.Level, y.Lead)
		t.Title += fmt.Sprintf(" It %s (%s).", verdict.OnExpected(score.Measured{Value: float64(y.Ratio), Low: float64(y.RatioLow), High: float64(y.RatioHigh)}), figures(float64(y.CRPS)))
	}
	return []Table{t}
}

// unitInBrackets is a unit in brackets after a space; "" for none.
func unitInBrackets(unit string) string {
	if unit == "" {
		return ""
	}
	return " (" + unit + ")"
}
