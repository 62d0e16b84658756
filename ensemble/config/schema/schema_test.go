package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// station is the structure of the tests: sections, lists of both kinds, a nested kind, a default.
type station struct {
	Version int      `key:"version"`
	Name    word     `key:"name"`
	Data    section  `key:"data"`
	Rows    []sensor `key:"rows"`
}

type word string

type section struct {
	Files []string `key:"files"`
	Count int      `key:"count"`
	Live  bool     `key:"live"`
	Extra labels   `key:"extra"`
}

type sensor struct {
	Kind  string `key:"kind"`
	Every int    `key:"every"`
}

type labels struct{ of map[string]string }

// testKinds has three scalar kinds and one of mappings.
var testKinds = Kinds{
	reflect.TypeFor[bool](): {Want: "true or false", JSON: map[string]any{"type": "boolean"}, Format: func(v any) string { return strconv.FormatBool(v.(bool)) },
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!bool" {
				return nil, ErrKind
			}
			return n.Value == "true", nil
		}},
	reflect.TypeFor[int](): {Want: "a whole number", JSON: map[string]any{"type": "integer"}, Format: func(v any) string { return strconv.Itoa(v.(int)) },
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Tag != "!!int" {
				return nil, ErrKind
			}
			return strconv.Atoi(n.Value)
		}},
	reflect.TypeFor[string](): {Want: "a word", JSON: map[string]any{"type": "string"}, Format: func(v any) string { return v.(string) },
		Parse: func(n *yaml.Node, dir string) (any, error) {
			switch {
			case n.Tag != "!!str":
				return nil, &InsteadError{n.Value + " is not text: quote it", strconv.Quote(n.Value)}
			case strings.HasPrefix(n.Value, "./"):
				return filepath.Join(dir, n.Value), nil
			}
			return n.Value, nil
		}},
	reflect.TypeFor[labels](): {Want: "a mapping of words", Nested: true, JSON: map[string]any{"type": "object"},
		Format: func(v any) string { return "{a: " + v.(labels).of["a"] + "}" },
		Parse: func(n *yaml.Node, _ string) (any, error) {
			if n.Kind != yaml.MappingNode {
				return nil, ErrKind
			}
			return labels{map[string]string{n.Content[0].Value: n.Content[1].Value}}, nil
		}},
}

// testKeys is the table of station.
func testKeys() []Key {
	positive := Check{Text: "1 or more", Allows: func(v any) bool { return v.(int) >= 1 }, JSON: map[string]any{"minimum": 1}}
	words := []string{"wind", "rain", "pressure"}
	return []Key{
		{Path: "version", Required: true, Example: "1", Help: "Version of the format."},
		{Path: "name", Default: "home", Example: "home", Help: "Name of the station."},
		{Path: "data.files", Example: "[a.txt]", Help: "Files."},
		{Path: "data.count", Default: "3", Check: positive, Example: "5", Help: "Number of values."},
		{Path: "data.live", Example: "true", Help: "Whether values are read as they arrive."},
		{Path: "data.extra", Example: "{a: b}", Help: "Labels."},
		{Path: "rows", Example: "[{kind: wind, every: 5}]", Help: "Sensors."},
		{Path: "rows[].kind", Required: true, Example: "wind", Help: "Quantity.",
			Check: Check{Text: "one of " + strings.Join(words, ", "), Words: words, Allows: func(v any) bool { return slices.Contains(words, v.(string)) }, JSON: map[string]any{"enum": words}}},
		{Path: "rows[].every", Required: true, Example: "5", Help: "Minutes between values.",
			ExampleIn: func(item map[string]any) string { return map[any]string{"rain": "60"}[item["kind"]] }},
	}
}

func testSchema() *Schema { return New[station]("station", testKinds, testKeys()) }

