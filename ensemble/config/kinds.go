package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// A kind is the syntax of one Go type in a configuration file.
type kind struct {
	want   string // what a person should write: "a duration such as 48h"
	parse  func(n *yaml.Node, dir string) (any, error)
	format func(v any) string // YAML text that parse reads back to the same value
	schema map[string]any     // JSON Schema of the value
}

// Path is a file name or pattern. In a file it is relative to that file's folder;
// on the command line and in the environment to the working directory. Loaded
// paths are absolute.
type Path string

// Members says which members a model sees: the first Count of them in the order
// of their numbers, or those of List. Exactly one of the two is set.
type Members struct {
	Count int
	List  []int
}

// N is the number of members asked for.
func (m Members) N() int {
	if m.List != nil {
		return len(m.List)
	}
	return m.Count
}

// Date is a time in UTC. Written without a time of day it means the whole day:
// its first instant where a period begins, its last second where it ends.
type Date struct {
	time.Time
	WholeDay bool
}

// End is the last second of the day of a date without a time of day, and the time
// itself otherwise.
func (d Date) End() time.Time {
	if d.WholeDay {
		return d.AddDate(0, 0, 1).Add(-time.Second)
	}
	return d.Time
}

// kinds is the table of all syntaxes. A field of another type is a list of one of
// these, a list of structures, or a structure of further keys.
var kinds = map[reflect.Type]kind{
	reflect.TypeFor[bool](): {
		want: "true or false",
		parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!bool" {
				return nil, errKind
			}
			return n.Value == "true", nil
		},
		format: func(v any) string { return strconv.FormatBool(v.(bool)) },
		schema: map[string]any{"type": "boolean"},
	},
	reflect.TypeFor[int](): {
		want:   "a whole number",
		parse:  func(n *yaml.Node, _ string) (any, error) { return parseInt(n) },
		format: func(v any) string { return strconv.Itoa(v.(int)) },
		schema: map[string]any{"type": "integer"},
	},
	reflect.TypeFor[float64](): {
		want:   "a number",
		parse:  func(n *yaml.Node, _ string) (any, error) { return parseFloat(n) },
		format: func(v any) string { return strconv.FormatFloat(v.(float64), 'g', -1, 64) },
		schema: map[string]any{"type": "number"},
	},
	reflect.TypeFor[string](): {
		want:   "a word",
		parse:  func(n *yaml.Node, _ string) (any, error) { return parseText(n) },
		format: func(v any) string { return quote(v.(string)) },
		schema: map[string]any{"type": "string"},
	},
	reflect.TypeFor[Path](): {
		want: "a file name or pattern",
		parse: func(n *yaml.Node, dir string) (any, error) {
			s, err := parseText(n)
			if err != nil {
				return nil, err
			}
			return resolvePath(s, dir)
		},
		format: func(v any) string { return quote(string(v.(Path))) },
		schema: map[string]any{"type": "string"},
	},
	reflect.TypeFor[ensemble.Lead](): {
		want: "a duration with its unit, such as 48h or PT48H",
		parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag == "!!int" || n.Tag == "!!float" {
				return nil, fmt.Errorf("a duration needs its unit: write %sh if hours are meant", n.Value)
			}
			d, err := ParseDuration(n.Value)
			return ensemble.Lead(d), err
		},
		format: func(v any) string { return v.(ensemble.Lead).String() },
		schema: map[string]any{"type": "string", "pattern": durationPattern},
	},
	reflect.TypeFor[time.Duration](): {
		want: "a duration with its unit, such as 90s or 10m",
		parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag == "!!int" || n.Tag == "!!float" {
				return nil, fmt.Errorf("a duration needs its unit: write %ss if seconds are meant", n.Value)
			}
			return ParseDuration(n.Value)
		},
		format: func(v any) string { return formatDuration(v.(time.Duration)) },
		schema: map[string]any{"type": "string", "pattern": durationPattern},
	},
	reflect.TypeFor[Deadline](): {
		want: errDeadline.Error(),
		parse: func(n *yaml.Node, _ string) (any, error) {
			_, err := ParseDeadline(n.Value, time.Now())
			return Deadline(n.Value), err
		},
		format: func(v any) string { return quote(string(v.(Deadline))) },
		schema: map[string]any{"type": "string"},
	},
	reflect.TypeFor[ensemble.Level](): {
		want: "a level such as 850hPa, 2m, surface or msl, or single",
		parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag == "!!int" || n.Tag == "!!float" {
				return nil, fmt.Errorf("a level needs its unit: write %shPa if pressure is meant", n.Value)
			}
			return ParseLevel(n.Value)
		},
		format: func(v any) string { return v.(ensemble.Level).String() },
		schema: map[string]any{"type": "string", "pattern": "^([0-9.]+(hPa|Pa|m)|surface|msl|single)$"},
	},
	reflect.TypeFor[Bytes](): {
		want:   "an amount of memory with its unit, such as 4GiB, or 0",
		parse:  func(n *yaml.Node, _ string) (any, error) { return ParseBytes(n.Value) },
		format: func(v any) string { return v.(Bytes).String() },
		schema: map[string]any{"oneOf": []any{
			map[string]any{"const": 0},
			map[string]any{"type": "string", "pattern": "^[0-9.]+[kKMGT]?i?B$"},
		}},
	},
	reflect.TypeFor[Distance](): {
		want:   "a distance with its unit, such as 50km",
		parse:  func(n *yaml.Node, _ string) (any, error) { return ParseDistance(n.Value) },
		format: func(v any) string { return v.(Distance).String() },
		schema: map[string]any{"type": "string", "pattern": distanceText.String()},
	},
	reflect.TypeFor[Percent](): {
		want:   "a share such as 50%",
		parse:  func(n *yaml.Node, _ string) (any, error) { return ParsePercent(n.Value) },
		format: func(v any) string { return quote(v.(Percent).String()) },
		schema: map[string]any{"type": "string", "pattern": percentText.String()},
	},
	reflect.TypeFor[TrainingTime](): {
		want:   "a share of the steps such as 30%, or epochs such as 12 epochs",
		parse:  func(n *yaml.Node, _ string) (any, error) { return ParseTrainingTime(n.Value) },
		format: func(v any) string { return quote(v.(TrainingTime).String()) },
		schema: map[string]any{"type": "string", "pattern": trainingTimeText.String()},
	},
	reflect.TypeFor[Date](): {
		want:   "a date such as 1983-12-31, or a time with its zone such as 1983-12-31T12:00Z",
		parse:  func(n *yaml.Node, _ string) (any, error) { return ParseDate(n.Value) },
		format: func(v any) string { return v.(Date).String() },
		schema: map[string]any{"type": "string"},
	},
	reflect.TypeFor[ensemble.VariableEvent](): {
		want: "an event such as t2m>273.15, \"t2m<0 degC\" or 0degC<t2m<5degC",
		parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!str" {
				return nil, errKind
			}
			return ensemble.ParseVariableEvent(n.Value)
		},
		format: func(v any) string { return quote(v.(ensemble.VariableEvent).String()) },
		schema: map[string]any{"type": "string", "pattern": "[<>]"},
	},
	reflect.TypeFor[ensemble.Area](): {
		want: "an area such as 70/-20/30/40, north/west/south/east in degrees",
		parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!str" {
				return nil, errKind
			}
			return ensemble.ParseArea(n.Value)
		},
		format: func(v any) string { return v.(ensemble.Area).String() },
		schema: map[string]any{"type": "string", "pattern": "^[-+0-9.]+(/[-+0-9.]+){3}$"},
	},
	reflect.TypeFor[Members](): {
		want:   "how many members, such as 5, or their numbers, such as [0, 1, 2]",
		parse:  func(n *yaml.Node, _ string) (any, error) { return parseMembers(n) },
		format: formatMembers,
		schema: map[string]any{"oneOf": []any{
			map[string]any{"type": "integer", "minimum": 1},
			map[string]any{"type": "array", "items": map[string]any{"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": true},
		}},
	},
}

