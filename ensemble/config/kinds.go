package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Path is a file name or pattern. In a configuration file it is relative to the directory of that
// file; on the command line and in the environment, to the working directory. Loaded paths are
// absolute.
type Path string

// Below is the path relative to a folder that it is below.
func (p Path) Below(folder string) Path {
	return Path(strings.TrimPrefix(strings.TrimPrefix(string(p), folder), "/"))
}

// Members selects ensemble members: the first Count in the order of their numbers, or those of
// List. Exactly one of the two is set; the zero value selects none.
type Members struct {
	Count int
	List  []int
}

// N is the number of selected members.
func (m Members) N() int {
	if m.List != nil {
		return len(m.List)
	}
	return m.Count
}

// Date is a time in UTC. A date without a time of day denotes the whole day: its first instant at
// the beginning of a period, its last second at the end.
type Date struct {
	time.Time
	WholeDay bool
}

// End is the last second of the day for a date without a time of day, else the time itself.
func (d Date) End() time.Time {
	if d.WholeDay {
		return d.AddDate(0, 0, 1).Add(-time.Second)
	}
	return d.Time
}

// kinds has the syntax of the Go types of all configurations.
var kinds = schema.Kinds{
	reflect.TypeFor[bool](): {
		Want: "true or false",
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!bool" {
				return nil, schema.ErrKind
			}
			return n.Value == "true", nil
		},
		Format: func(v any) string { return strconv.FormatBool(v.(bool)) },
		JSON:   map[string]any{"type": "boolean"},
	},
	reflect.TypeFor[int](): {
		Want:   "a whole number",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseInt(n) },
		Format: func(v any) string { return strconv.Itoa(v.(int)) },
		JSON:   map[string]any{"type": "integer"},
	},
	reflect.TypeFor[float64](): {
		Want:   "a number",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseFloat(n) },
		Format: func(v any) string { return strconv.FormatFloat(v.(float64), 'g', -1, 64) },
		JSON:   map[string]any{"type": "number"},
	},
	reflect.TypeFor[string](): {
		Want:   "a word",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseText(n) },
		Format: func(v any) string { return Quote(v.(string)) },
		JSON:   map[string]any{"type": "string"},
	},
	reflect.TypeFor[Path](): {
		Want: "a file name or pattern",
		Parse: func(n *yaml.Node, dir string) (any, error) {
			s, err := parseText(n)
			if err != nil {
				return nil, err
			}
			return resolvePath(s, dir)
		},
		Format: func(v any) string { return Quote(string(v.(Path))) },
		JSON:   map[string]any{"type": "string"},
	},
	reflect.TypeFor[ensemble.Lead](): {
		Want: "a duration with its unit, such as 48h or PT48H",
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag == "!!int" || n.Tag == "!!float" {
				return nil, instead(fmt.Sprintf("missing unit: write %sh for hours", n.Value), n.Value+"h")
			}
			d, err := ParseDuration(n.Value)
			return ensemble.Lead(d), err
		},
		Format: func(v any) string { return v.(ensemble.Lead).String() },
		JSON:   map[string]any{"type": "string", "pattern": durationPattern},
	},
	reflect.TypeFor[time.Duration](): {
		Want: "a duration with its unit, such as 90s or 10m",
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag == "!!int" || n.Tag == "!!float" {
				return nil, instead(fmt.Sprintf("missing unit: write %ss for seconds", n.Value), n.Value+"s")
			}
			return ParseDuration(n.Value)
		},
		Format: func(v any) string { return formatDuration(v.(time.Duration)) },
		JSON:   map[string]any{"type": "string", "pattern": durationPattern},
	},
	reflect.TypeFor[Deadline](): {
		Want: errDeadline.Error(),
		Parse: func(n *yaml.Node, _ string) (any, error) {
			d := Deadline(n.Value)
			_, err := d.Time(time.Now(), time.Now())
			return d, err
		},
		Format: func(v any) string { return Quote(string(v.(Deadline))) },
		JSON:   map[string]any{"type": "string"},
	},
	reflect.TypeFor[CycleHour](): {
		Want:   "an hour of the day in UTC, 00 to 23",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseCycleHour(n.Value) },
		Format: func(v any) string { return fmt.Sprintf("%02d", int(v.(CycleHour))) },
		JSON:   map[string]any{"type": []any{"integer", "string"}},
	},
	reflect.TypeFor[ensemble.Level](): {
		Want: "a level such as 850hPa, 2m, surface or msl, or single",
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag == "!!int" || n.Tag == "!!float" {
				return nil, instead(fmt.Sprintf("missing unit: write %shPa for pressure", n.Value), n.Value+"hPa")
			}
			return ParseLevel(n.Value)
		},
		Format: func(v any) string { return v.(ensemble.Level).String() },
		JSON:   map[string]any{"type": "string", "pattern": "^([0-9.]+(hPa|Pa|m)|surface|msl|single)$"},
	},
	reflect.TypeFor[Bytes](): {
		Want:   "an amount of memory with its unit, such as 4GiB, or 0",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return ParseBytes(n.Value) },
		Format: func(v any) string { return v.(Bytes).String() },
		JSON: map[string]any{"oneOf": []any{
			map[string]any{"const": 0},
			map[string]any{"type": "string", "pattern": "^[0-9.]+[kKMGT]?i?B$"},
		}},
	},
	reflect.TypeFor[Distance](): {
		Want:   "a distance with its unit, such as 50km",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return ParseDistance(n.Value) },
		Format: func(v any) string { return v.(Distance).String() },
		JSON:   map[string]any{"type": "string", "pattern": distanceText.String()},
	},
	reflect.TypeFor[Percent](): {
		Want:   "a percentage such as 50%",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return ParsePercent(n.Value) },
		Format: func(v any) string { return Quote(v.(Percent).String()) },
		JSON:   map[string]any{"type": "string", "pattern": percentText.String()},
	},
	reflect.TypeFor[TrainingTime](): {
		Want:   "a percentage of the steps such as 30%, or epochs such as 12 epochs",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return ParseTrainingTime(n.Value) },
		Format: func(v any) string { return Quote(v.(TrainingTime).String()) },
		JSON:   map[string]any{"type": "string", "pattern": trainingTimeText.String()},
	},
	reflect.TypeFor[Averaging](): {
		Want:   "a decay such as 0.999, a time such as 10 epochs or 500 steps, or 0",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return ParseAveraging(n.Value) },
		Format: func(v any) string { return v.(Averaging).String() },
		JSON: map[string]any{"oneOf": []any{
			map[string]any{"type": "number", "minimum": 0, "exclusiveMaximum": 1},
			map[string]any{"type": "string", "pattern": "^[0-9.]+ ?(epochs?|steps?)$"},
		}},
	},
	reflect.TypeFor[CheckpointInterval](): {
		Want:   "auto, or an interval such as 500 steps, 10 min or 1 epoch",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return ParseCheckpointInterval(n.Value) },
		Format: func(v any) string { return v.(CheckpointInterval).String() },
		JSON:   map[string]any{"type": "string", "pattern": checkpointIntervalPattern},
	},
	reflect.TypeFor[Date](): {
		Want:   "a date such as 1983-12-31, or a time with its zone such as 1983-12-31T12:00Z",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return ParseDate(n.Value) },
		Format: func(v any) string { return v.(Date).String() },
		JSON:   map[string]any{"type": "string"},
	},
	reflect.TypeFor[ensemble.VariableEvent](): {
		Want: "an event such as " + ensemble.EventForms,
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!str" {
				return nil, schema.ErrKind
			}
			return ensemble.ParseVariableEvent(n.Value)
		},
		Format: func(v any) string { return Quote(v.(ensemble.VariableEvent).String()) },
		JSON:   map[string]any{"type": "string", "pattern": "[<>]"},
	},
	reflect.TypeFor[ensemble.Area](): {
		Want: "an area such as 70/-20/30/40, north/west/south/east in degrees",
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!str" {
				return nil, schema.ErrKind
			}
			return ensemble.ParseArea(n.Value)
		},
		Format: func(v any) string { return v.(ensemble.Area).String() },
		JSON:   map[string]any{"type": "string", "pattern": "^[-+0-9.]+(/[-+0-9.]+){3}$"},
	},
	reflect.TypeFor[FileNames](): {
		Want:   "a mapping from names in the files to variables, such as {T850_ens: t@850hPa}",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseFileNames(n) },
		Format: func(v any) string { return v.(FileNames).String() },
		JSON:   map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
		Nested: true,
	},
	reflect.TypeFor[FileLeads](): {
		Want:   "a lead such as 24h, or a mapping from patterns of file names to leads, such as {\"*_024h.nc\": 24h}",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseFileLeads(n) },
		Format: func(v any) string { return v.(FileLeads).String() },
		JSON: map[string]any{"oneOf": []any{
			map[string]any{"type": "string"},
			map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
		}},
		Nested: true,
	},
	reflect.TypeFor[FileUnits](): {
		Want:   "a mapping from names in the files to units, such as {T850_ens: degC}",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseFileUnits(n) },
		Format: func(v any) string { return v.(FileUnits).String() },
		JSON:   map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
		Nested: true,
	},
	reflect.TypeFor[FieldSizes](): {
		Nested: true,
		Want:   "whole, mixed, or a list of sizes such as [24, 36x48]",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseFieldSizes(n) },
		Format: formatFieldSizes,
		JSON: map[string]any{"oneOf": []any{
			map[string]any{"enum": []any{wholeSize, mixedSizes}},
			map[string]any{"type": "array", "minItems": 1, "uniqueItems": true, "items": map[string]any{"oneOf": []any{
				map[string]any{"type": "integer", "minimum": 1}, map[string]any{"type": "string", "pattern": "^[0-9]+(x[0-9]+)?$"}}}},
		}},
	},
	reflect.TypeFor[Members](): {
		Nested: true,
		Want:   "a number of members such as 5, or a list of members such as [0, 1, 2]",
		Parse:  func(n *yaml.Node, _ string) (any, error) { return parseMembers(n) },
		Format: formatMembers,
		JSON: map[string]any{"oneOf": []any{
			map[string]any{"type": "integer", "minimum": 1},
			map[string]any{"type": "array", "items": map[string]any{"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": true},
		}},
	},
}

