package input

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// PerturbedAndControl returns the members of an input under a policy for the control.
func PerturbedAndControl(have []ensemble.Member, control string) []ensemble.Member {
	return slices.DeleteFunc(slices.Clone(have), func(m ensemble.Member) bool {
		return m == ensemble.NoMember || control == "exclude" && m == ensemble.Control
	})
}

// Abbreviate lists a few values, or the first and last of many with their number.
func Abbreviate[T fmt.Stringer](v []T) string {
	if len(v) > 6 {
		return fmt.Sprintf("%s … %s (%d)", v[0], v[len(v)-1], len(v))
	}
	s := make([]string, len(v))
	for i := range v {
		s[i] = v[i].String()
	}
	return strings.Join(s, ",")
}

// FormatMembers lists members, with the control marked.
func FormatMembers(m []ensemble.Member) string {
	if len(m) == 1 && m[0] == ensemble.NoMember {
		return "-"
	}
	s := ensemble.MemberRanges(m)
	if slices.Contains(m, 0) {
		s += " (control 0)"
	}
	return fmt.Sprintf("%d: %s", len(m), s)
}

// FormatSourceOrder describes the scan order of a file if it differs from ours: rows from the north, longitudes
// from 0.
func FormatSourceOrder(g *ensemble.Grid) string {
	var s []string
	if g.Source.ScanningMode > 0 {
		s = append(s, fmt.Sprintf("scanning mode %d", g.Source.ScanningMode))
	} else if g.Source.SouthFirst {
		s = append(s, "rows from the south")
	}
	if g.Source.Roll > 0 {
		s = append(s, fmt.Sprintf("longitudes from %g", g.Source.FirstLon))
	}
	if s == nil {
		return ""
	}
	return " (stored: " + strings.Join(s, ", ") + ")"
}