// kindOf gives the syntax of a type; a named string type has that of a word.
func kindOf(t reflect.Type) (kind, bool) {
	k, ok := kinds[t]
	if !ok && t.Kind() == reflect.String {
		k, ok = kinds[reflect.TypeFor[string]()]
	}
	return k, ok
}

// errKind says that a value is of another kind altogether; the reader adds what
// was wanted and what was found.
var errKind = errors.New("wrong kind of value")

var plainInt = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

func parseInt(n *yaml.Node) (int, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, errKind
	}
	if !plainInt.MatchString(n.Value) { // 010 would be eight, 0x10 sixteen, 1_000 a thousand
		return 0, fmt.Errorf("%s is not a plain decimal number", n.Value)
	}
	v, err := strconv.Atoi(n.Value)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", n.Value)
	}
	return v, nil
}

func parseFloat(n *yaml.Node) (float64, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" && !floatLike.MatchString(n.Value) {
		return 0, errKind
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || strings.ContainsAny(n.Value, "_xX") {
		return 0, fmt.Errorf("%s is not a finite decimal number", n.Value)
	}
	return v, nil
}

// floatLike is 1e-3, which YAML 1.1 takes for a string because it has no point.
var floatLike = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

func parseText(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			return "", fmt.Errorf("%s is not text: put it in quotes if it is meant", n.Value)
		}
		return "", errKind
	}
	if n.Value == "" {
		return "", errors.New("the text is empty")
	}
	for _, r := range n.Value {
		if r < ' ' || r == 0x7f {
			return "", fmt.Errorf("%q holds a control character", n.Value)
		}
	}
	return n.Value, nil
}

