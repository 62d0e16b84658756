package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/internal/dirglob"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// maxFileSize is the largest size of a configuration file in bytes. It keeps data files that are
// given by mistake from being parsed.
const maxFileSize = 1 << 20

// Document is what one file or text sets. Faults of one key do not affect the others, so that a
// user corrects all in one pass; a caller uses Values only if Faults is empty.
type Document struct {
	Text   []byte            // content; nil if it cannot be read or is not YAML
	Values map[string]any    // values of the keys that are set and valid, by path
	At     map[string]string // positions of these keys: "train.yaml:14:3"
	Faults []*exit.Error     // all faults, exit 64
}

// reader reads one source, compares it with the schema and collects all faults. A value is read in
// one recursion over the YAML tree and the schema: mapping, value, leaf, scalar or structure.
type reader struct {
	schema *Schema
	where  string // file name, "--set key" or "environment variable NAME"
	isFile bool   // faults have line and column
	dir    string // base of relative paths
	faults []*exit.Error
	bad    int               // number of faults; faults has the first maxFaults
	values map[string]any    // values read, by path; nil: not recorded
	places map[string]string // positions of these
	others []*Schema         // schemas for which the file may be meant, for hints
}

// at is the position of a node: file, line and column, which count from 1, or the source. Editors and
// terminals open "file:line:column".
func (r *reader) at(n *yaml.Node) string {
	if !r.isFile || n == nil || n.Line == 0 {
		return r.where
	}
	return fmt.Sprintf("%s:%d:%d", r.where, n.Line, n.Column)
}

// maxFaults is the number of faults of one source that are described; the others are counted. A file with
// more is not a configuration, but a file of data.
const maxFaults = 100

// fault adds a fault at the position of a node.
func (r *reader) fault(n *yaml.Node, what, why, fix string) {
	if r.bad++; r.bad <= maxFaults {
		r.faults = append(r.faults, &exit.Error{Code: exit.Usage, What: what, At: r.at(n), Why: why, Fix: fix})
	}
}

// isFull reports whether a fault is only counted, and counts it. The search for the nearest key or word takes most of the
// time of a fault, so it is skipped.
func (r *reader) isFull() bool {
	if r.bad < maxFaults {
		return false
	}
	r.bad++
	return true
}

// allFaults returns the faults, with a last one that counts those without description.
func (r *reader) allFaults() []*exit.Error {
	if more := r.bad - maxFaults; more > 0 {
		return append(r.faults, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d more faults", more), At: r.where, Fix: "give a file with the keys of `ensemble config explain`"})
	}
	return r.faults
}

// ReadFile reads a YAML file. Paths in it are relative to its directory. others are schemas for
// which the file may be meant: a key of theirs is reported as such.
//
// Errors: in Document.Faults, also those of opening the file.
func (s *Schema) ReadFile(path string, others ...*Schema) Document {
	text, err := readBounded(path)
	if err != nil {
		return Document{Faults: []*exit.Error{{Code: exit.Usage, What: "cannot read the configuration file", At: path, Why: osReason(err),
			Fix: suggestFile(path, "give the path of a YAML file with "+s.Flag), Err: err}}}
	}
	return s.ReadText(path, filepath.Dir(path), text, others...)
}

// ReadText is ReadFile for a text; name is its name in positions, dir the base of relative paths.
// An empty text, and one with comments only, sets nothing.
//
// Errors: in Document.Faults.
func (s *Schema) ReadText(name, dir string, text []byte, others ...*Schema) Document {
	r := reader{schema: s, where: name, isFile: true, dir: dir, others: others, values: map[string]any{}, places: map[string]string{}}
	if !r.document(text) {
		return Document{Faults: r.allFaults()}
	}
	return Document{Text: text, Values: r.values, At: r.places, Faults: r.allFaults()}
}

// document reads the keys of a text; false if it is not one YAML mapping. A stream of several
// documents (YAML 1.2.2, section 9.2) is refused, since all but the first would be ignored.
func (r *reader) document(text []byte) bool {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case err == io.EOF:
		return true
	case err != nil:
		r.syntax(err, text)
		return false
	}
	var second yaml.Node
	if err := d.Decode(&second); err != io.EOF {
		r.fault(&second, "the file has more than one YAML document", "", "keep one; to combine files, repeat --config")
		return false
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return true
	}
	if root.Kind != yaml.MappingNode {
		r.fault(root, "the file is not a YAML mapping", "it contains "+describe(root), "begin with `version: 1`")
		return false
	}
	r.mapping(r.schema.root, root)
	return true
}

