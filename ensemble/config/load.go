package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Sources lists the sources of a configuration, in increasing precedence: the defaults of the
// schema, the files in order, environment variables, --set assignments, flags.
type Sources struct {
	Files []string // YAML files; later ones override earlier ones
	Set   []string // assignments of --set, such as "train.epochs=5"
	Flags []Flag   // flags of the command that set keys
	// IgnoreEnvironment ignores environment variables, so that the result depends on the other sources only.
	IgnoreEnvironment bool

	texts map[string][]byte // contents of built-in files by name
	unset []string          // keys that are reset to their defaults
}

// Flag is a command-line flag that sets a key.
type Flag struct {
	Name  string // "--quantiles"
	Key   string
	Value string // YAML text
}

// Origin is the source of an effective value.
type Origin struct {
	Layer string // "default", "file", "environment", "--set", "flag"
	Where string // "train.yaml:14:3", the variable's name, the assignment; "" for a default
}

// String formats the origin for a comment after the value.
func (o Origin) String() string {
	if o.Where == "" {
		return o.Layer
	}
	return o.Where
}

// SourceFile is a configuration file with its content and checksum.
type SourceFile struct {
	Path   string
	Text   []byte
	SHA256 string
}

// loaded is a loaded configuration of any schema: values, origins, files. It is embedded in the
// typed configurations.
type loaded struct {
	schema   *Schema
	values   map[string]any // by key path; nil without value and default
	origins  map[string]Origin
	files    []SourceFile
	warnings []string
}

// nonKeyVariables lists the ENSEMBLE_ variables that set no key. Module systems of computing
// centres set ENSEMBLE_VERSION.
var nonKeyVariables = []string{"ENSEMBLE_CUDA_PATH", "ENSEMBLE_DATA", "ENSEMBLE_DECODE", "ENSEMBLE_PEERS", "ENSEMBLE_TEST_DATA", "ENSEMBLE_TEST_DEMO", "ENSEMBLE_VERSION"}

// load reads and merges all sources.
//
// Errors: exit 64 with all faults, in the order of the sources.
func load(s *Schema, src Sources) (*loaded, error) {
	e := &loaded{schema: s, values: map[string]any{}, origins: map[string]Origin{}}
	v := viper.New()
	var faults []*exit.Error
	s.walkLeaves(func(n *node) {
		e.origins[n.path] = Origin{Layer: "default"}
		if n.def != nil {
			v.SetDefault(n.path, n.def)
		}
	})
	for _, path := range src.Files {
		r := reader{schema: s, origin: e.origins, texts: src.texts, others: []*Schema{TrainSchema, PredictSchema}}
		tree, text := r.file(path)
		faults = append(faults, r.faults...)
		sum := sha256.Sum256(text)
		e.files = append(e.files, SourceFile{path, text, hex.EncodeToString(sum[:])})
		if err := v.MergeConfigMap(tree); err != nil {
			return nil, fmt.Errorf("merge %s: %w", path, err)
		}
	}
	parsed := map[string]any{} // values of environment variables
	s.walkLeaves(func(n *node) {
		name := EnvironmentName(n.path)
		text := os.Getenv(name)
		if s.fileOnly || src.IgnoreEnvironment || text == "" || slices.Contains(nonKeyVariables, name) {
			return
		}
		r := reader{schema: s, where: "environment variable " + name}
		if value, ok := r.assignment(n.path, text); ok {
			parsed[n.path] = value
			e.origins[n.path] = Origin{"environment", name}
			if err := v.BindEnv(n.path, name); err != nil {
				faults = append(faults, &exit.Error{Code: exit.Bug, What: "cannot bind " + name, Why: err.Error()})
			}
		}
		faults = append(faults, r.faults...)
	})
	assign := func(r reader, o Origin, path, text string) {
		if value, ok := r.assignment(path, text); ok {
			v.Set(path, value)
			delete(parsed, path)
			e.origins[path] = o
		}
		faults = append(faults, r.faults...)
	}
	for _, assignment := range src.Set {
		path, text, ok := strings.Cut(assignment, "=")
		r := reader{schema: s, where: "--set " + assignment}
		if !ok {
			r.fault(nil, "missing value", "", "write --set key=value")
			faults = append(faults, r.faults...)
			continue
		}
		assign(r, Origin{"--set", "--set " + assignment}, path, text)
	}
	for _, f := range src.Flags {
		assign(reader{schema: s, where: f.Name}, Origin{"flag", f.Name}, f.Key, f.Value)
	}
	if len(src.Files) == 0 && !s.optional {
		faults = append(faults, &exit.Error{Code: exit.Usage, What: "missing configuration file", Fix: "name the file with " + s.flag})
	}
	if err := joinFaults(faults); err != nil {
		return nil, err
	}
	s.walkLeaves(func(n *node) {
		value := v.Get(n.path)
		if p, ok := parsed[n.path]; ok { // viper returns the text of the variable
			value = p
		}
		if slices.Contains(src.unset, n.path) {
			value = n.def
		}
		if value == nil && n.key.Required {
			faults = append(faults, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("key %q is required", n.path), At: e.sourceNames(),
				Fix: "for example " + underSection(n.path, "add", n.key.Example)})
		}
		e.values[n.path] = value
	})
	if !s.fileOnly && !src.IgnoreEnvironment {
		e.warnings = unknownEnvironment(s)
	}
	return e, joinFaults(faults)
}

