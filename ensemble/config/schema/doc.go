// Package schema describes YAML files by a Go structure and a table of keys, and reads them
// strictly.
//
// A [Schema] is a tree of sections and keys (schema.go). Each field of the structure has a `key`
// tag and one row of the table, a [Key]; the Go type of the field selects the syntax of its value,
// a [Kind]. Reading compares the YAML tree with the schema (read.go) and collects all faults in one
// pass: unknown keys, duplicate keys, wrong types, values out of range, anchors, several documents.
// Each fault has file, line and column, and as its fix the line to write, with the nearest key or
// word, the missing unit or quotes; repair.go finds the corrected line of a file that is not YAML.
// print.go writes values as YAML, JSON Schema for editors, and explanations of keys.
//
// YAML 1.2.2 is read without anchors and aliases (sections 6.9.2 and 7.1), which could expand
// without limit and have no single position to report, and without the merge keys of YAML 1.1.
// Files have at most 1 MiB. A value exists, or the key is absent: null is refused, since a reader
// cannot see whether it means the default, zero or nothing.
//
// The package holds no schema. Package config has those of the program, and merges files with
// environment variables and flags.
package schema
