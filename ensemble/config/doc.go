// Package config defines the schemas of the YAML files of jobs and machines, and loads YAML files of any schema. Those of experiments
// and of protocols are in packages experimentfile and protocolfile.
//
// A schema is a Go structure such as Train and a table with one row for each key: default,
// condition, help, example. The Go type of a field defines the syntax of its value (kinds.go). To
// add a key, add a field with a `key` tag and a row with the same path; a test fails if one of
// them is missing. Strict reading, overrides, `config show`, `config schema`, `config explain` and
// shell completion follow from the table.
//
// Package schema reads files strictly. All faults of all sources are reported in one pass, each
// with file, line, column and the nearest valid key. The values then go to viper, which merges the
// sources in the order default, files, environment (ENSEMBLE_TRAIN_EPOCHS for train.epochs), --set,
// flags (load.go); later sources have precedence. Viper converts map keys to lower case. Names from
// data, such as variables, are therefore values in these schemas, never keys. Rules between keys are
// checked after that, with the position of the key that breaks them.
package config
