package config

import (
	"io"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Schema describes one type of configuration file, and which sources may set its keys.
type Schema struct {
	*schema.Schema
	// fileOnly: environment variables set no key. optional: the file may be missing.
	fileOnly, optional bool
}

// newSchema builds a schema from a table and the Go structure T with the same keys.
//
// It panics if a key has no field or a field no key; a test loads every schema.
func newSchema[T any](name string, keys []schema.Key) *Schema {
	return &Schema{Schema: schema.New[T](name, kinds, keys)}
}

// NewFileSchema is newSchema for files that environment variables and --set cannot override. flag
// names the file in fixes.
func NewFileSchema[T any](name, flag string, keys []schema.Key) *Schema {
	s := newSchema[T](name, keys)
	s.Flag, s.fileOnly = flag, true
	return s
}

// newOptionalSchema is newSchema for a file that may be left out.
func newOptionalSchema[T any](name string, keys []schema.Key) *Schema {
	s := newSchema[T](name, keys)
	s.optional = true
	return s
}

// Explain writes the meaning, values, default, example and environment variable of one key, or of
// all keys of a section; path "" describes all keys.
//
// Errors: exit 64 for an unknown path, with the nearest key.
func (s *Schema) Explain(w io.Writer, path string) error {
	return s.Schema.Explain(w, path, EnvironmentName)
}