// ReadValue reads the value of one key from the command line or the environment. where is the
// position in faults, such as "--set train.epochs=5". Paths are relative to the working directory.
//
// Errors: exit 64: an unknown key, or a value that is not valid; the value is then undefined.
func (s *Schema) ReadValue(where, path, text string) (any, []*exit.Error) {
	r := reader{schema: s, where: where}
	l := s.Leaf(path)
	if l == nil || l.item == nil && strings.Contains(path, "[]") {
		r.unknown(nil, nil, s.root, path)
		return nil, r.faults
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || doc.Kind == 0 {
		r.fault(nil, fmt.Sprintf("invalid value %q", text), "it is not valid YAML", "write it as in the file, for example "+path+"="+l.Example)
		return nil, r.faults
	}
	return r.leaf(l, doc.Content[0]), r.allFaults()
}

// readBounded reads a regular file of at most maxFileSize bytes. A pipe is refused, since a
// configuration is read again when a run is resumed.
func readBounded(path string) ([]byte, error) {
	st, err := filesystem.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if st.Size() > maxFileSize {
		return nil, fmt.Errorf("%d bytes, want at most %d", st.Size(), maxFileSize)
	}
	return filesystem.ReadFile(path)
}

// osReason is the text of an operating system error without operation and path, which the message
// already names.
func osReason(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// suggestFile is the fix for a file that cannot be read: if it does not exist, the YAML file in its
// directory with the nearest name; for a directory its only YAML file; else otherwise.
func suggestFile(path, otherwise string) string {
	var names []string
	st, err := filesystem.Stat(path)
	if err == nil && st.IsDir() {
		if found, err := dirglob.In(path, "*.y*ml"); err == nil && len(found) == 1 {
			return "did you mean `" + found[0] + "`?"
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		entries, _ := filesystem.ReadDir(filepath.Dir(path)) // no names if the directory is missing too
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
				names = append(names, e.Name())
			}
		}
	}
	if near := nearest.Find(filepath.Base(path), names); near != "" {
		return "did you mean `" + filepath.Join(filepath.Dir(path), near) + "`?"
	}
	return otherwise
}

// yamlLine matches the line number in an error of the YAML parser.
var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s*)?(?:line ([0-9]+): )?(.*)$`)

// syntax turns an error of the YAML parser into a fault with its line. The line is that of the
// correction if there is one: the parser reports where it cannot continue, which is often behind the
// mistake. With tabs in several lines the fix replaces all of them, since YAML is indented by spaces
// (YAML 1.2.2, section 6.1). The column is 1, since the parser reports none.
func (r *reader) syntax(err error, text []byte) {
	fix := "correct this line or the previous one; quote patterns that begin with * or contain [ ]"
	at, why := r.where, err.Error()
	if m := yamlLine.FindStringSubmatch(strings.ReplaceAll(why, "\n", " ")); m != nil {
		why = m[2]
		if m[1] != "" {
			at += ":" + m[1] + ":1"
		}
		line, _ := strconv.Atoi(m[1]) // 0 without one
		if n, corrected := repair(text, line); n > 0 {
			at, fix = fmt.Sprintf("%s:%d:1", r.where, n), fmt.Sprintf("write line %d as `%s`", n, corrected)
		} else if bytes.Contains(text, []byte("\n\t")) || bytes.Contains(text, []byte(" \t")) {
			fix = "YAML is indented by spaces: type `sed -i 's/\\t/  /g' " + r.where + "`"
		}
	}
	r.bad++
	r.faults = append(r.faults, &exit.Error{Code: exit.Usage, What: "not valid YAML", At: at, Why: why, Fix: fix, Err: err})
}

// mapping reads the keys of a mapping at one node of the schema. The result has the valid values by
// name, sections as maps. Of duplicate keys the first is read; YAML 1.2.2, section 3.2.1.1, requires
// that keys are unique, but parsers usually take the last silently.
func (r *reader) mapping(at *node, m *yaml.Node) map[string]any {
	tree := map[string]any{}
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(m.Content); i += 2 {
		name, val := m.Content[i], m.Content[i+1]
		if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" || name.Anchor != "" {
			r.fault(name, "a key is not a plain word", "merge keys and anchors are not supported", "write the key out")
			continue
		}
		if prev := first[name.Value]; prev != nil {
			r.fault(name, fmt.Sprintf("duplicate key %q", name.Value), fmt.Sprintf("first at line %d", prev.Line), "remove one of the two")
			continue
		}
		first[name.Value] = name
		child := at.children[name.Value]
		if child == nil {
			r.unknown(name, val, at, join(at.path, name.Value))
			continue
		}
		if v, ok := r.value(child, name, val); ok {
			tree[name.Value] = v
		}
	}
	return tree
}

// value reads the value of a known key: a leaf or a mapping. It records values and positions of
// leaves; the position is that of the key, which is the line that a user changes.
func (r *reader) value(child *node, name, val *yaml.Node) (any, bool) {
	if val.Kind == yaml.AliasNode || val.Anchor != "" {
		r.fault(val, "anchors and aliases are not supported", "", "write the value out")
		return nil, false
	}
	if val.Kind == yaml.ScalarNode && val.Tag == "!!null" {
		r.fault(name, fmt.Sprintf("key %q has no value", name.Value), "", "add a value, or remove the line")
		return nil, false
	}
	if l := child.leaf; l != nil {
		before := r.bad
		v := r.leaf(l, val)
		if r.bad > before {
			return nil, false
		}
		if r.values != nil {
			r.values[l.Path], r.places[l.Path] = v, r.at(name)
		}
		return v, true
	}
	if val.Kind != yaml.MappingNode {
		r.fault(val, fmt.Sprintf("%s is %s, want further keys", child.path, describe(val)), "",
			"under `"+name.Value+":` write, indented, one or more of "+strings.Join(child.names, ", "))
		return nil, false
	}
	return r.mapping(child, val), true
}

// leaf parses and checks the value of a key: a scalar, or a list of scalars or structures. The result
// has the type that its kind returns, a list that of the field. It is undefined if faults were added. An
// empty list is refused: removing the line states the same without a question.
func (r *reader) leaf(l *Leaf, val *yaml.Node) any {
	if k, ok := l.kinds.of(l.typ); ok {
		return r.scalar(l, k, val)
	}
	if l.typ.Kind() != reflect.Slice {
		panic("schema: " + l.Path + " has the type " + l.typ.String() + ", which no kind describes")
	}
	if val.Kind != yaml.SequenceNode {
		fix := "write a list: `" + last(l.Path) + ": " + l.Example + "`"
		if val.Kind == yaml.ScalarNode {
			fix = "write a list: `" + last(l.Path) + ": [" + flowText(val) + "]`"
		} else if val.Kind == yaml.MappingNode && l.item != nil {
			fix = "write a list: `" + last(l.Path) + ": [" + flowText(val) + "]`"
		}
		r.fault(val, fmt.Sprintf("%s is %s, want a list", l.Path, describe(val)), "", fix)
		return nil
	}
	if len(val.Content) == 0 {
		r.fault(val, l.Path+" is an empty list", "", "list at least one item, or remove the line")
		return nil
	}
	list := reflect.MakeSlice(l.typ, 0, len(val.Content))
	elem := l.typ.Elem()
	for _, item := range val.Content {
		before := r.bad
		var v any
		if k, ok := l.kinds.of(elem); ok {
			v = r.scalar(l, k, item)
		} else {
			v = r.structure(l.item, elem, item)
		}
		if r.bad == before {
			list = reflect.Append(list, reflect.ValueOf(v))
		}
	}
	return list.Interface()
}

// structure reads one item of a list of structures. Keys that the item lacks have their defaults; a
// missing required one is a fault, unless it is present with a wrong value, which has its own.
func (r *reader) structure(n *node, typ reflect.Type, val *yaml.Node) any {
	out := reflect.New(typ).Elem()
	if val.Kind != yaml.MappingNode {
		r.fault(val, fmt.Sprintf("an item of %s is %s, want keys", strings.TrimSuffix(n.path, "[]"), describe(val)), "",
			"write {"+strings.Join(n.names, ": …, ")+": …}")
		return out.Interface()
	}
	values := r.values
	r.values = nil // only the list as a whole is a value of the file
	tree := r.mapping(n, val)
	r.values = values
	for _, name := range n.names {
		l := n.children[name].leaf
		v, ok := tree[name]
		switch {
		case ok:
		case l.Required && !hasKey(val, name):
			example := l.Example
			if l.ExampleIn != nil {
				example = l.ExampleIn(tree)
			}
			r.fault(val, fmt.Sprintf("an item of %s has no %q", strings.TrimSuffix(n.path, "[]"), name), "", "add `"+name+": "+example+"`")
			continue
		default:
			v = l.Unset
		}
		if v != nil {
			f := out.FieldByIndex(l.Field)
			f.Set(reflect.ValueOf(v).Convert(f.Type()))
		}
	}
	return out.Interface()
}

// firstWithPrefix returns the first word that begins with another of at least three letters, without regard
// to upper case; "" without one. It finds abbreviations, which are too far from the word for nearest.Find.
func firstWithPrefix(prefix string, words []string) string {
	i := slices.IndexFunc(words, func(w string) bool { return len(prefix) >= 3 && strings.HasPrefix(w, strings.ToLower(prefix)) })
	if i < 0 {
		return ""
	}
	return words[i]
}

// hasKey reports whether a mapping has a key.
func hasKey(m *yaml.Node, name string) bool {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return true
		}
	}
	return false
}

// scalar parses a value of one of the kinds and applies the check of its key. The fix is the first that
// applies: the value that the kind states instead, the value that was meant (see meant), the nearest
// allowed word, the example of the key.
func (r *reader) scalar(l *Leaf, k Kind, val *yaml.Node) any {
	if val.Kind == yaml.AliasNode || val.Anchor != "" {
		r.fault(val, "anchors and aliases are not supported", "", "write the value out")
		return nil
	}
	v, err := any(nil), ErrKind
	if val.Kind == yaml.ScalarNode && val.Tag != "!!null" || k.Nested {
		v, err = k.Parse(val, r.dir)
	}
	example, instead := l.Example, ""
	if errors.Is(err, ErrKind) {
		instead = meant(k, val, r.dir)
	}
	var other *InsteadError
	switch {
	case errors.As(err, &other):
		r.fault(val, fmt.Sprintf("%s: %v", l.Path, err), "", inPlace(l, other.Instead))
		return nil
	case instead != "":
		r.fault(val, fmt.Sprintf("%s is %s, want %s", l.Path, describe(val), k.Want), "", inPlace(l, instead))
		return nil
	case errors.Is(err, ErrKind):
		r.fault(val, fmt.Sprintf("%s is %s, want %s", l.Path, describe(val), k.Want), "", "for example `"+last(l.Path)+": "+example+"`")
		return nil
	case err != nil:
		r.fault(val, fmt.Sprintf("%s: %v", l.Path, err), "", "give "+k.Want)
		return nil
	}
	if c := l.Check; c.Allows != nil && !c.Allows(v) {
		if r.isFull() {
			return nil
		}
		fix := "for example `" + last(l.Path) + ": " + example + "`"
		if near := cmp.Or(nearest.Find(fmt.Sprint(v), c.Words), firstWithPrefix(fmt.Sprint(v), c.Words)); near != "" {
			fix = "did you mean `" + near + "`? " + inPlace(l, near)
		}
		r.fault(val, fmt.Sprintf("%s is %s, want %s", l.Path, k.Format(v), c.Text), "", fix)
		return nil
	}
	return v
}

// unknown adds the fault of an unknown key. It suggests the nearest key of the same mapping, a key
// with the same name elsewhere, or the nearest path.
func (r *reader) unknown(name, val *yaml.Node, at *node, path string) {
	if r.isFull() {
		return
	}
	word, fix := path, "`ensemble config explain` lists all keys"
	if name != nil {
		word = name.Value
	}
	here := nearest.Find(word, at.names)
	elsewhere := ""
	if here == "" {
		elsewhere = cmp.Or(r.schema.findByLastName(last(path)), nearest.Find(path, r.schema.Names()))
	}
	switch {
	case here != "":
		fix = "did you mean `" + here + "`?" + r.line("", here, val)
	case elsewhere != "":
		section := strings.TrimSuffix(elsewhere, last(elsewhere))
		fix = "did you mean `" + elsewhere + "`?" + r.line(strings.TrimSuffix(section, "."), last(elsewhere), val)
	case name != nil:
		fix = "want one of " + strings.Join(at.names, ", ")
	}
	why := ""
	for _, of := range r.others {
		if at == r.schema.root && of != r.schema && of.root.children[word] != nil {
			why = "it is a key of the configuration of `ensemble " + of.Name + "`"
			if r.isFile {
				fix = "leave out the file " + r.where
			}
		}
	}
	r.fault(name, fmt.Sprintf("unknown key %q", word), why, fix)
}

// line is the end of a fix: the line of a key with a value that the file gives to another key, and the section under
// which it belongs; or the argument of --set. It completes "did you mean" to text that can be typed or pasted; "" if the
// value is too long to repeat.
func (r *reader) line(section, key string, val *yaml.Node) string {
	if name, value, ok := strings.Cut(strings.TrimPrefix(r.where, "--set "), "="); ok && !r.isFile && name != "" {
		path := key
		if section != "" {
			path = section + "." + key
		}
		return " type `--set " + path + "=" + value + "`"
	}
	text := flowText(val)
	switch {
	case text == "" || strings.Contains(section, "[]"):
		return ""
	case section == "":
		return " write `" + key + ": " + text + "`"
	}
	return " under `" + strings.ReplaceAll(section, ".", ":` and `") + ":` write `" + key + ": " + text + "`"
}

// maxFlowText is the length of the longest value that a fix repeats.
const maxFlowText = 200

// flowText formats a value of a file on one line, without its comments, in flow style (YAML 1.2.2,
// section 7.4), which is valid at every indentation; "" if it is long or has a line break.
func flowText(val *yaml.Node) string {
	if val == nil {
		return ""
	}
	var flow func(*yaml.Node) *yaml.Node
	flow = func(n *yaml.Node) *yaml.Node {
		out := *n
		out.HeadComment, out.LineComment, out.FootComment = "", "", ""
		if n.Kind != yaml.ScalarNode {
			out.Style = yaml.FlowStyle
		}
		out.Content = nil
		for _, c := range n.Content {
			out.Content = append(out.Content, flow(c))
		}
		return &out
	}
	text, err := yaml.Marshal(flow(val))
	line := strings.TrimSpace(string(text))
	if err != nil || len(line) > maxFlowText || strings.Contains(line, "\n") {
		return ""
	}
	return line
}

// findByLastName finds the path of the key or section with this last name. Of several, it returns the
// one with the fewest components, and of these the first.
func (s *Schema) findByLastName(name string) (found string) {
	for _, k := range s.Keys {
		for path := k.Path; path != ""; path = path[:max(0, strings.LastIndexByte(path, '.'))] {
			if last(path) == name && (found == "" || strings.Count(path, ".") < strings.Count(found, ".")) {
				found = path
			}
		}
	}
	return found
}

// last is the last component of a key path.
func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// join appends a component to a key path.
func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// describe names a YAML value in an error "x is …, want …". The tag is the one that the core schema
// gives a plain scalar (YAML 1.2.2, section 10.3), so a quoted number is shown with quotes.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!null":
		return "empty"
	case "!!int", "!!float", "!!bool":
		return n.Value
	case "!!timestamp":
		return "the date " + n.Value
	}
	return strconv.Quote(n.Value)
}
