package retention

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Sections lists what was or would be removed, and what stays although it is old.
func (r *Result) Sections() answer.Sections {
	var out answer.Sections
	table := func(title string, list []Init, columns ...answer.Column) {
		s := answer.Section{Text: []string{title}, Columns: slices.Concat(answer.TextColumns("initialisation"), []answer.Column{answer.NumberColumn("size", "(MB)", "%.1f")}, columns)}
		for _, i := range list {
			row := []any{i.Name, float64(i.Bytes) / 1e6}
			if len(columns) > 0 {
				row = append(row, i.Why)
			}
			s.Rows = append(s.Rows, row)
		}
		out = append(out, s)
	}
	verb := "would be removed"
	if r.Removed {
		verb = "removed"
	}
	if len(r.Pruned) > 0 {
		table(verb+":", r.Pruned)
	}
	if len(r.Held) > 0 {
		table("old, but they stay:", r.Held, answer.TextColumns("why")...)
	}
	last := answer.Section{Text: []string{fmt.Sprintf("%s %s, %.1f MB; %d stay in %s", humanise.Count(len(r.Pruned), "initialisation"), verb, float64(r.Bytes)/1e6, r.Kept, r.Out)}}
	if !r.Removed && len(r.Pruned) > 0 {
		last.Text = append(last.Text, "nothing was removed: --yes removes them")
	}
	return append(out, last)
}
