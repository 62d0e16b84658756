package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is one row of a schema's table. Its Go type is that of the field with the
// same path.
type Key struct {
	Path    string // "train.batch_size"; "data.targets[].variable" in a list of structures
	Default string // YAML text; "" has the zero value, see Required
	Check   Check  // what values are allowed beyond their type
	Help    string // one or two sentences, with the unit if it is not part of the value
	Example string // YAML text of a value
	// Required keys must be given: there is no sensible default. In a list of
	// structures it means in each item.
	Required bool
	// MayChangeOnResume says that a run may be resumed with another value of this key.
	MayChangeOnResume bool
	// OutsideIdentity says that the key is no part of what a run is: it decides how fast it
	// goes or what is kept on the way.
	OutsideIdentity bool
}

// Schema is the description of one configuration file.
type Schema struct {
	Name string // "train"
	Keys []Key
	root *node
	flag string // that names the file
	// fileOnly says that no variable of the environment sets a key; optional, that there
	// need be no file.
	fileOnly, optional bool
}

// A node is one place of the configuration tree.
type node struct {
	path     string
	names    []string // children in the order of the table
	children map[string]*node
	key      *Key         // of a leaf; of a list of structures
	typ      reflect.Type // Go type of the field
	field    []int        // its index in the structure that holds the leaves
	item     *node        // structure of the items of a list of structures
	def      any          // parsed default, nil if none
}

// newSchema joins a table with the Go structure of the same keys.
//
// Errors: panics if the two do not belong together; a test loads every schema.
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

// newFileSchema is newSchema for a file that a flag names, and nothing else sets.
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

// collectLeaves lists the leaves of a structure by the paths of their `key` tags; the
// Index of each is complete from the structure that holds it.
func collectLeaves(t reflect.Type, prefix string, index []int, into map[string]reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("key")
		if f.Anonymous { // its keys are those of the structure
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

func isKind(t reflect.Type) bool { _, ok := kindOf(t); return ok }

// insert hangs a row into the tree.
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

// walkLeaves visits the leaves outside of lists of structures, in table order.
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

// find gives the place of a key path, nil if there is none. The items of a list
// of structures are found under "list[].name".
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

// Choices are the words that a key takes; nil if it takes others, or there is no such key.
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
