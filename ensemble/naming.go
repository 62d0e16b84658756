package ensemble

import (
	"maps"
	"path"
	"path/filepath"
	"strings"
)

// Naming states what files miss or misstate: the quantity and the unit of their variables, by the name in the file. A
// name may begin with a scope and a colon, as in "analyses:t2m", and then concerns only files of that scope. Leads are
// those of forecast files that have neither leads nor valid times beside initialisations, by a pattern of the file name.
// The zero value changes nothing.
type Naming struct {
	Names map[string]VariableAt `json:"names,omitempty"`
	Units map[string]string     `json:"units,omitempty"`         // as UDUNITS-2 reads them
	Leads map[string]Lead       `json:"file_leads_ns,omitempty"` // by pattern, as path.Match reads it
	Scope string                `json:"-"`                       // of the files: ForecastFiles, AnalysisFiles; "" for neither
}

// Values of Naming.Scope.
const (
	ForecastFiles = "forecasts"
	AnalysisFiles = "analyses"
)

// IsZero reports whether nothing is stated.
func (n Naming) IsZero() bool { return len(n.Names) == 0 && len(n.Units) == 0 && len(n.Leads) == 0 }

// LeadOf returns the lead that is stated for a file without one, and the pattern that states it: the longest that matches
// the end of the path. Analyses have none.
func (n Naming) LeadOf(file string) (lead Lead, pattern string, ok bool) {
	if n.Scope == AnalysisFiles {
		return 0, "", false
	}
	parts := strings.Split(filepath.ToSlash(file), "/")
	for p, l := range n.Leads {
		end := strings.Join(parts[max(0, len(parts)-1-strings.Count(p, "/")):], "/")
		if matches, err := path.Match(p, end); err != nil || !matches {
			continue
		}
		if !ok || len(p) > len(pattern) || len(p) == len(pattern) && p < pattern {
			lead, pattern, ok = l, p, true
		}
	}
	return lead, pattern, ok
}

// In returns n for files of a scope. Naming that states nothing has none.
func (n Naming) In(scope string) Naming {
	if n.IsZero() {
		return Naming{}
	}
	n.Scope = scope
	return n
}

// Over returns base with the statements of n in their place where both have one.
func (n Naming) Over(base Naming) Naming {
	out := Naming{Names: maps.Clone(base.Names), Units: maps.Clone(base.Units), Leads: maps.Clone(base.Leads), Scope: n.Scope}
	if out.Names == nil {
		out.Names = map[string]VariableAt{}
	}
	if out.Units == nil {
		out.Units = map[string]string{}
	}
	if out.Leads == nil {
		out.Leads = map[string]Lead{}
	}
	maps.Copy(out.Names, n.Names)
	maps.Copy(out.Units, n.Units)
	maps.Copy(out.Leads, n.Leads)
	return out
}

// Find returns the value of the first of the names of a variable in a file that has one, and the key that stated it; a
// key with the scope of the files has precedence.
func Find[T any](n Naming, values map[string]T, names ...string) (v T, key string, ok bool) {
	for _, name := range names {
		for _, key := range []string{n.Scope + ":" + name, name} {
			if v, ok := values[key]; ok {
				return v, key, true
			}
		}
	}
	return v, "", false
}