// instead is the error of a wrong value with its reason, where the right value is known.
func instead(why, value string) error { return &schema.InsteadError{Text: why, Instead: value} }

var plainInt = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// parseInt parses a decimal number. Octal, hexadecimal and underscores, which YAML 1.1 allows, are
// refused: they are usually mistakes.
func parseInt(n *yaml.Node) (int, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, schema.ErrKind
	}
	if !plainInt.MatchString(n.Value) { // in YAML, 010 is eight and 1_000 a thousand
		return 0, fmt.Errorf("%s is not a plain decimal number", n.Value)
	}
	v, err := strconv.Atoi(n.Value)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", n.Value)
	}
	return v, nil
}

// parseFloat parses a finite decimal number.
func parseFloat(n *yaml.Node) (float64, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" && !floatLike.MatchString(n.Value) {
		return 0, schema.ErrKind
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || strings.ContainsAny(n.Value, "_xX") {
		return 0, fmt.Errorf("%s is not a finite decimal number", n.Value)
	}
	return v, nil
}

// floatLike matches numbers such as 1e-3, which YAML 1.1 reads as strings for want of a point.
var floatLike = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

// parseText parses nonempty text without control characters. Numbers and booleans must be quoted.
func parseText(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			return "", instead(fmt.Sprintf("%s is not text: quote it", n.Value), strconv.Quote(n.Value))
		}
		return "", schema.ErrKind
	}
	if n.Value == "" {
		return "", errors.New("empty text")
	}
	for _, r := range n.Value {
		if r < ' ' || r == 0x7f {
			return "", fmt.Errorf("control character in %q", n.Value)
		}
	}
	return n.Value, nil
}

