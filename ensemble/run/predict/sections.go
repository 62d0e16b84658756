package predict

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Sections sums up what was published: the files of a single initialisation, the folder and the period of several. With
// Verbose it lists every initialisation.
func (r *Result) Sections() answer.Sections {
	last := fmt.Sprintf("%s, %d of them already complete", humanise.Count(r.Inits, "initialisation"), r.Existing)
	if r.Degraded > 0 {
		last += fmt.Sprintf(", %d degraded", r.Degraded)
	}
	switch {
	case r.Verbose:
		return answer.Sections{r.initTable(), {Text: []string{last}}}
	case len(r.ByInit) <= 1 || len(r.Outputs) == 0:
		return answer.Sections{{Text: append(slices.Clone(r.Outputs), last)}}
	}
	return answer.Sections{{Text: []string{fmt.Sprintf("%s in %s, %s to %s", humanise.Count(len(r.Outputs), "file"), filepath.Dir(filepath.Dir(r.Outputs[0])),
		r.ByInit[0].Init, r.ByInit[len(r.ByInit)-1].Init), last}}}
}

// initTable is the table of initialisations.
func (r *Result) initTable() answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("initialisation", "state"), answer.NumberColumns("", "members", "files"), answer.TextColumns("folder"))}
	for _, one := range r.ByInit {
		state, folder := "new", ""
		if one.Existing {
			state = "already complete"
		}
		if one.Degraded {
			state += ", degraded"
		}
		if len(one.Outputs) > 0 {
			folder = filepath.Dir(one.Outputs[0])
		}
		members := fmt.Sprint(one.Members)
		if one.Complete < one.Expected {
			members = fmt.Sprintf("%d, %d of %d complete", one.Members, one.Complete, one.Expected)
		}
		s.Rows = append(s.Rows, []any{one.Init.String(), state, members, len(one.Outputs), folder})
	}
	return s
}