// TestValues: a file without faults gives the values of its keys by path, with positions; paths are relative to it.
func TestValues(t *testing.T) {
	s := testSchema()
	d := s.ReadText("x.yaml", "/in", []byte("version: 1\ndata:\n  files: [./a, b]\n  extra: {a: z}\nrows:\n  - {kind: rain, every: 10}\n"))
	if len(d.Faults) > 0 {
		t.Fatal(d.Faults[0])
	}
	want := map[string]any{"version": 1, "data.files": []string{"/in/a", "b"}, "data.extra": labels{map[string]string{"a": "z"}}, "rows": []sensor{{"rain", 10}}}
	if !reflect.DeepEqual(d.Values, want) {
		t.Errorf("got %v, want %v", d.Values, want)
	}
	if len(d.At) != len(want) || d.At["data.files"] != "x.yaml:3:3" || d.At["rows"] != "x.yaml:5:1" {
		t.Errorf("positions are %v", d.At)
	}
	for _, text := range []string{"", "# nothing\n", "null\n"} {
		if d := s.ReadText("x.yaml", "", []byte(text)); len(d.Faults)+len(d.Values) > 0 || d.Values == nil {
			t.Errorf("%q: %v, %v", text, d.Values, d.Faults)
		}
	}
}

// TestFaults: every fault has a position and the line that corrects it, and the other keys are read.
func TestFaults(t *testing.T) {
	other := New[struct {
		RunDir string `key:"run_dir"`
	}]("predict", testKinds, []Key{{Path: "run_dir", Example: "a", Help: "A directory."}})
	s := testSchema()
	for _, c := range []struct{ name, text, at, what, fix string }{
		{"unknown", "nmae: a\n", "3:1", `unknown key "nmae"`, "did you mean `name`? write `name: a`"},
		{"elsewhere", "count: 4\n", "3:1", `unknown key "count"`, "did you mean `data.count`? under `data:` write `count: 4`"},
		{"nowhere", "zzzzzz: 4\n", "3:1", `unknown key "zzzzzz"`, "want one of version, name, data, rows"},
		{"of another file", "run_dir: 4\n", "3:1", `unknown key "run_dir"`, "leave out the file x.yaml"},
		{"duplicate", "name: a\nname: b\n", "4:1", `duplicate key "name"`, "remove one of the two"},
		{"empty", "name:\n", "3:1", `key "name" has no value`, "add a value"},
		{"type", "data: {count: many}\n", "3:15", `data.count is "many", want a whole number`, "for example `count: 5`"},
		{"quoted", "data: {count: \"4\"}\n", "3:15", `data.count is "4", want a whole number`, "write `count: 4`"},
		{"yes", "data: {live: yes}\n", "3:14", `data.live is "yes", want true or false`, "write `live: true`"},
		{"one item", "data: {count: [4]}\n", "3:15", "data.count is a list, want a whole number", "write `count: 4`"},
		{"unquoted", "name: 4\n", "3:7", "name: 4 is not text", "write `name: \"4\"`"},
		{"check", "data: {count: 0}\n", "3:15", "data.count is 0, want 1 or more", "for example `count: 5`"},
		{"word", "rows: [{kind: wnid, every: 5}]\n", "3:15", "rows[].kind is wnid, want one of wind, rain, pressure", "did you mean `wind`? write `kind: wind`"},
		{"begin of a word", "rows: [{kind: PRES, every: 5}]\n", "3:15", "rows[].kind is PRES", "write `kind: pressure`"},
		{"no list", "data: {files: a}\n", "3:15", `data.files is "a", want a list`, "write a list: `files: [a]`"},
		{"empty list", "data: {files: []}\n", "3:15", "data.files is an empty list", "at least one item"},
		{"item", "data: {files: [1]}\n", "3:16", "data.files: 1 is not text", "write `\"1\"` in its place"},
		{"no structure", "rows: [wind]\n", "3:8", `an item of rows is "wind", want keys`, "write {kind: …, every: …}"},
		{"item without key", "rows: [{kind: rain}]\n", "3:8", `an item of rows has no "every"`, "add `every: 60`"},
		{"no section", "data: 4\n", "3:7", "data is 4, want further keys", "under `data:` write, indented, one or more of files, count, live, extra"},
		{"nested", "data: {extra: 4}\n", "3:15", "data.extra is 4, want a mapping of words", "for example `extra: {a: b}`"},
		{"anchor", "name: &a b\n", "3:7", "anchors and aliases are not supported", "write the value out"},
		{"merge", "<<: {name: b}\n", "3:1", "a key is not a plain word", "write the key out"},
	} {
		d := s.ReadText("x.yaml", "", []byte("version: 1\n# a comment\n"+c.text), other)
		if len(d.Faults) != 1 {
			t.Errorf("%s: %d faults, want 1: %v", c.name, len(d.Faults), d.Faults)
			continue
		}
		if f := d.Faults[0]; f.Code != exit.Usage || f.At != "x.yaml:"+c.at || !strings.Contains(f.What, c.what) || !strings.Contains(f.Fix, c.fix) {
			t.Errorf("%s: %v\nwant at %s: %s; %s", c.name, f, c.at, c.what, c.fix)
		}
		if d.Values["version"] != 1 {
			t.Errorf("%s: the version is %v", c.name, d.Values["version"])
		}
	}
	for text, want := range map[string]string{"a\n": "not a YAML mapping", "- 1\n": "not a YAML mapping", "version: 1\n---\nversion: 1\n": "more than one YAML document"} {
		if d := s.ReadText("x.yaml", "", []byte(text)); len(d.Faults) != 1 || !strings.Contains(d.Faults[0].What, want) || d.Text != nil {
			t.Errorf("%q: %v, want %s", text, d.Faults, want)
		}
	}
	all := s.ReadText("x.yaml", "", []byte("version: x\nnmae: a\ndata: {count: 0, live: 1}\n"))
	if len(all.Faults) != 4 {
		t.Errorf("%d faults, want 4 in one pass: %v", len(all.Faults), all.Faults)
	}
}

