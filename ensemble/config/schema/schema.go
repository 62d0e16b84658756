package schema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is one row of a schema's table: a key of a file. Its Go type is that of the field with the
// same path.
type Key struct {
	Path    string // "train.batch_size"; "data.targets[].variable" in a list of structures
	Default string // YAML text; "": the zero value, see Required
	Check   Check  // condition on values, beyond their type
	Help    string // meaning in one or two sentences, with the unit unless values include it
	Example string // YAML text of a value
	// ExampleIn gives the example for an item of a list that lacks the key, from the other keys of
	// the item; nil: Example.
	ExampleIn func(item map[string]any) string
	// Required: the key must be set; in a list of structures, in each item.
	Required bool
	// MayChangeOnResume: a run may be resumed with another value.
	MayChangeOnResume bool
	// OutsideIdentity: the key does not change results, only speed or checkpoints, and is not part of the
	// identity of a run.
	OutsideIdentity bool
}

// Check is a condition on the value of a key; for a list, on every element. The zero value allows
// all values.
type Check struct {
	Text   string           // condition in words, for help and errors: "1 or more"
	Allows func(v any) bool // nil allows all values
	Words  []string         // allowed words, for suggestions; nil if values are no words
	JSON   map[string]any   // the condition as JSON Schema keywords, as far as it has them
}

// Kind is the syntax of one Go type in a file.
type Kind struct {
	Want string // expected value in words: "a duration such as 48h"
	// Parse converts a value. Paths are relative to dir.
	//
	// Errors: ErrKind for a value of another type; *InsteadError where the right value follows from
	// the wrong one; any other error with the reason.
	Parse  func(n *yaml.Node, dir string) (any, error)
	Format func(v any) string // YAML text that Parse reads back to the same value
	JSON   map[string]any     // JSON Schema of the value
	// Nested: Parse takes lists or mappings, not only scalars.
	Nested bool
}

// Kinds maps Go types to their syntax. A field of another type is a list of these, a list of
// structures, or a structure of further keys. Named string types have the syntax of string.
type Kinds map[reflect.Type]Kind

// ErrKind reports a value of another type; the reader adds the value and the expected syntax.
var ErrKind = errors.New("wrong type of value")

// InsteadError reports a value that is wrong in a way that determines the right one.
type InsteadError struct {
	Text    string // why it is wrong
	Instead string // the right value, as YAML text
}

func (e *InsteadError) Error() string { return e.Text }

// of returns the syntax of a type.
func (k Kinds) of(t reflect.Type) (Kind, bool) {
	kind, ok := k[t]
	if !ok && t.Kind() == reflect.String {
		kind, ok = k[reflect.TypeFor[string]()]
	}
	return kind, ok
}

// has reports whether a type has a syntax of its own.
func (k Kinds) has(t reflect.Type) bool { _, ok := k.of(t); return ok }

// Schema describes one type of file. New builds it.
type Schema struct {
	Name   string // "train"
	Keys   []Key
	Flag   string // flag that names the file, for fixes
	kinds  Kinds
	root   *node
	leaves []*Leaf
}

// Leaf is a key with the field that holds its value.
type Leaf struct {
	*Key
	Unset any   // value of a file without the key: the parsed default; nil: none
	Field []int // index of the field in the structure, for reflect; in a list of structures, in the item
	typ   reflect.Type
	item  *node // node of the items of a list of structures
	kinds Kinds
}

// node is a node of the tree of keys: a section, or a leaf. The items of a list of structures are a tree of
// their own, at Leaf.item.
type node struct {
	path     string
	names    []string // names of the children in table order
	children map[string]*node
	leaf     *Leaf // nil for sections
}

