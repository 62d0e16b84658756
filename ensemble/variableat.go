package ensemble

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// VariableAt is a variable, with its level if that is stated: "t@850hPa", "2t". Targets, events and thresholds are named
// in this way.
type VariableAt struct {
	Variable string // short name, or the name in files
	Level    Level
	HasLevel bool
}

// NameForms lists the forms that ParseVariableAt reads, for messages.
const NameForms = "t@850hPa, t850, 2t or t2m"

// ownName matches names of variables: of the vocabulary, or of files.
var ownName = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)

// ParseVariableAt reads VARIABLE, VARIABLE@LEVEL with a level as ParseLevel reads it, and the name of a variable of many
// levels followed by a pressure in hPa, such as t850. Variables of the vocabulary may have their short name or their
// identifier (2t, t2m); other names are those of files.
//
// Errors: a name with other characters than letters, digits and "_.+-"; those of ParseLevel; a level of a variable of
// the vocabulary that is at another one only.
func ParseVariableAt(s string) (VariableAt, error) {
	name, level, has := strings.Cut(s, "@")
	if !ownName.MatchString(name) {
		return VariableAt{}, fmt.Errorf("%q is not a variable: write %s", s, NameForms)
	}
	if !has {
		return withoutAt(name), nil
	}
	v := VariableAt{Variable: ShortName(name), HasLevel: true}
	var err error
	if v.Level, err = ParseLevel(level); err != nil {
		return v, err
	}
	known, ok := VariableNamed(v.Variable)
	switch {
	case v.Level == SingleLevel:
		return v, fmt.Errorf("%q has no level: write %s, or a level such as %s@850hPa", s, name, name)
	case ok && !known.OnManyLevels() && v.Level.Kind != known.Level.Kind:
		return v, fmt.Errorf("%s is at %s only: write %s", name, known.Level, name)
	}
	return v, nil
}

// withoutAt reads a name without "@": a variable, or one of many levels with its pressure in hPa.
func withoutAt(name string) VariableAt {
	if _, known := VariableNamed(ShortName(name)); !known {
		letters := strings.TrimRight(name, "0123456789")
		hPa, err := strconv.Atoi(name[len(letters):])
		if v, known := VariableNamed(ShortName(letters)); err == nil && hPa > 0 && known && v.OnManyLevels() {
			return VariableAt{v.Name, PressureLevel(float64(hPa)), true}
		}
	}
	return VariableAt{Variable: ShortName(name)}
}

// Matches reports whether a field of a variable at a level is meant: at any level, if none is stated.
func (v VariableAt) Matches(variable string, level Level) bool {
	return v.Variable == variable && (!v.HasLevel || v.Level == level.ForVariable(variable))
}

// String formats v for ParseVariableAt.
func (v VariableAt) String() string {
	if !v.HasLevel {
		return v.Variable
	}
	return v.Variable + "@" + v.Level.String()
}

// MarshalText encodes the form that ParseVariableAt reads.
func (v VariableAt) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (v *VariableAt) UnmarshalText(text []byte) error {
	out, err := ParseVariableAt(string(text))
	*v = out
	return err
}
