package check

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/phrase"
)

// shownFaults bounds the faults of one kind, and the warnings, that the text shows.
const shownFaults = 8

// WriteText prints what there is as tables, then the faults by kind.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d files, %d messages: %d used, %d unused; %d fields\n\n", r.Files, r.Messages, r.Used, r.Unused, r.Fields)
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "VARIABLE\tPRODUCT\tUNIT\tLEVELS\tSTARTS\tFIELDS\tMISSING\tINFINITE\tMIN\tMEAN\tMAX")
	for _, v := range r.Variables {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", v.Variable, v.Product, v.Unit, short(v.Levels), v.Starts, v.Fields, v.Missing, v.Infinite,
			phrase.OrDash(v.Min), phrase.OrDash(v.Mean), phrase.OrDash(v.Max))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(r.Members) > 0 {
		b.WriteString("\nfields by member and lead:\n")
		fmt.Fprintln(tw, "MEMBERS\t"+strings.Join(r.Leads, "\t"))
		for _, m := range r.Members {
			fmt.Fprintf(tw, "%s\t%s\n", m.Members, strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Fields), " ", "\t"), "[]"))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, kind := range input.FaultKinds {
		var of []input.Fault
		for _, f := range r.Faults {
			if f.Kind == kind {
				of = append(of, f)
			}
		}
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %d\n", kind, len(of))
		for _, f := range of[:min(len(of), shownFaults)] {
			fmt.Fprintf(&b, "  %s\n", f.What)
			for _, part := range []struct{ name, text string }{{"at", f.At}, {"why", f.Why}, {"fix", f.Fix}} {
				if part.text != "" {
					fmt.Fprintf(&b, "    %s: %s\n", part.name, part.text)
				}
			}
		}
		if n := len(of) - shownFaults; n > 0 {
			fmt.Fprintf(&b, "  … %d more; --json lists them\n", n)
		}
	}
	if r.WarningCount > 0 {
		fmt.Fprintf(&b, "\nwarnings: %d\n", r.WarningCount)
		for _, f := range r.Warnings[:min(len(r.Warnings), shownFaults)] {
			fmt.Fprintf(&b, "  %s\n", f.Warning())
		}
		if n := r.WarningCount - shownFaults; n > 0 {
			fmt.Fprintf(&b, "  … %d more; --json lists them\n", n)
		}
	}
	switch {
	case r.FaultCount == 0:
		b.WriteString("\nno fault found\n")
	default:
		of := map[exit.Code]int{}
		for _, f := range r.Faults {
			of[f.Code]++
		}
		fmt.Fprintf(&b, "\n%s; train and predict would end with", phrase.Count(r.FaultCount, "fault"))
		sep := " "
		for _, c := range exit.All {
			if of[c.Code] > 0 {
				fmt.Fprintf(&b, "%s%d (%s)", sep, c.Code, c.Meaning)
				sep = " or "
			}
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, strings.Map(printable, b.String()))
	return err
}

// short lists a few words, or the ends of many.
func short(words []string) string {
	if len(words) > 6 {
		return fmt.Sprintf("%s … %s (%d)", words[0], words[len(words)-1], len(words))
	}
	return strings.Join(words, ",")
}
