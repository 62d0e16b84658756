package schema

import (
	"reflect"
	"regexp"
	"slices"
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

// booleans gives the booleans of YAML 1.1 that YAML 1.2.2 reads as texts: in section 10.3.2 only true and false are
// booleans.
var booleans = map[string]string{"yes": "true", "on": "true", "no": "false", "off": "false"}

// meant is the text of the value that a value of another type was meant to be: a number or boolean in quotes, the only
// item of a list, a boolean of YAML 1.1; "" if none of these is valid. Each candidate is parsed as the kind parses it,
// so a fix is never refused in turn.
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

// maxRepairBytes bounds the text that is parsed for one repair: a second of time. Files of some kilobytes are tried
// completely, a large one only near the error.
const maxRepairBytes = 16 << 20

// repair returns the number of a line near that of a syntax error and its text with which the whole file is valid YAML; 0
// if no small correction makes it so: tabs for spaces, the indentation of the line before, a blank after a colon, quotes,
// a bracket at the end.
//
// Each candidate is verified by a parse of the whole file. Lines nearest to the error come first, and of their candidates
// those that change the least: a pattern such as *.nc needs quotes, because * begins an alias (YAML 1.2.2, sections 7.1
// and 7.3.3), a colon a blank, an open bracket its end. Only one line is corrected; two mistakes give no correction.
//
// Cost: about ten parses for each of some hundred lines, of at most maxRepairBytes together.
func repair(text []byte, at int) (line int, corrected string) {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	left := maxRepairBytes
	try := func(i int, as string) bool {
		if as == lines[i] || left < len(text) {
			return false
		}
		left -= len(text)
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
		if i < 0 || i >= len(lines) || strings.TrimSpace(lines[i]) == "" || left < len(text) {
			continue
		}
		l := lines[i]
		body := strings.TrimLeft(l, " \t")
		candidates := []string{strings.ReplaceAll(l, "\t", "  "), noBlank.ReplaceAllString(l, "$1: $2"), keyValue.ReplaceAllString(l, `$1"$2"$3`), quoteItems(l),
			l + "]", l + "}", l + "}]", l + `"`, l + "'"}
		for k := i - 1; k >= 0; k-- { // the indentation of the lines before, each width once
			if before := strings.TrimSpace(lines[k]); before != "" && !strings.HasPrefix(before, "#") {
				if c := blanks.FindString(lines[k]) + body; !slices.Contains(candidates, c) {
					candidates = append(candidates, c)
				}
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

// quoteItems quotes the items of a list on one line that are not quoted; other lines are returned unchanged.
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