// parseMembers parses a number of members or a list of member numbers.
func parseMembers(n *yaml.Node) (Members, error) {
	if n.Kind != yaml.SequenceNode {
		v, err := parseInt(n)
		if err == nil && v < 1 {
			err = fmt.Errorf("%d members, want at least 1", v)
		}
		return Members{Count: v}, err
	}
	m := Members{List: []int{}}
	for _, item := range n.Content {
		v, err := parseInt(item)
		if err != nil {
			return m, err
		}
		if v < 0 {
			return m, fmt.Errorf("member %d, want 0 or more", v)
		}
		if slices.Contains(m.List, v) {
			return m, fmt.Errorf("member %d is listed twice", v)
		}
		m.List = append(m.List, v)
	}
	if len(m.List) == 0 {
		return m, errors.New("empty list of members")
	}
	return m, nil
}

func formatMembers(v any) string {
	m := v.(Members)
	if m.List == nil {
		return strconv.Itoa(m.Count)
	}
	return strings.ReplaceAll(fmt.Sprint(m.List), " ", ", ")
}

// pathVariables are the environment variables that a path may contain as ${NAME}.
var pathVariables = []string{"ENSEMBLE_DATA", "HOME", "RUNS", "SCRATCH", "TMPDIR", "WORK"}

var pathVariable = regexp.MustCompile(`\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?`)

