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

// Sources says where a configuration comes from, weakest first: the defaults of
// the schema, the files in order, the environment, the --set assignments, the flags.
type Sources struct {
	Files []string // YAML files; a later one wins
	Set   []string // "train.epochs=5", as after --set
	Flags []Flag   // of a command that has some for keys
	// IgnoreEnvironment says that the environment sets no key: what is read is the same everywhere.
	IgnoreEnvironment bool

	texts map[string][]byte // of files that are built in
	unset []string          // keys that are as if nothing gave them
}

// Flag is the value of a flag of the command line that stands for a key.
type Flag struct {
	Name  string // "--quantiles"
	Key   string
	Value string // as it would stand in a file
}

// Origin says where an effective value comes from.
type Origin struct {
	Layer string // "default", "file", "environment", "--set", "flag"
	Where string // "train.yaml:14:3", the variable's name, the assignment; "" for a default
}

// String prints the origin for a comment behind the value.
func (o Origin) String() string {
	if o.Where == "" {
		return o.Layer
	}
	return o.Where
}

// SourceFile is a configuration file as it was read.
type SourceFile struct {
	Path   string
	Text   []byte
	SHA256 string
}

// loaded is what every loaded configuration has, whatever its schema.
type loaded struct {
	schema   *Schema
	values   map[string]any // by path of the leaves; nil where neither given nor defaulted
	origins  map[string]Origin
	files    []SourceFile
	warnings []string
}

// nonKeyVariables are ENSEMBLE_ names of the environment that set no key.
// ENSEMBLE_VERSION is what a site's module system says of the program.
var nonKeyVariables = []string{"ENSEMBLE_CUDA_PATH", "ENSEMBLE_DATA", "ENSEMBLE_DECODE", "ENSEMBLE_PEERS", "ENSEMBLE_TEST_DATA", "ENSEMBLE_TEST_DEMO", "ENSEMBLE_VERSION"}

// load reads all sources and lays them over each other.
//
// Errors: exit 64 with every fault of every source, in the order of the sources.
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
	parsed := map[string]any{} // what the environment says, as values
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
			r.fault(nil, "no value is assigned", "", "write --set key=value")
			faults = append(faults, r.faults...)
			continue
		}
		assign(r, Origin{"--set", "--set " + assignment}, path, text)
	}
	for _, f := range src.Flags {
		assign(reader{schema: s, where: f.Name}, Origin{"flag", f.Name}, f.Key, f.Value)
	}
	if len(src.Files) == 0 && !s.optional {
		faults = append(faults, &exit.Error{Code: exit.Usage, What: "no configuration was given", Fix: "name the file with " + s.flag})
	}
	if err := joinFaults(faults); err != nil {
		return nil, err
	}
	s.walkLeaves(func(n *node) {
		value := v.Get(n.path)
		if p, ok := parsed[n.path]; ok { // viper has the text of the variable
			value = p
		}
		if slices.Contains(src.unset, n.path) {
			value = n.def
		}
		if value == nil && n.key.Required {
			faults = append(faults, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("key %q is required", n.path), At: e.sourceNames(),
				Fix: "add it, for example `" + n.path + ": " + n.key.Example + "`"})
		}
		e.values[n.path] = value
	})
	if !s.fileOnly && !src.IgnoreEnvironment {
		e.warnings = unknownEnvironment(s)
	}
	return e, joinFaults(faults)
}

// joinFaults makes one error of all faults, nil if there is none.
func joinFaults(faults []*exit.Error) error {
	if len(faults) == 0 {
		return nil
	}
	first := *faults[0]
	first.More = append(slices.Clone(first.More), faults[1:]...)
	return &first
}

func (e *loaded) sourceNames() string {
	names := make([]string, len(e.files))
	for i, f := range e.files {
		names[i] = f.Path
	}
	return strings.Join(names, ", ")
}

// EnvironmentName is the variable that overrides a key.
func EnvironmentName(path string) string {
	return "ENSEMBLE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// unknownEnvironment warns of ENSEMBLE_ variables that match no key: a site may
// have its own, and a typing error looks the same.
func unknownEnvironment(s *Schema) []string {
	known := slices.Clone(nonKeyVariables)
	for _, of := range []*Schema{TrainSchema, PredictSchema, s} { // a site sets them for all its jobs
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

// fill puts the effective values into the fields of the structure out points to.
func (e *loaded) fill(out any) {
	target := reflect.ValueOf(out).Elem()
	e.schema.walkLeaves(func(n *node) {
		if v := e.values[n.path]; v != nil {
			f := target.FieldByIndex(n.field)
			f.Set(reflect.ValueOf(v).Convert(f.Type()))
		}
	})
}

// fault is a violated rule between keys, at the place where the first key was set.
func (e *loaded) fault(path, what, why, fix string) *exit.Error {
	o := e.origins[path]
	at := o.Where
	if at == "" {
		at = path + " has its default, " + e.text(path)
		if e.text(path) == "" {
			at = path + " is not given"
		}
	}
	return &exit.Error{Code: exit.Usage, What: what, At: at, Why: why, Fix: fix}
}

// Origin says where the effective value of a key comes from.
func (e *loaded) Origin(path string) Origin { return e.origins[path] }

// Files are the configuration files as they were read, in order.
func (e *loaded) Files() []SourceFile { return e.files }

// Warnings are what is odd but legal, such as environment variables of no key.
func (e *loaded) Warnings() []string { return e.warnings }
