package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// maxShown limits the faults of one kind, and the warnings, in the text.
const maxShown = 8

// Sections returns the inventory as tables, then the faults by kind.
func (r *Result) Sections() answer.Sections {
	all := answer.Sections{{Text: []string{fmt.Sprintf("%d files, %d messages: %d used, %d unused; %d fields", r.Files, r.Messages, r.Used, r.Unused, r.Fields)}}, r.variables()}
	if len(r.Members) > 0 {
		all = append(all, r.members())
	}
	for _, kind := range input.FaultKinds {
		var lines []string
		n := 0
		for _, f := range r.Faults {
			if f.Kind != kind {
				continue
			}
			if n++; n > maxShown {
				continue
			}
			lines = append(lines, "  "+f.What)
			for _, part := range []struct{ name, text string }{{"at", f.At}, {"why", f.Why}, {"fix", f.Fix}} {
				if part.text != "" {
					lines = append(lines, "    "+part.name+": "+part.text)
				}
			}
		}
		if n > 0 {
			all = append(all, counted(string(kind), n, lines))
		}
	}
	if r.WarningCount > 0 {
		var lines []string
		for _, f := range r.Warnings[:min(len(r.Warnings), maxShown)] {
			lines = append(lines, fmt.Sprintf("  %s", f.Warning()))
		}
		all = append(all, counted("warnings", r.WarningCount, lines))
	}
	return append(all, answer.Section{Text: []string{r.conclusion()}})
}

// variables returns a table of the variables.
func (r *Result) variables() answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("variable", "product", "unit", "levels"), answer.NumberColumns("", "inits", "fields", "missing", "infinite"), answer.NumberColumns("%.6g", "min", "mean", "max"))}
	for _, v := range r.Variables {
		s.Rows = append(s.Rows, []any{v.Variable, v.Product, v.Unit, short(v.Levels), v.Inits, v.Fields, v.Missing, v.Infinite, v.Min, v.Mean, v.Max})
	}
	return s
}

// members returns a table of the members by lead.
func (r *Result) members() answer.Section {
	s := answer.Section{Text: []string{"fields by member and lead:"}, Columns: append(answer.TextColumns("members"), answer.NumberColumns("", r.Leads...)...)}
	for _, m := range r.Members {
		row := []any{m.Members}
		for _, n := range m.Fields {
			row = append(row, n)
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// counted returns a section with the first lines of n things.
func counted(name string, n int, lines []string) answer.Section {
	s := answer.Section{Text: append([]string{fmt.Sprintf("%s: %d", name, n)}, lines...)}
	if more := n - maxShown; more > 0 {
		s.Text = append(s.Text, fmt.Sprintf("  … %d more; --json lists them", more))
	}
	return s
}

// conclusion states how train and predict would end.
func (r *Result) conclusion() string {
	if r.FaultCount == 0 {
		return "no fault found"
	}
	of := map[exit.Code]int{}
	for _, f := range r.Faults {
		of[f.Code]++
	}
	var ends []string
	for _, c := range exit.All {
		if of[c.Code] > 0 {
			ends = append(ends, fmt.Sprintf("%d (%s)", c.Code, c.Meaning))
		}
	}
	return fmt.Sprintf("%s; train and predict would exit with %s", humanise.Count(r.FaultCount, "fault"), strings.Join(ends, " or "))
}

// short joins a few words, or abbreviates many.
func short(words []string) string {
	if len(words) > 6 {
		return fmt.Sprintf("%s … %s (%d)", words[0], words[len(words)-1], len(words))
	}
	return strings.Join(words, ",")
}