// TestManyFaults: a file of data that is given by mistake is refused within seconds, on a page.
func TestManyFaults(t *testing.T) {
	s := testSchema()
	for name, text := range map[string]string{
		"keys":   strings.Repeat("nmae%d: 1\n", 8000),
		"words":  "rows:\n" + strings.Repeat("  - {kind: wnid%d, every: 5}\n", 5000),
		"double": "name: a\n" + strings.Repeat("name: a\n", 8000),
		"types":  "data: {files: [" + strings.Repeat("%d, ", 8000) + "]}\n",
	} {
		n := 0
		for strings.Contains(text, "%d") && n < 300 { // enough different names
			text, n = strings.Replace(text, "%d", strconv.Itoa(n), 1), n+1
		}
		text = strings.ReplaceAll(text, "%d", "0")
		began := time.Now()
		d := s.ReadText("x.yaml", "", []byte("version: 1\n"+text))
		took, all := time.Since(began), len(d.Faults)
		if took > 20*time.Second || all != maxFaults+1 || !strings.HasSuffix(d.Faults[all-1].What, " more faults") || d.Values["version"] != 1 {
			t.Errorf("%s: %d faults after %s, the last %v", name, all, took, d.Faults[max(0, all-1)])
		}
	}
	if d := s.ReadText("x.yaml", "", []byte("nmae: 1\n"+strings.Repeat("name: a\n", maxFaults))); len(d.Faults) != maxFaults {
		t.Errorf("%d faults, want %d without a count of more", len(d.Faults), maxFaults)
	}
}

// TestRepair: the fix of a syntax error is the corrected line, with which the file is valid.
func TestRepair(t *testing.T) {
	s := testSchema()
	for _, c := range []struct{ name, text, want string }{
		{"tab", "version: 1\ndata:\n\tforecasts: [f]\n", "write line 3 as `  forecasts: [f]`"},
		{"tabs", "version: 1\ndata:\n\tforecasts: [f]\n\tanalyses: [a]\n", "type `sed -i 's/\\t/  /g' "},
		{"too far right", "version: 1\ndata:\n  forecasts: [f]\n   analyses: [a]\n", "write line 4 as `  analyses: [a]`"},
		{"too far left", "version: 1\ndata:\n    forecasts: [f]\n   analyses: [a]\n", "write line 4 as `    analyses: [a]`"},
		{"no blank", "version: 1\ndata:\n  forecasts: [f]\n  direct_io:true\n", "write line 4 as `  direct_io: true`"},
		{"pattern", "version: 1\ndata:\n  forecasts: [*.nc]\n", "write line 3 as `  forecasts: [\"*.nc\"]`"},
		{"pattern alone", "version: 1\ndata:\n  store: *.nc\n", "write line 3 as `  store: \"*.nc\"`"},
		{"bracket", "version: 1\ndata:\n  forecasts: [f\n  analyses: [a]\n", "write line 3 as `  forecasts: [f]`"},
		{"brace", "version: 1\nmodel: {base: 8, stages: 2\ntrain: {epochs: 2}\n", "write line 2 as `model: {base: 8, stages: 2}`"},
	} {
		d := s.ReadText("x.yaml", "", []byte(c.text))
		if len(d.Faults) != 1 || d.Faults[0].What != "not valid YAML" || !strings.HasPrefix(d.Faults[0].At, "x.yaml:") || !strings.Contains(d.Faults[0].Fix, c.want) {
			t.Errorf("%s: %v\nwant %q", c.name, d.Faults, c.want)
		}
	}
}

