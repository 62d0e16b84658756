package ensemble

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Origin is the forecast model that produced fields, as far as their files state it. NetCDF and
// Zarr name neither centre nor process. A new cycle of a model has a new process.
type Origin struct {
	Centre  string `json:"centre,omitempty"`  // "ecmf"
	Process string `json:"process,omitempty"` // the centre's number of the model, "153"
	Points  string `json:"points"`            // size of the grid in the files, "720x361"
}

// Origins lists the distinct origins of some fields in order.
func Origins(entries []Entry) []Origin {
	seen, out := map[*Kind]bool{}, []Origin{}
	for _, e := range entries {
		if e.Kind != nil && e.Grid != nil && !seen[e.Kind] {
			seen[e.Kind] = true
			out = append(out, Origin{e.Centre, e.Process, fmt.Sprintf("%dx%d", e.Grid.NX, e.Grid.NY)})
		}
	}
	slices.SortFunc(out, func(a, b Origin) int {
		return cmp.Or(strings.Compare(a.Centre, b.Centre), strings.Compare(a.Process, b.Process), strings.Compare(a.Points, b.Points))
	})
	return slices.Compact(out)
}

// Matches reports whether two origins can be the same; properties that one of them lacks are ignored.
func (o Origin) Matches(p Origin) bool {
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(o.Centre, p.Centre) && same(o.Process, p.Process) && same(o.Points, p.Points)
}

// String describes the origin.
func (o Origin) String() string {
	words := []string{}
	if o.Centre != "" {
		words = append(words, o.Centre)
	}
	if o.Process != "" {
		words = append(words, "process "+o.Process)
	}
	return strings.Join(append(words, o.Points+" points"), ", ")
}
