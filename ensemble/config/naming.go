package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// FileNames states the variables of names in files that do not identify them.
type FileNames struct {
	Of map[string]ensemble.VariableAt
}

// FileUnits states the units of variables in files that miss or misstate them.
type FileUnits struct {
	Of map[string]string
}

// FileLeads states the leads of forecast files that have none, by patterns of their names; "*" are all.
type FileLeads struct {
	Of map[string]ensemble.Lead
}

// String formats the leads as YAML: one for all files, or a mapping.
func (l FileLeads) String() string {
	if all, ok := l.Of["*"]; ok && len(l.Of) == 1 {
		return all.String()
	}
	return formatMapping(l.Of, ensemble.Lead.String)
}

// String formats the names as YAML in flow style.
func (n FileNames) String() string { return formatMapping(n.Of, ensemble.VariableAt.String) }

// String formats the units as YAML in flow style.
func (u FileUnits) String() string { return formatMapping(u.Of, func(s string) string { return s }) }

// Naming is what the three keys state; the zero value changes nothing.
type Naming struct {
	Names FileNames `key:"names"`
	Units FileUnits `key:"units"`
	Leads FileLeads `key:"file_leads"`
}

// Stated converts the keys for the readers.
func (n Naming) Stated() ensemble.Naming {
	return ensemble.Naming{Names: n.Names.Of, Units: n.Units.Of, Leads: n.Leads.Of}
}

// Over returns base with the statements of n in their place where both have one.
func (n Naming) Over(base Naming) Naming {
	both := n.Stated().Over(base.Stated())
	return Naming{FileNames{both.Names}, FileUnits{both.Units}, FileLeads{both.Leads}}
}

// ParseNaming reads the names, units and leads of flags: "NAME=VARIABLE@LEVEL", "NAME=UNIT", and "PATTERN=LEAD" or "LEAD".
//
// Errors: exit 64 with the flag.
func ParseNaming(names, units, leads []string) (n Naming, err error) {
	n = Naming{FileNames{map[string]ensemble.VariableAt{}}, FileUnits{map[string]string{}}, FileLeads{map[string]ensemble.Lead{}}}
	for _, f := range []struct {
		flag, example string
		texts         []string
		add           func(name, value string) error
	}{{"--names", "T850_ens=t@850hPa", names, n.Names.add}, {"--units", "T850_ens=degC", units, n.Units.add}, {"--file-leads", "24h", leads, n.Leads.add}} {
		for _, text := range f.texts {
			name, value, ok := strings.Cut(text, "=")
			if !ok && f.flag == "--file-leads" {
				name, value, ok = "*", text, true
			}
			err := errors.New("want NAME=VALUE")
			if ok {
				err = f.add(name, value)
			}
			if err != nil {
				return n, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %q for %s", text, f.flag), At: f.flag, Why: err.Error(), Fix: "for example `" + f.flag + " " + f.example + "`"}
			}
		}
	}
	return n, nil
}

// add adds the variable of a name.
func (n FileNames) add(name, value string) error {
	v, err := ensemble.ParseVariableAt(value)
	if err != nil {
		return err
	}
	return addTo(n.Of, name, v)
}

// add adds the unit of a name.
func (u FileUnits) add(name, value string) error {
	if !unit.IsKnown(value) {
		return fmt.Errorf("%q is not a unit: write it as UDUNITS does, such as degC, hPa, m s-1, mm or kg m-2", value)
	}
	return addTo(u.Of, name, value)
}

// add adds the lead of a pattern.
func (l FileLeads) add(pattern, value string) error {
	d, err := ParseDuration(value)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a lead: write it with its unit, such as 24h", value)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is not a pattern of file names: write it like \"*_024h.nc\"", pattern)
	}
	return addTo(l.Of, pattern, ensemble.Lead(d))
}

// addTo adds a value of a name, once.
func addTo[T any](to map[string]T, name string, v T) error {
	if name = strings.TrimSpace(name); name == "" {
		return errors.New("a name is empty")
	}
	if _, twice := to[name]; twice {
		return fmt.Errorf("%s is stated twice", name)
	}
	to[name] = v
	return nil
}

// parseFileNames parses {NAME: VARIABLE@LEVEL, …}.
func parseFileNames(n *yaml.Node) (FileNames, error) {
	out := FileNames{map[string]ensemble.VariableAt{}}
	return out, parseMapping(n, out.add)
}

// parseFileUnits parses {NAME: UNIT, …}.
func parseFileUnits(n *yaml.Node) (FileUnits, error) {
	out := FileUnits{map[string]string{}}
	return out, parseMapping(n, out.add)
}

// parseFileLeads parses LEAD, or {PATTERN: LEAD, …}.
func parseFileLeads(n *yaml.Node) (FileLeads, error) {
	out := FileLeads{map[string]ensemble.Lead{}}
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return out, out.add("*", n.Value)
	}
	return out, parseMapping(n, out.add)
}

// parseMapping calls add for each pair of a mapping of scalars. Units such as 1 need no quotes.
func parseMapping(n *yaml.Node, add func(name, value string) error) error {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return schema.ErrKind
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
			return fmt.Errorf("%s has no plain value", cmp.Or(name.Value, "a name"))
		}
		if err := add(name.Value, value.Value); err != nil {
			return err
		}
	}
	return nil
}

// formatMapping formats a mapping as YAML in flow style, by ascending name.
func formatMapping[T any](of map[string]T, text func(T) string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, Quote(name)+": "+Quote(text(of[name])))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// namingKeys are the rows of Naming in the section under, which is empty or ends with a dot.
func namingKeys(under string) []schema.Key {
	return []schema.Key{
		{Path: under + "names", Example: "{T850_ens: t@850hPa, rain: tp}",
			Help: "Variables of names in the files that their metadata do not identify, or misstate: a short name of the vocabulary or an own name, and @LEVEL where the file states no level. A name that begins with forecasts: or analyses: concerns these files only. Saved with the model; prediction and verification use it too."},
		{Path: under + "file_leads", Example: "24h",
			Help: "Lead of forecast files that state none, or one for each pattern of file names, such as {\"*_024h.nc\": 24h, \"lead048/*.nc\": 48h}; the longest that matches counts. Times are then initialisations or, if they are called so, valid times. Saved with the model; prediction and verification use it too."},
		{Path: under + "units", Example: "{T850_ens: degC, rain: mm}",
			Help: "Units of variables and coordinates that the files do not state, or misstate, by the name in the files as in names: any unit of UDUNITS. Saved with the model; prediction and verification use it too."},
	}
}