// TestRepairOfLargeFiles: a syntax error in a file near the limit of size is reported within seconds, and corrected if the
// correction is near.
func TestRepairOfLargeFiles(t *testing.T) {
	s := testSchema()
	half := strings.Repeat("a:\n  - {kind: wind}\n", 8000)
	for bad, want := range map[string]string{"x: {{{ ][\n": "correct this line or the previous one", "x: [*.nc]\n": "write line 16002 as `x: [\"*.nc\"]`"} {
		began := time.Now()
		d := s.ReadText("x.yaml", "", []byte("version: 1\n"+half+bad+half))
		if took := time.Since(began); took > 20*time.Second || len(d.Faults) != 1 || !strings.Contains(d.Faults[0].Fix, want) {
			t.Errorf("%q after %s: %v\nwant %q", bad, took, d.Faults, want)
		}
	}
}

// TestReadValue: one key from the command line; the fix is the argument to type.
func TestReadValue(t *testing.T) {
	s := testSchema()
	if v, faults := s.ReadValue("--set data.count=7", "data.count", "7"); v != 7 || faults != nil {
		t.Errorf("%v, %v", v, faults)
	}
	for set, want := range map[string]string{
		"data.cuont=7":    "did you mean `data.count`? type `--set data.count=7`",
		"data=7":          "unknown key",
		"rows[].kind=x":   "unknown key",
		"data.count=[":    "write it as in the file, for example data.count=5",
		"data.count=":     "write it as in the file, for example data.count=5",
		"data.count=many": "want a whole number",
	} {
		path, text, _ := strings.Cut(set, "=")
		_, faults := s.ReadValue("--set "+set, path, text)
		if len(faults) != 1 || faults[0].At != "--set "+set || !strings.Contains(faults[0].Error(), want) {
			t.Errorf("%s: %v, want %q", set, faults, want)
		}
	}
}

// TestReadFile: a file that cannot be read is refused, with the file that was meant.
func TestReadFile(t *testing.T) {
	s := testSchema()
	dir := t.TempDir()
	path := filepath.Join(dir, "station.yaml")
	if err := os.WriteFile(path, []byte("version: 1\ndata: {files: [./a]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := s.ReadFile(path)
	if len(d.Faults) > 0 || !reflect.DeepEqual(d.Values["data.files"], []string{filepath.Join(dir, "a")}) {
		t.Errorf("%v, %v", d.Values, d.Faults)
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxFileSize+1), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{filepath.Join(dir, "staton.yaml"): "did you mean `" + path + "`?", large: "want at most 1048576", dir: "not a regular file", filepath.Join(dir, "no", "x"): "give the path of a YAML file with --config"} {
		d := s.ReadFile(name)
		if len(d.Faults) != 1 || d.Faults[0].Code != exit.Usage || !strings.Contains(d.Faults[0].Error(), want) || d.Text != nil {
			t.Errorf("%s: %v, want %q", name, d.Faults, want)
		}
	}
}

// TestTables: a table that does not describe its structure is a fault of the program.
func TestTables(t *testing.T) {
	refuse := func(want string, change func([]Key) []Key) {
		t.Helper()
		defer func() {
			if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), want) {
				t.Errorf("got %v, want %q", p, want)
			}
		}()
		New[station]("station", testKinds, change(testKeys()))
	}
	refuse("no field has the key data.none", func(k []Key) []Key { return append(k, Key{Path: "data.none"}) })
	refuse("no row describes the field name", func(k []Key) []Key { return slices.Delete(k, 1, 2) })
	refuse("default of data.count", func(k []Key) []Key { k[3].Default = "many"; return k })
	refuse("default of data.count", func(k []Key) []Key { k[3].Default = "0"; return k })
	refuse("rows[].kind precedes the row of its list", func(k []Key) []Key { k[6], k[7] = k[7], k[6]; return k })
}

