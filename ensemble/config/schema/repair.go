package schema

import (
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// inPlace is the fix that replaces the value of a key, or of one item of its list.
func inPlace(l *Leaf, value string) string {
	if l.typ.Kind() == reflect.Slice && !l.kinds.has(l.typ) {
		return "write `" + value + "` in its place"
	}
	return "write `" + last(l.Path) + ": " + value + "`"
}

// UnderSection is the fix that adds or writes a key of a section, as in "under `data:` add
// `target_lead: 48h`"; verb is "add" or "write", value YAML text.
func UnderSection(path, verb, value string) string {
	sections := strings.Split(path, ".")
	line := "`" + last(path) + ": " + value + "`"
	if len(sections) == 1 {
		return verb + " " + line
	}
	return "under `" + strings.Join(sections[:len(sections)-1], ":` and `") + ":` " + verb + " " + line
}

// booleans gives the booleans of YAML 1.1 that YAML 1.2 reads as texts.
var booleans = map[string]string{"yes": "true", "on": "true", "no": "false", "off": "false"}

// meant is the text of the value that a value of another type was meant to be: a number or boolean in quotes, the only
// item of a list, a boolean of YAML 1.1; "" if none of these is valid.
func meant(k Kind, val *yaml.Node, dir string) string {
	var candidates []string
	switch val.Kind {
	case yaml.ScalarNode:
		candidates = []string{val.Value, booleans[strings.ToLower(val.Value)]}
	case yaml.SequenceNode:
		if len(val.Content) == 1 {
			candidates = []string{flowText(val.Content[0])}
		}
	}
	for _, text := range candidates {
		var doc yaml.Node
		if text == "" || yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.ScalarNode {
			continue
		}
		if _, err := k.Parse(doc.Content[0], dir); err == nil {
			return text
		}
	}
	return ""
}

var (
	noBlank   = regexp.MustCompile(`^(\s*(?:- )?[a-z_]+):(\S.*)$`)
	keyValue  = regexp.MustCompile(`^(\s*(?:- )?[a-z_]+:\s+)([^"'\s\[{#][^#]*?)(\s+#.*)?$`)
	listOfKey = regexp.MustCompile(`^(\s*(?:- )?[a-z_]+:\s+\[)([^\]"'{]*)(\].*)$`)
	blanks    = regexp.MustCompile(`^[ \t]*`)
)

// maxRepaired is the last line that is tried. Each candidate costs one parse of the file.
const maxRepaired = 100

// repair returns the number of a line near that of a syntax error and its text with which the whole file is valid YAML; 0
// if no small correction makes it so: tabs for spaces, the indentation of the line before, a blank after a colon, quotes,
// a bracket at the end.
func repair(text []byte, at int) (line int, corrected string) {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	try := func(i int, as string) bool {
		if as == lines[i] {
			return false
		}
		all := append(append(append([]string{}, lines[:i]...), as), lines[i+1:]...)
		var doc yaml.Node
		if yaml.Unmarshal([]byte(strings.Join(all, "\n")), &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
			return false
		}
		line, corrected = i+1, as
		return true
	}
	order := []int{at - 1, at - 2, at, at - 3}
	for i := at + 1; i < min(len(lines), maxRepaired); i++ { // some errors have the line where a mapping begins
		order = append(order, i)
	}
	for _, i := range order {
		if i < 0 || i >= len(lines) || strings.TrimSpace(lines[i]) == "" {
			continue
		}
		l := lines[i]
		body := strings.TrimLeft(l, " \t")
		candidates := []string{strings.ReplaceAll(l, "\t", "  "), noBlank.ReplaceAllString(l, "$1: $2"), keyValue.ReplaceAllString(l, `$1"$2"$3`), quoteItems(l),
			l + "]", l + "}", l + "}]", l + `"`, l + "'"}
		for k := i - 1; k >= 0; k-- { // the indentation of the lines before, each width once
			if before := strings.TrimSpace(lines[k]); before != "" && !strings.HasPrefix(before, "#") {
				candidates = append(candidates, blanks.FindString(lines[k])+body)
			}
		}
		for _, c := range candidates {
			if try(i, c) {
				return line, corrected
			}
		}
	}
	return 0, ""
}

// quoteItems quotes the items of a list that are not quoted.
func quoteItems(l string) string {
	m := listOfKey.FindStringSubmatch(l)
	if m == nil {
		return l
	}
	items := strings.Split(m[2], ",")
	for i, item := range items {
		items[i] = `"` + strings.TrimSpace(item) + `"`
	}
	return m[1] + strings.Join(items, ", ") + m[3]
}
