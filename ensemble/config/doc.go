// Package config holds the one schema of the YAML files and reads them.
//
// A schema is a Go structure (Train) and a table of rows, one a key: default,
// check, help, example. The Go type of the field gives the syntax of the value
// (kinds.go). To add a key, add a field with its `key` tag and a row of the same
// path; a test fails if one of the two is missing. Everything else follows from
// the table: strict reading, the overlay, `config show`, `config schema`, `config
// explain`, completion.
//
// Reading is strict. The parsed YAML tree is compared with the schema first: a
// key that is not known at its place, a key given twice, a wrong type, a value
// out of range. All faults of all sources are found in one pass, each with file,
// line, column and the nearest known key. Only then the values go to viper, which
// lays the sources over each other: default < files in order < environment
// (ENSEMBLE_TRAIN_EPOCHS for train.epochs) < --set. Because viper lower-cases map
// keys, names that come from data are values in this schema, never keys.
package config
