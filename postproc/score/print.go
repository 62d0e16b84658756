package score

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/internal/phrase"
)

// Fprint writes the result as tables for people: a block for each target, region and season, a
// row for each score and system; then the comparisons, what a gain is made of, what the best
// possible is, and what histograms show over the whole area.
func (r *Result) Fprint(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	confidence := strconv.FormatFloat(100*r.Bootstrap.Confidence, 'g', -1, 64) + " %"
	last := ""
	for _, v := range r.Scores {
		if head := target(v.Variable, v.Level, v.Lead, v.Region, v.Season); head != last {
			if last != "" {
				fmt.Fprintln(t)
			}
			fmt.Fprintf(t, "%s, %s, weights %s, %d points missing\n", head, phrase.Count(v.N, "date"), v.Weights, v.Missing)
			fmt.Fprintf(t, "score\tsystem\tmembers\tvalue\t%s low\thigh\tunit\t\n", confidence)
			last = head
		}
		members := "-"
		if v.Members > 0 {
			members = strconv.Itoa(v.Members)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", v.ID, v.System, members, digits(v.Value), digits(v.CILow), digits(v.CIHigh), v.Unit)
	}
	if len(r.Comparisons) > 0 {
		fmt.Fprintf(t, "\ngain\tsystem\tover\ttarget\t%%\t%s low\thigh\t\n", confidence)
	}
	for _, c := range r.Comparisons {
		ref := c.Reference
		if c.ReferenceID != c.ID {
			ref += " (" + c.ReferenceID + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", c.ID, c.System, ref, target(c.Variable, c.Level, c.Lead, c.Region, c.Season),
			percent(c.Gain), percent(c.CILow), percent(c.CIHigh))
	}
	if len(r.Shares) > 0 {
		fmt.Fprintf(t, "\nshare of gain\tsystem\tover\ttarget\t%%\t%s low\thigh\tCRPS\t\n", confidence)
	}
	for _, s := range r.Shares {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Part, s.System, s.Reference+" ("+s.ReferenceID+")", target(s.Variable, s.Level, s.Lead, s.Region, s.Season),
			percent(s.Gain), percent(s.CILow), percent(s.CIHigh), digits(s.CRPS))
	}
	if len(r.Yardsticks) > 0 {
		fmt.Fprintf(t, "\nyardstick\tof\ttarget\tCRPS\t%s low\thigh\tsystem over it\tlow\thigh\t\n", confidence)
	}
	for _, y := range r.Yardsticks {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", y.ID, y.Reference, target(y.Variable, y.Level, y.Lead, y.Region, y.Season),
			digits(y.CRPS), digits(y.CILow), digits(y.CIHigh), digits(y.Ratio), digits(y.RatioLow), digits(y.RatioHigh))
	}
	r.printCoupling(t, confidence)
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.explainCoupling(w); err != nil {
		return err
	}
	last = ""
	for _, c := range r.Calibration {
		if !Whole(c.Region, c.Season) {
			continue
		}
		if head := target(c.Variable, c.Level, c.Lead, "", ""); head != last {
			last = head
			if _, err := fmt.Fprintf(w, "\n%s\n", head); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "  %s: %s\n", c.System, c.Text); err != nil {
			return err
		}
	}
	return nil
}

// target names what scores are of, with the part of the area and of the year if it is a part.
func target(variable, level, lead, region, season string) string {
	name := variable + " " + level + " +" + lead
	for _, part := range []struct{ is, all string }{{region, Everywhere}, {season, AllYear}} {
		if part.is != "" && part.is != part.all {
			name += ", " + part.is
		}
	}
	return name
}

// digits shows four decimals below 10 and five digits above, missing numbers as "-".
func digits(n Number) string {
	v := float64(n)
	if math.IsNaN(v) {
		return "-"
	}
	if a := math.Abs(v); a == 0 || a >= 1e-3 && a < 1e5 {
		return strconv.FormatFloat(v, 'f', max(0, 4-int(math.Floor(math.Log10(max(a, 1))))), 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

func percent(n Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return strconv.FormatFloat(100*float64(n), 'f', 2, 64)
}
