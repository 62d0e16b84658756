package score

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/internal/phrase"
)

// Summarise writes what one wants to know first, over the whole area and year: a block for each target, a row for each
// system with its CRPS (that of its distribution, of raw members the plain one; where the
// first system gives a spread only, the error of spreads), its error and its spread over it, and what the first system gains over it; then what the first
// system's histogram shows; at the end what the columns mean. Fprint has the rest.
func (r *Result) Summarise(w io.Writer) error {
	confidence := strconv.FormatFloat(100*r.Bootstrap.Confidence, 'g', -1, 64) + " %"
	type key struct{ variable, level, lead string }
	compared := "" // with the others
	var targets []key
	for _, v := range r.Scores {
		if k := (key{v.Variable, v.Level, v.Lead}); Whole(v.Region, v.Season) && !slices.Contains(targets, k) {
			targets = append(targets, k)
		}
	}
	for i, k := range targets {
		if i > 0 {
			fmt.Fprintln(w)
		}
		var rows []Value // of each system the score that says most
		for _, v := range r.Scores {
			if (key{v.Variable, v.Level, v.Lead}) != k || !Whole(v.Region, v.Season) || telling(v) == 0 {
				continue
			}
			at := slices.IndexFunc(rows, func(o Value) bool { return o.System == v.System })
			if at < 0 {
				rows = append(rows, v)
			} else if telling(v) > telling(rows[at]) {
				rows[at] = v
			}
		}
		if len(rows) == 0 {
			continue
		}
		if telling(rows[0]) > ofSpread { // a spread's error is no CRPS
			rows = slices.DeleteFunc(rows, func(v Value) bool { return telling(v) == ofSpread })
		}
		first := rows[0].System
		fmt.Fprintf(w, "%s, %s\n", target(k.variable, k.level, k.lead, "", ""), phrase.Count(rows[0].N, "date"))
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "system\tmembers\tvalue\tunit\tscore\trmse\tspread over error\tgain of %s\t%s low\thigh\t\n", first, confidence)
		for _, v := range rows {
			other := func(id string) string {
				if o := r.Find(id, v.System, v.Variable, v.Level, v.Lead); o != nil {
					return digits(o.Value)
				}
				return "-"
			}
			gain, low, high := "", "", ""
			for _, c := range r.Comparisons {
				if c.ID == rows[0].ID && c.System == first && c.Reference == v.System && c.ReferenceID == v.ID && (key{c.Variable, c.Level, c.Lead}) == k &&
					Whole(c.Region, c.Season) {
					gain, low, high = percent(c.Gain)+" %", percent(c.CILow), percent(c.CIHigh)
				}
			}
			members := "-"
			if v.Members > 0 {
				members = strconv.Itoa(v.Members)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", v.System, members, digits(v.Value), v.Unit, v.ID, other(RMSE.ID), other(SpreadSkill.ID), gain, low, high)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, c := range r.Calibration {
			if c.System == first && (key{c.Variable, c.Level, c.Lead}) == k && Whole(c.Region, c.Season) {
				if _, err := fmt.Fprintf(w, "  %s: %s\n", c.System, c.Text); err != nil {
					return err
				}
			}
		}
		compared = first
	}
	if compared == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, `
value: what the score gives, in its unit; smaller is better (docs/scores.md)
spread over error: 1 is right; below it forecasts are too sure of themselves, above it not sure enough
gain of %s: how much smaller its value is; low and high hold it with %s confidence
`, compared, confidence)
	return err
}

// ofSpread is what telling says of the error of a spread.
const ofSpread = 1

// telling ranks the scores of a summary: 0 is none of it.
func telling(v Value) int {
	return 1 + slices.Index([]string{SpreadRMSE.ID, CRPSGauss.ID, CRPSPlain.ID, CRPSFamily.ID}, v.ID)
}
