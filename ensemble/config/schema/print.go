package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Text formats a value of the key as YAML, in flow style; "" for nil. Reading the text gives the
// value again.
func (l *Leaf) Text(v any) string {
	if v == nil {
		return ""
	}
	return l.text(reflect.ValueOf(v))
}

// text formats a value, or an item of a list.
func (l *Leaf) text(v reflect.Value) string {
	if k, ok := l.kinds[v.Type()]; ok {
		return k.Format(v.Interface())
	}
	if v.Kind() == reflect.Struct {
		var parts []string
		for _, name := range l.item.names {
			child := l.item.children[name].leaf
			if f := v.FieldByIndex(child.Field); !f.IsZero() {
				parts = append(parts, name+": "+child.text(f))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = l.text(v.Index(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// YAML formats a file in block style, in the order of the schema. line returns the text of the
// value of a key and the comment behind it; a key without text, and a section without keys, is left out.
func (s *Schema) YAML(line func(l *Leaf) (text, comment string)) []byte {
	var b bytes.Buffer
	var walk func(n *node, depth int)
	walk = func(n *node, depth int) {
		for _, name := range n.names {
			child := n.children[name]
			indent := strings.Repeat("  ", depth)
			if child.leaf == nil {
				mark := b.Len()
				fmt.Fprintf(&b, "%s%s:\n", indent, name)
				before := b.Len()
				walk(child, depth+1)
				if b.Len() == before {
					b.Truncate(mark)
				}
				continue
			}
			text, comment := line(child.leaf)
			if text == "" {
				continue
			}
			row := indent + name + ": " + text
			if comment != "" {
				row = fmt.Sprintf("%-48s # %s", row, comment)
			}
			b.WriteString(row + "\n")
		}
	}
	walk(s.root, 0)
	return b.Bytes()
}

// JSONSchema returns the JSON Schema (2020-12) of the file, for editors. It is less strict than reading: it
// lacks rules between keys and whatever a Kind or Check does not express as keywords. Unknown keys are
// refused (additionalProperties), so that an editor marks a misspelt one.
//
// Source: JSON Schema, draft 2020-12, core section 10.3 (applicators), validation sections 6 and 9.
func (s *Schema) JSONSchema() ([]byte, error) {
	out := s.root.jsonSchema()
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = "ensemble " + s.Name
	return json.MarshalIndent(out, "", "  ")
}

// jsonSchema is the JSON Schema of a section: an object without additional properties.
func (n *node) jsonSchema() map[string]any {
	props, required := map[string]any{}, []string{}
	for _, name := range n.names {
		child := n.children[name]
		if child.leaf == nil {
			props[name] = child.jsonSchema()
			continue
		}
		props[name] = child.leaf.valueSchema()
		if child.leaf.Required {
			required = append(required, name)
		}
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": props}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// valueSchema is the JSON Schema of a value, with description and default. Conditions on a list are those of
// its items.
func (l *Leaf) valueSchema() map[string]any {
	merged := map[string]any{}
	add := func(m map[string]any) {
		for k, v := range m {
			merged[k] = v
		}
	}
	if k, ok := l.kinds.of(l.typ); ok {
		add(k.JSON)
		add(l.Check.JSON)
	} else {
		item := map[string]any{}
		if k, ok := l.kinds.of(l.typ.Elem()); ok {
			for key, v := range k.JSON {
				item[key] = v
			}
			for key, v := range l.Check.JSON {
				item[key] = v
			}
		} else {
			item = l.item.jsonSchema()
		}
		add(map[string]any{"type": "array", "minItems": 1, "items": item})
	}
	merged["description"] = l.Help
	if l.Unset != nil {
		var v any
		if yaml.Unmarshal([]byte(l.Default), &v) == nil {
			merged["default"] = v
		}
	}
	return merged
}

// Explain writes the meaning, values, default and example of one key, or of all keys of a section;
// path "" describes all keys. variable returns the environment variable of a key.
//
// Errors: exit 64 for an unknown path, with the nearest key.
func (s *Schema) Explain(w io.Writer, path string, variable func(key string) string) error {
	found := false
	for i := range s.Keys {
		k := &s.Keys[i]
		if path != "" && k.Path != path && !strings.HasPrefix(k.Path, path+".") && !strings.HasPrefix(k.Path, path+"[]") {
			continue
		}
		if found {
			fmt.Fprintln(w)
		}
		found = true
		s.Leaf(k.Path).explain(w, variable(k.Path))
	}
	if found {
		return nil
	}
	r := reader{schema: s, where: "config explain " + path}
	r.unknown(nil, nil, s.root, path)
	return r.faults[0]
}

// explain writes the description of one key.
func (l *Leaf) explain(w io.Writer, variable string) {
	k := l.Key
	fmt.Fprintln(w, k.Path)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-9s %s\n", name, wrap(text, 66, strings.Repeat(" ", 12)))
		}
	}
	row("meaning", k.Help)
	want := ""
	if kd, ok := l.kinds.of(l.typ); ok {
		want = kd.Want
	} else if kd, ok := l.kinds.of(l.typ.Elem()); ok {
		want = "a list of items, each " + kd.Want
	} else {
		want = "a list of structures"
	}
	if k.Check.Text != "" {
		want += "; " + k.Check.Text
	}
	row("value", want)
	if k.Required {
		row("default", "none (required)")
	} else {
		row("default", k.Default)
	}
	row("example", k.Example)
	if !strings.Contains(k.Path, "[]") {
		row("variable", variable)
	}
	if k.MayChangeOnResume {
		row("resume", "may change when a run is resumed")
	}
}

// wrap breaks text into lines of at most width bytes; lines after the first are indented. A longer word has a
// line of its own.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	col := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case col+1+len(word) > width:
			b.WriteString("\n" + indent)
			col = 0
		default:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += len(word)
	}
	return b.String()
}