// resolvePath expands the variables of a path and makes it absolute, relative to dir.
func resolvePath(s, dir string) (Path, error) {
	if strings.HasPrefix(s, "~") {
		return "", instead("~ is not expanded: write ${HOME}", Quote("${HOME}"+strings.TrimPrefix(s, "~")))
	}
	var bad error
	given := s
	s = pathVariable.ReplaceAllStringFunc(s, func(m string) string {
		name := strings.Trim(m, "${}")
		value := os.Getenv(name)
		switch {
		case m != "${"+name+"}":
			bad = instead(fmt.Sprintf("%s is not expanded: write ${%s}", m, name), Quote(strings.Replace(given, m, "${"+name+"}", 1)))
		case !slices.Contains(pathVariables, name):
			bad = fmt.Errorf("variable %s is not allowed in a path, want one of %s", m, strings.Join(pathVariables, ", "))
		case value == "":
			bad = fmt.Errorf("environment variable %s is not set", name)
		}
		return value
	})
	if bad != nil {
		return "", bad
	}
	abs, err := filesystem.Absolute(dir, s)
	return Path(abs), err
}

// formatDuration formats a duration as 10m, 1h30m or 0.5s, which ParseDuration parses.
func formatDuration(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// durationPattern is the pattern of durations in JSON Schema.
const durationPattern = "^(P.+|([0-9.]+(d|h|m|s))+)$"

var durationWords = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(d|h|min|m|s))+$`)
var durationPart = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(d|h|min|m|s)`)
var durationISO = regexp.MustCompile(`^P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?$`)

// ParseDuration parses 48h, 1d12h, 90m, 30s and the ISO 8601 forms P2D and PT48H.
//
// Errors: a number without unit; any other text.
func ParseDuration(s string) (time.Duration, error) {
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "min": time.Minute, "s": time.Second}
	switch {
	case plainInt.MatchString(s):
		return 0, fmt.Errorf("missing unit: write %sh for hours", s)
	case durationWords.MatchString(s):
		var d time.Duration
		for _, part := range durationPart.FindAllStringSubmatch(s, -1) {
			v, err := strconv.ParseFloat(part[1], 64)
			if err != nil || v > 1e6 {
				return 0, fmt.Errorf("%s is too long", s)
			}
			d += time.Duration(math.Round(v * float64(units[part[2]])))
		}
		return d, nil
	}
	m := durationISO.FindStringSubmatch(s)
	if m == nil || s == "P" || strings.HasSuffix(s, "T") {
		return 0, schema.ErrKind
	}
	var d time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		v, err := strconv.Atoi(m[i+1])
		if err != nil || v > 1e6 {
			return 0, fmt.Errorf("%s is too long", s)
		}
		d += time.Duration(v) * unit
	}
	return d, nil
}

// ParseLevel parses 850hPa, 85000Pa, 2m, surface and msl.
func ParseLevel(s string) (ensemble.Level, error) {
	l, err := ensemble.ParseLevel(s)
	if err != nil {
		return l, schema.ErrKind
	}
	return l, nil
}

// ParseDate parses 2026-01-01 (the whole day), 2026010100, 20260101T0000Z and RFC 3339 times with
// Z or an offset, seconds optional.
//
// Errors: a time of day without time zone; any other text.
func ParseDate(s string) (Date, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return Date{t, true}, nil
	}
	for _, layout := range []string{"2006010215", "20060102T1504Z", time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15Z"} {
		if t, err := time.Parse(layout, s); err == nil {
			return Date{Time: t.UTC()}, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "20060102T1504"} {
		if t, err := time.Parse(layout, s); err == nil {
			return Date{}, instead(fmt.Sprintf("missing time zone: write %s for UTC", t.Format("2006-01-02T15:04Z")), t.Format("2006-01-02T15:04Z"))
		}
	}
	return Date{}, schema.ErrKind
}

// String formats d for ParseDate.
func (d Date) String() string {
	if d.WholeDay {
		return d.Format(time.DateOnly)
	}
	return d.UTC().Format(time.RFC3339)
}

// Quote formats text as a YAML scalar, also within a flow sequence.
func Quote(s string) string {
	out, err := yaml.Marshal(s)
	if err != nil || strings.Contains(strings.TrimSuffix(string(out), "\n"), "\n") || strings.ContainsAny(s, ",[]{}") {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(string(out), "\n")
}