// TestYAML: the text of values is read back to the same values; sections without values are left out.
func TestYAML(t *testing.T) {
	s := testSchema()
	text := "version: 1\nname: home\ndata:\n  files: [a, b]\n  extra: {a: z}\nrows: [{kind: wind, every: 5}, {kind: rain, every: 60}]\n"
	d := s.ReadText("x.yaml", "", []byte(text))
	if got := string(s.YAML(func(l *Leaf) (string, string) { return l.Text(d.Values[l.Path]), "" })); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	got := string(s.YAML(func(l *Leaf) (string, string) {
		if l.Path == "version" {
			return "1", "given"
		}
		return l.Text(nil), "default"
	}))
	if want := fmt.Sprintf("%-48s # given\n", "version: 1"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if l := s.Leaf("data.count"); l.Unset != 3 || l.Text(l.Unset) != "3" || s.Leaf("data") != nil || s.Leaf("data.no") != nil || s.Leaf("rows[].kind") == nil || s.Leaf("name[].x") != nil {
		t.Errorf("leaves: %+v", l)
	}
}

// TestDescriptions: JSON Schema and explanations have the conditions of the table.
func TestDescriptions(t *testing.T) {
	s := testSchema()
	text, err := s.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		AdditionalProperties bool
		Required             []string
		Properties           map[string]struct {
			Properties map[string]struct {
				Minimum, Default int
			}
			Items struct {
				Required   []string
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	rows, count := out.Properties["rows"].Items, out.Properties["data"].Properties["count"]
	if out.AdditionalProperties || !slices.Equal(out.Required, []string{"version"}) || count.Minimum != 1 || count.Default != 3 ||
		!slices.Equal(rows.Required, []string{"kind", "every"}) || len(rows.Properties["kind"].Enum) != 3 {
		t.Errorf("the JSON Schema is\n%s", text)
	}
	var b strings.Builder
	if err := s.Explain(&b, "data", func(key string) string { return "$" + key }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"data.count\n", "  value     a whole number; 1 or more\n", "  default   3\n", "  variable  $data.count\n", "a list of items, each a word"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	var e *exit.Error
	if err := s.Explain(&b, "data.cont", nil); !errors.As(err, &e) || !strings.Contains(e.Fix, "did you mean `data.count`?") {
		t.Errorf("an unknown key: %v", err)
	}
	if got := s.Choices("rows[].kind"); len(got) != 3 || s.Choices("no") != nil || !slices.Contains(s.Names(), "data.extra") {
		t.Errorf("choices %v, names %v", got, s.Names())
	}
	if got := UnderSection("data.split.from", "add", "1"); got != "under `data:` and `split:` add `from: 1`" {
		t.Errorf("got %s", got)
	}
}

// FuzzReadText: any text is read to its end, with values or with faults that have a position.
func FuzzReadText(f *testing.F) {
	for _, text := range []string{"version: 1\n", "a: &x [*x]\n", "? [a]\n: b\n", "rows: [{kind: wind}, 1]\n", "\tversion: 1", "data: {files: [}\n"} {
		f.Add(text)
	}
	s := testSchema()
	f.Fuzz(func(t *testing.T, text string) {
		d := s.ReadText("x.yaml", "", []byte(text))
		for _, fault := range d.Faults {
			if fault.Code != exit.Usage || !strings.HasPrefix(fault.At, "x.yaml") || fault.What == "" {
				t.Fatalf("%v", fault)
			}
		}
		for path := range d.Values {
			if s.Leaf(path) == nil || d.At[path] == "" {
				t.Fatalf("a value of %s at %q", path, d.At[path])
			}
		}
	})
}