func parseMembers(n *yaml.Node) (Members, error) {
	if n.Kind != yaml.SequenceNode {
		v, err := parseInt(n)
		if err == nil && v < 1 {
			err = fmt.Errorf("%d members: at least one is needed", v)
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
			return m, fmt.Errorf("member %d: numbers begin at 0", v)
		}
		if slices.Contains(m.List, v) {
			return m, fmt.Errorf("member %d is listed twice", v)
		}
		m.List = append(m.List, v)
	}
	if len(m.List) == 0 {
		return m, errors.New("no member is listed")
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

// pathVariables are the environment variables that a path may name as ${NAME}.
var pathVariables = []string{"ENSEMBLE_DATA", "HOME", "RUNS", "SCRATCH", "TMPDIR", "WORK"}

var pathVariable = regexp.MustCompile(`\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?`)

func resolvePath(s, dir string) (Path, error) {
	if strings.HasPrefix(s, "~") {
		return "", errors.New("~ is not expanded: write the path out, or ${HOME}")
	}
	var bad error
	s = pathVariable.ReplaceAllStringFunc(s, func(m string) string {
		name := strings.Trim(m, "${}")
		value := os.Getenv(name)
		switch {
		case m != "${"+name+"}":
			bad = fmt.Errorf("%s is not expanded: write ${%s}", m, name)
		case !slices.Contains(pathVariables, name):
			bad = fmt.Errorf("%s may not be used in a path; allowed are %s", m, strings.Join(pathVariables, ", "))
		case value == "":
			bad = fmt.Errorf("%s is not set in the environment", name)
		}
		return value
	})
	if bad != nil {
		return "", bad
	}
	if !filepath.IsAbs(s) {
		s = filepath.Join(dir, s)
	}
	abs, err := filepath.Abs(s)
	return Path(abs), err
}

// formatDuration prints 10m, 1h30m or 0.5s, which ParseDuration reads back.
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

// durationPattern is what JSON Schema says of a duration.
const durationPattern = "^(P.+|([0-9.]+(d|h|m|s))+)$"

var durationWords = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(d|h|min|m|s))+$`)
var durationPart = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(d|h|min|m|s)`)
var durationISO = regexp.MustCompile(`^P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?$`)

// ParseDuration reads 48h, 1d12h, 90m, 30s and the ISO forms P2D and PT48H.
//
// Errors: a bare number, since its unit would be a guess; anything else.
func ParseDuration(s string) (time.Duration, error) {
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "min": time.Minute, "s": time.Second}
	switch {
	case plainInt.MatchString(s):
		return 0, fmt.Errorf("a duration needs its unit: write %sh if hours are meant", s)
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
		return 0, errKind
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

// ParseLevel reads 850hPa, 85000Pa, 2m, surface and msl.
func ParseLevel(s string) (ensemble.Level, error) {
	l, err := ensemble.ParseLevel(s)
	if err != nil {
		return l, errKind
	}
	return l, nil
}

// ParseDate reads 2026-01-01 (the whole day), 2026010100, 20260101T0000Z and times
// of RFC 3339 with Z or an offset, seconds optional.
//
// Errors: a time of day without a zone, since nobody can know which was meant.
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
			return Date{}, fmt.Errorf("a time needs its zone: write %s if UTC is meant", t.Format("2006-01-02T15:04Z"))
		}
	}
	return Date{}, errKind
}

// String prints the form that ParseDate reads back.
func (d Date) String() string {
	if d.WholeDay {
		return d.Format(time.DateOnly)
	}
	return d.UTC().Format(time.RFC3339)
}

// quote prints text as YAML that is read back as the same text.
func quote(s string) string {
	out, err := yaml.Marshal(s)
	if err != nil || strings.Contains(strings.TrimSuffix(string(out), "\n"), "\n") || strings.ContainsAny(s, ",[]{}") {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(string(out), "\n")
}