// joinFaults joins faults into one error; nil if there are none.
func joinFaults(faults []*exit.Error) error {
	if len(faults) == 0 {
		return nil
	}
	first := *faults[0]
	first.More = append(slices.Clone(first.More), faults[1:]...)
	return &first
}

// sourceNames lists the configuration files, for the position of an error.
func (e *loaded) sourceNames() string {
	names := make([]string, len(e.files))
	for i, f := range e.files {
		names[i] = f.Path
	}
	return strings.Join(names, ", ")
}

// EnvironmentName is the environment variable that overrides a key.
func EnvironmentName(path string) string {
	return "ENSEMBLE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// unknownEnvironment returns warnings about ENSEMBLE_ variables that match no key. They are no
// errors, because a site may have variables of its own; but a misspelt key looks the same.
func unknownEnvironment(s *Schema) []string {
	known := slices.Clone(nonKeyVariables)
	for _, of := range []*Schema{TrainSchema, PredictSchema, s} { // variables may be set for all jobs of a site
		of.walkLeaves(func(n *node) { known = append(known, EnvironmentName(n.path)) })
	}
	var warnings []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "ENSEMBLE_") || slices.Contains(known, name) {
			continue
		}
		w := "environment variable " + name + " matches no key"
		if near := nearest.Find(name, known); near != "" {
			w += "; did you mean " + near + "?"
		}
		warnings = append(warnings, w)
	}
	slices.Sort(warnings)
	return warnings
}

// fill copies the effective values into the fields of the structure that out points to.
func (e *loaded) fill(out any) {
	target := reflect.ValueOf(out).Elem()
	e.schema.walkLeaves(func(n *node) {
		if v := e.values[n.path]; v != nil {
			f := target.FieldByIndex(n.field)
			f.Set(reflect.ValueOf(v).Convert(f.Type()))
		}
	})
}

// fault is the error of a rule between keys, at the position where the key path was set.
func (e *loaded) fault(path, what, why, fix string) *exit.Error {
	o := e.origins[path]
	at := o.Where
	if at == "" {
		at = path + " has its default, " + e.text(path)
		if e.text(path) == "" {
			at = path + " is not set"
		}
	}
	return &exit.Error{Code: exit.Usage, What: what, At: at, Why: why, Fix: fix}
}

// Origin returns the source of the effective value of a key.
func (e *loaded) Origin(path string) Origin { return e.origins[path] }

// Files returns the configuration files in order.
func (e *loaded) Files() []SourceFile { return e.files }

// Warnings returns suspicious but valid settings, such as unknown environment variables.
func (e *loaded) Warnings() []string { return e.warnings }
