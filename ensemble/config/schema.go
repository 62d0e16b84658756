package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is one row of a schema's table: a configuration key. Its Go type is that of the field with
// the same path.
type Key struct {
	Path    string // "train.batch_size"; "data.targets[].variable" in a list of structures
	Default string // YAML text; "": the zero value, see Required
	Check   Check  // condition on values, beyond their type
	Help    string // meaning in one or two sentences, with the unit unless values include it
	Example string // YAML text of a value
	// Required: the key must be set; in a list of structures, in each item.
	Required bool
	// MayChangeOnResume: a run may be resumed with another value.
	MayChangeOnResume bool
	// OutsideIdentity: the key does not change results, only speed or checkpoints, and is not part of the
	// identity of a run.
	OutsideIdentity bool
}

// Schema describes one type of configuration file.
type Schema struct {
	Name string // "train"
	Keys []Key
	root *node
	flag string // flag that names the file, for fixes
	// fileOnly: environment variables set no key. optional: the file may be missing.
	fileOnly, optional bool
}

// node is a node of the configuration tree: a section, or a leaf with a key.
type node struct {
	path     string
	names    []string // names of the children in table order
	children map[string]*node
	key      *Key         // leaf or list of structures; nil for sections
	typ      reflect.Type // Go type of the field
	field    []int        // index of the field in the root structure, or in the item of a list
	item     *node        // node of the items of a list of structures
	def      any          // parsed default; nil: none
}

// newSchema builds a schema from a table and the Go structure T with the same keys.
//
// It panics if a key has no field or a field no key; a test loads every schema.
func newSchema[T any](name string, keys []Key) *Schema {
	s := &Schema{Name: name, Keys: keys, root: &node{children: map[string]*node{}}, flag: "--config"}
	fields := map[string]reflect.StructField{}
	collectLeaves(reflect.TypeFor[T](), "", nil, fields)
	for i := range keys {
		k := &keys[i]
		f, ok := fields[k.Path]
		if !ok {
			panic("config: no field has the key " + k.Path)
		}
		delete(fields, k.Path)
		s.insert(k, f)
	}
	for path := range fields {
		panic("config: no row describes the field " + path)
	}
	return s
}

// newFileSchema is newSchema for files that environment variables and --set cannot override. flag
// names the file in fixes.
func newFileSchema[T any](name, flag string, keys []Key) *Schema {
	s := newSchema[T](name, keys)
	s.flag, s.fileOnly = flag, true
	return s
}

// newOptionalSchema is newSchema for a file that may be left out.
func newOptionalSchema[T any](name string, keys []Key) *Schema {
	s := newSchema[T](name, keys)
	s.optional = true
	return s
}

// collectLeaves adds the leaves of a structure by the paths of their `key` tags to into. The Index of each
// field is relative to the root structure, or to the item of a list.
func collectLeaves(t reflect.Type, prefix string, index []int, into map[string]reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("key")
		if f.Anonymous { // keys of embedded structures are promoted
			collectLeaves(f.Type, prefix, append(slices.Clone(index), i), into)
			continue
		}
		if !ok {
			panic("config: field " + f.Name + " of " + t.String() + " has no key tag")
		}
		path := prefix + tag
		f.Index = append(append([]int{}, index...), i)
		_, leaf := kindOf(f.Type)
		switch {
		case !leaf && f.Type.Kind() == reflect.Struct:
			collectLeaves(f.Type, path+".", f.Index, into)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct && !isKind(f.Type.Elem()):
			into[path] = f
			collectLeaves(f.Type.Elem(), path+"[].", nil, into)
		default:
			into[path] = f
		}
	}
}

// isKind reports whether a type has a syntax of its own.
func isKind(t reflect.Type) bool { _, ok := kindOf(t); return ok }

// insert inserts a row into the tree and creates the sections on its path.
func (s *Schema) insert(k *Key, f reflect.StructField) {
	at, done := s.root, ""
	parts := strings.Split(k.Path, ".")
	for i, part := range parts {
		name, list := strings.CutSuffix(part, "[]")
		done = strings.TrimPrefix(done+"."+part, ".")
		next := at.children[name]
		if next == nil {
			next = &node{path: strings.TrimSuffix(done, "[]"), children: map[string]*node{}}
			at.children[name] = next
			at.names = append(at.names, name)
		}
		if i == len(parts)-1 {
			next.key, next.typ, next.field = k, f.Type, f.Index
			if k.Default != "" {
				next.def = s.parseDefault(next)
			}
			return
		}
		at = next
		if list {
			if next.item == nil {
				next.item = &node{path: done, children: map[string]*node{}}
			}
			at = next.item
		}
	}
}

// parseDefault parses the default of a key. It panics if the default is invalid.
func (s *Schema) parseDefault(n *node) any {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(n.key.Default), &doc); err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", n.path, err))
	}
	r := reader{where: "default of " + n.path}
	v := r.leaf(n, doc.Content[0])
	if len(r.faults) > 0 {
		panic(fmt.Sprintf("config: default of %s: %v", n.path, r.faults[0]))
	}
	return v
}

// walkLeaves visits all leaves in table order, without those within lists of structures.
func (s *Schema) walkLeaves(visit func(*node)) {
	var walk func(*node)
	walk = func(n *node) {
		if n.key != nil {
			visit(n)
			return
		}
		for _, name := range n.names {
			walk(n.children[name])
		}
	}
	walk(s.root)
}

// find returns the node of a key path, nil if there is none. Fields of the items of a list have
// paths such as "list[].name".
func (s *Schema) find(path string) *node {
	at := s.root
	for part := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(part, "[]")
		at = at.children[name]
		if at == nil {
			return nil
		}
		if list {
			if at = at.item; at == nil {
				return nil
			}
		}
	}
	return at
}

// Choices lists the allowed words of a key; nil if its values are no words, or for unknown keys.
func (s *Schema) Choices(path string) []string {
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Path == path })
	if i < 0 {
		return nil
	}
	return s.Keys[i].Check.names
}

// Names lists the paths of all keys in table order, for completion and search.
func (s *Schema) Names() []string {
	names := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		names[i] = k.Path
	}
	return names
}
