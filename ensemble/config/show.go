package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// text is an effective value as YAML text; "" without a value.
func (e *loaded) text(path string) string {
	v := e.values[path]
	if v == nil {
		return ""
	}
	return textOf(e.schema.find(path), reflect.ValueOf(v))
}

// textOf formats a value of the key at n as YAML, in flow style.
func textOf(n *node, v reflect.Value) string {
	if k, ok := kinds[v.Type()]; ok {
		return k.format(v.Interface())
	}
	if v.Kind() == reflect.Struct {
		var parts []string
		for _, name := range n.item.names {
			child := n.item.children[name]
			if f := v.FieldByIndex(child.field); !f.IsZero() {
				parts = append(parts, name+": "+textOf(child, f))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = textOf(n, v.Index(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// YAML is the effective configuration: every key that has a value, in schema order. Loading it
// gives the same configuration.
func (e *loaded) YAML() []byte {
	var b bytes.Buffer
	e.print(&b, false)
	return b.Bytes()
}

// Show writes the effective configuration as YAML; with origin, every value has a comment with its
// source.
func (e *loaded) Show(w io.Writer, origin bool) error {
	var b bytes.Buffer
	e.print(&b, origin)
	_, err := w.Write(b.Bytes())
	return err
}

// print writes YAML in block style. Sections without values are omitted.
func (e *loaded) print(b *bytes.Buffer, origin bool) {
	var walk func(n *node, depth int)
	walk = func(n *node, depth int) {
		for _, name := range n.names {
			child := n.children[name]
			indent := strings.Repeat("  ", depth)
			if child.key == nil {
				mark := b.Len()
				fmt.Fprintf(b, "%s%s:\n", indent, name)
				before := b.Len()
				walk(child, depth+1)
				if b.Len() == before {
					b.Truncate(mark)
				}
				continue
			}
			text := e.text(child.path)
			if text == "" {
				continue
			}
			line := indent + name + ": " + text
			if origin {
				line = fmt.Sprintf("%-48s # %s", line, e.origins[child.path])
			}
			b.WriteString(line + "\n")
		}
	}
	walk(e.schema.root, 0)
}

// Setting is an effective value with its origin.
type Setting struct {
	Value  string `json:"value"` // as YAML text
	Origin string `json:"origin"`
}

// Values returns all keys that have a value.
func (e *loaded) Values() map[string]Setting {
	out := map[string]Setting{}
	e.schema.walkLeaves(func(n *node) {
		if text := e.text(n.path); text != "" {
			out[n.path] = Setting{text, e.origins[n.path].String()}
		}
	})
	return out
}

// Hash is the SHA-256 of the YAML text of the effective configuration.
func (e *loaded) Hash() string {
	sum := sha256.Sum256(e.YAML())
	return hex.EncodeToString(sum[:])
}

// Identity is the SHA-256 of all keys that can change results, without Neutral keys. Runs that
// differ only in threads or checkpoints have the same identity.
func (e *loaded) Identity() string {
	h := sha256.New()
	e.schema.walkLeaves(func(n *node) {
		if !n.key.OutsideIdentity {
			fmt.Fprintf(h, "%s: %s\n", n.path, e.text(n.path)) // writes to a hash do not fail
		}
	})
	return hex.EncodeToString(h.Sum(nil))
}

// ResumeIdentity is the SHA-256 of all keys that may not change when a run is resumed. The checkpoints of a run have the same one.
func (e *loaded) ResumeIdentity() string {
	h := sha256.New()
	e.schema.walkLeaves(func(n *node) {
		if !n.key.MayChangeOnResume {
			fmt.Fprintf(h, "%s: %s\n", n.path, e.text(n.path)) // writes to a hash do not fail
		}
	})
	return hex.EncodeToString(h.Sum(nil))
}

// Change is a key whose value changed between two configurations.
type Change struct {
	Key         string
	Before, Now string // as YAML text; "not set" without a value
}

// CheckResume compares the configuration with the effective configuration that a run started with
// (began, YAML). Keys marked Resume may differ, and those that can change results are returned. A
// key that the run did not record had its default.
//
// Errors: exit 64 with one fault for each other key that differs, with both values; exit 65 if
// began cannot be parsed.
func (e *loaded) CheckResume(began []byte) ([]Change, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(began, &doc); err != nil || len(doc.Content) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "cannot read the effective configuration of the run", Fix: "start a new run directory", Err: err}
	}
	r := reader{schema: e.schema, where: "config.effective.yaml", isFile: true, dir: "/"}
	old := flatten(e.schema.root, r.mapping(e.schema.root, doc.Content[0]))
	if len(r.faults) > 0 {
		return nil, joinFaults(r.faults)
	}
	var faults []*exit.Error
	var changes []Change
	e.schema.walkLeaves(func(n *node) {
		v, ok := old[n.path]
		if !ok {
			v = n.def
		}
		before := ""
		if v != nil {
			before = textOf(n, reflect.ValueOf(v))
		}
		now := e.text(n.path)
		switch {
		case now == before:
		case n.key.MayChangeOnResume:
			if !n.key.OutsideIdentity {
				changes = append(changes, Change{n.path, orNotSet(before), orNotSet(now)})
			}
		default:
			faults = append(faults, e.fault(n.path, fmt.Sprintf("%s changed since the run began", n.path),
				fmt.Sprintf("it was %s and is %s", orNotSet(before), orNotSet(now)), "restore it, or start a new run directory"))
		}
	})
	return changes, joinFaults(faults)
}

// orNotSet is s, or "not set".
func orNotSet(s string) string {
	if s == "" {
		return "not set"
	}
	return s
}

// flatten returns the leaves of a nested map by key path.
func flatten(n *node, tree map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range tree {
		child := n.children[name]
		if child.key != nil {
			out[child.path] = v
			continue
		}
		for path, leaf := range flatten(child, v.(map[string]any)) {
			out[path] = leaf
		}
	}
	return out
}

// JSONSchema returns the JSON Schema (2020-12) of the file, for editors.
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
		if child.key == nil {
			props[name] = child.jsonSchema()
			continue
		}
		props[name] = child.valueSchema()
		if child.key.Required {
			required = append(required, name)
		}
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": props}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// valueSchema is the JSON Schema of a value, with description and default.
func (n *node) valueSchema() map[string]any {
	merged := map[string]any{}
	add := func(m map[string]any) {
		for k, v := range m {
			merged[k] = v
		}
	}
	if k, ok := kindOf(n.typ); ok {
		add(k.schema)
		add(n.key.Check.schema)
	} else {
		item := map[string]any{}
		if k, ok := kindOf(n.typ.Elem()); ok {
			for key, v := range k.schema {
				item[key] = v
			}
			for key, v := range n.key.Check.schema {
				item[key] = v
			}
		} else {
			item = n.item.jsonSchema()
		}
		add(map[string]any{"type": "array", "minItems": 1, "items": item})
	}
	merged["description"] = n.key.Help
	if n.def != nil {
		var v any
		if yaml.Unmarshal([]byte(n.key.Default), &v) == nil {
			merged["default"] = v
		}
	}
	return merged
}

// Explain writes the meaning, values, default and example of one key, or of all keys of a section;
// path "" describes all keys.
//
// Errors: exit 64 for an unknown path, with the nearest key.
func (s *Schema) Explain(w io.Writer, path string) error {
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
		s.explain(w, k)
	}
	if found {
		return nil
	}
	r := reader{schema: s, where: "config explain " + path}
	r.unknown(nil, nil, s.root, path)
	return joinFaults(r.faults)
}

// explain writes the description of one key.
func (s *Schema) explain(w io.Writer, k *Key) {
	n := s.find(k.Path)
	fmt.Fprintln(w, k.Path)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-9s %s\n", name, wrap(text, 66, strings.Repeat(" ", 12)))
		}
	}
	row("meaning", k.Help)
	want := ""
	if kd, ok := kindOf(n.typ); ok {
		want = kd.want
	} else if kd, ok := kindOf(n.typ.Elem()); ok {
		want = "a list of items, each " + kd.want
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
		row("variable", EnvironmentName(k.Path))
	}
	if k.MayChangeOnResume {
		row("resume", "may change when a run is resumed")
	}
}

// wrap breaks text into lines of at most width bytes; lines after the first are indented.
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