// New builds a schema from a table and the Go structure T with the same keys.
//
// It panics if a key has no field or a field no key, or if a default is not valid: these are faults
// of the program, which every test of a schema finds.
func New[T any](name string, kinds Kinds, keys []Key) *Schema {
	s := &Schema{Name: name, Keys: keys, Flag: "--config", kinds: kinds, root: &node{children: map[string]*node{}}}
	fields := map[string]reflect.StructField{}
	s.collectFields(reflect.TypeFor[T](), "", nil, fields)
	for i := range keys {
		k := &keys[i]
		f, ok := fields[k.Path]
		if !ok {
			panic("schema: no field has the key " + k.Path)
		}
		delete(fields, k.Path)
		s.insert(k, f)
	}
	for path := range fields {
		panic("schema: no row describes the field " + path)
	}
	s.collectLeaves(s.root)
	return s
}

// collectFields adds the fields of a structure by the paths of their `key` tags to into. The Index of each
// field is relative to the root structure, or to the item of a list.
func (s *Schema) collectFields(t reflect.Type, prefix string, index []int, into map[string]reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("key")
		if f.Anonymous { // keys of embedded structures are promoted
			s.collectFields(f.Type, prefix, append(slices.Clone(index), i), into)
			continue
		}
		if !ok {
			panic("schema: field " + f.Name + " of " + t.String() + " has no key tag")
		}
		path := prefix + tag
		f.Index = append(append([]int{}, index...), i)
		switch {
		case !s.kinds.has(f.Type) && f.Type.Kind() == reflect.Struct:
			s.collectFields(f.Type, path+".", f.Index, into)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct && !s.kinds.has(f.Type.Elem()):
			into[path] = f
			s.collectFields(f.Type.Elem(), path+"[].", nil, into)
		default:
			into[path] = f
		}
	}
}

// insert inserts a row into the tree and creates the sections on its path. The row of a list precedes those
// of the keys of its items.
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
			next.leaf = &Leaf{Key: k, Field: f.Index, typ: f.Type, kinds: s.kinds}
			if k.Default != "" {
				next.leaf.Unset = s.parseDefault(next.leaf)
			}
			return
		}
		at = next
		if list {
			if next.leaf == nil {
				panic("schema: " + k.Path + " precedes the row of its list")
			}
			if next.leaf.item == nil {
				next.leaf.item = &node{path: done, children: map[string]*node{}}
			}
			at = next.leaf.item
		}
	}
}

// parseDefault parses the default of a key. It panics if the default is invalid.
func (s *Schema) parseDefault(l *Leaf) any {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(l.Default), &doc); err != nil {
		panic(fmt.Sprintf("schema: default of %s: %v", l.Path, err))
	}
	r := reader{schema: s, where: "default of " + l.Path}
	v := r.leaf(l, doc.Content[0])
	if len(r.faults) > 0 {
		panic(fmt.Sprintf("schema: default of %s: %v", l.Path, r.faults[0]))
	}
	return v
}

// collectLeaves appends the leaves below a node in table order, without those within lists of
// structures.
func (s *Schema) collectLeaves(n *node) {
	for _, name := range n.names {
		if child := n.children[name]; child.leaf != nil {
			s.leaves = append(s.leaves, child.leaf)
		} else {
			s.collectLeaves(child)
		}
	}
}

// Leaves lists the keys in the order of the table, section by section, without those within lists
// of structures. The result is shared and must not be changed.
func (s *Schema) Leaves() []*Leaf { return s.leaves }

// Leaf returns the key with a path; nil if there is none. Keys of the items of a list have paths
// such as "list[].name".
func (s *Schema) Leaf(path string) *Leaf {
	at := s.root
	for part := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(part, "[]")
		at = at.children[name]
		if at == nil {
			return nil
		}
		if list {
			if at.leaf == nil || at.leaf.item == nil {
				return nil
			}
			at = at.leaf.item
		}
	}
	return at.leaf
}

// Choices lists the allowed words of a key; nil if its values are no words, or for unknown keys.
func (s *Schema) Choices(path string) []string {
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Path == path })
	if i < 0 {
		return nil
	}
	return s.Keys[i].Check.Words
}

// Names lists the paths of all keys in table order, for completion and search.
func (s *Schema) Names() []string {
	names := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		names[i] = k.Path
	}
	return names
}
