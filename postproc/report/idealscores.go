package report

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// idealScoreNames are the yardsticks in words.
var idealScoreNames = map[string]string{
	"chance": "chance alone, if the members were right", "fair_raw": "raw members without end", "fair_unbiased": "those less local bias",
	"fair_calibrated": "those with the right spread too", "chance_calibrated": "chance alone, if those were right", "expected": "what the network expects of itself",
}

// idealScoreTables is a table of yardsticks under a sentence that sums them up; nil without any.
func idealScoreTables(all []score.IdealScore) []Table {
	if len(all) == 0 {
		return nil
	}
	t := Table{Columns: []string{"yardstick", "CRPS" + unitInBrackets(unit(all[0].Unit)), "interval", "network over it", "interval"}}
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
	network := all[0].CRPS * all[0].Ratio
	t.Title = fmt.Sprintf("The network reaches a CRPS of %s.", figures(float64(network)))
	if y, ok := by["chance"]; ok {
		t.Title += fmt.Sprintf(" If the members of %s were right and without end, %s of it would be chance that no forecast avoids.", y.Reference, share(1/float64(y.Ratio)))
	}
	if y, ok := by["fair_calibrated"]; ok {
		verdict := "as much as"
		if y.RatioHigh < 1 {
			verdict = "less than"
		} else if y.RatioLow > 1 {
			verdict = "more than"
		}
		t.Title += fmt.Sprintf(" That is %s the same members without end would score with local bias and spread put right (%s).", verdict, figures(float64(y.CRPS)))
	}
	if y, ok := by["expected"]; ok {
		verdict := "agrees with what it expects of itself"
		if y.RatioLow > 1 {
			verdict = "is more than it expects of itself: it is too sure, or biased"
		} else if y.RatioHigh < 1 {
			verdict = "is less than it expects of itself: its spread is too large"
		}
		t.Title += fmt.Sprintf(" It %s (%s).", verdict, figures(float64(y.CRPS)))
	}
	return []Table{t}
}

func unitInBrackets(unit string) string {
	if unit == "" {
		return ""
	}
	return " (" + unit + ")"
}
