package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
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
	Texts             map[string][]byte // contents of built-in files, by the names that Files has

	unset []string // keys that are reset to their defaults
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

// Loaded is a loaded configuration of any schema: values, origins, files. It is embedded in the
// typed configurations, of this package and of those with a schema of their own.
type Loaded struct {
	schema   *Schema
	values   map[string]any // by key path; nil without value and default
	origins  map[string]Origin
	files    []SourceFile
	warnings []string
}

// nonKeyVariables lists the ENSEMBLE_ variables that set no key. Module systems of computing
// centres set ENSEMBLE_VERSION.
var nonKeyVariables = []string{"ENSEMBLE_COORDINATOR", "ENSEMBLE_CUDA_PATH", "ENSEMBLE_DATA", "ENSEMBLE_DECODE", "ENSEMBLE_JOB", "ENSEMBLE_LINK_RATE", "ENSEMBLE_PEERS", "ENSEMBLE_RANK",
	"ENSEMBLE_RANKS", "ENSEMBLE_TEST_DATA", "ENSEMBLE_TEST_DEMO", "ENSEMBLE_VERSION"}

// Load reads and merges all sources. Rules between keys are the caller's: Fault makes their errors, and JoinFaults joins them.
//
// Errors: exit 64 with all faults, in the order of the sources.
func Load(s *Schema, src Sources) (*Loaded, error) {
	e := &Loaded{schema: s, values: map[string]any{}, origins: map[string]Origin{}}
	v := viper.New()
	var faults []*exit.Error
	for _, l := range s.Leaves() {
		e.origins[l.Path] = Origin{Layer: "default"}
		if l.Unset != nil {
			v.SetDefault(l.Path, l.Unset)
		}
	}
	for _, path := range src.Files {
		d := src.read(s, path)
		faults = append(faults, d.Faults...)
		sum := sha256.Sum256(d.Text)
		e.files = append(e.files, SourceFile{path, d.Text, hex.EncodeToString(sum[:])})
		for key, at := range d.At {
			e.origins[key] = Origin{"file", at}
		}
		if err := v.MergeConfigMap(nested(d.Values)); err != nil {
			return nil, fmt.Errorf("merge %s: %w", path, err)
		}
	}
	parsed := map[string]any{} // values of environment variables
	for _, l := range s.Leaves() {
		name := EnvironmentName(l.Path)
		text := os.Getenv(name)
		if s.fileOnly || src.IgnoreEnvironment || text == "" || slices.Contains(nonKeyVariables, name) {
			continue
		}
		value, bad := s.ReadValue("environment variable "+name, l.Path, text)
		if len(bad) == 0 {
			parsed[l.Path] = value
			e.origins[l.Path] = Origin{"environment", name}
			if err := v.BindEnv(l.Path, name); err != nil {
				faults = append(faults, &exit.Error{Code: exit.Bug, What: "cannot bind " + name, Why: err.Error()})
			}
		}
		faults = append(faults, bad...)
	}
	assign := func(o Origin, path, text string) {
		value, bad := s.ReadValue(o.Where, path, text)
		if len(bad) == 0 {
			v.Set(path, value)
			delete(parsed, path)
			e.origins[path] = o
		}
		faults = append(faults, bad...)
	}
	for _, assignment := range src.Set {
		path, text, ok := strings.Cut(assignment, "=")
		o := Origin{"--set", "--set " + assignment}
		if !ok {
			faults = append(faults, &exit.Error{Code: exit.Usage, What: "missing value", At: o.Where, Fix: "write --set key=value"})
			continue
		}
		assign(o, path, text)
	}
	for _, f := range src.Flags {
		assign(Origin{"flag", f.Name}, f.Key, f.Value)
	}
	if len(src.Files) == 0 && !s.optional {
		faults = append(faults, &exit.Error{Code: exit.Usage, What: "missing configuration file", Fix: "name the file with " + s.Flag})
	}
	if err := JoinFaults(faults); err != nil {
		return nil, err
	}
	for _, l := range s.Leaves() {
		value := v.Get(l.Path)
		if p, ok := parsed[l.Path]; ok { // viper returns the text of the variable
			value = p
		}
		if slices.Contains(src.unset, l.Path) {
			value = l.Unset
		}
		if value == nil && l.Required {
			faults = append(faults, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("key %q is required", l.Path), At: e.sourceNames(),
				Fix: "for example " + schema.UnderSection(l.Path, "add", l.Example)})
		}
		e.values[l.Path] = value
	}
	if !s.fileOnly && !src.IgnoreEnvironment {
		e.warnings = unknownEnvironment(s)
	}
	return e, JoinFaults(faults)
}

// read reads a file, or the built-in file of this name.
func (src *Sources) read(s *Schema, path string) schema.Document {
	others := []*schema.Schema{TrainSchema.Schema, PredictSchema.Schema}
	if text, ok := src.Texts[path]; ok {
		return s.ReadText(path, filepath.Dir(path), text, others...)
	}
	return s.ReadFile(path, others...)
}

// nested converts values by key path to mappings in mappings, as viper merges them.
func nested(values map[string]any) map[string]any {
	out := map[string]any{}
	for path, v := range values {
		at, parts := out, strings.Split(path, ".")
		for _, section := range parts[:len(parts)-1] {
			next, ok := at[section].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[section] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = v
	}
	return out
}

// JoinFaults joins faults into one error, the first with the others in its More; nil if there are none.
func JoinFaults(faults []*exit.Error) error {
	if len(faults) == 0 {
		return nil
	}
	first := *faults[0]
	first.More = append(slices.Clone(first.More), faults[1:]...)
	return &first
}

// sourceNames lists the configuration files, for the position of an error.
func (e *Loaded) sourceNames() string {
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
		for _, l := range of.Leaves() {
			known = append(known, EnvironmentName(l.Path))
		}
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

// Fill copies the effective values into the fields of the structure that out points to.
func (e *Loaded) Fill(out any) {
	target := reflect.ValueOf(out).Elem()
	for _, l := range e.schema.Leaves() {
		if v := e.values[l.Path]; v != nil {
			f := target.FieldByIndex(l.Field)
			f.Set(reflect.ValueOf(v).Convert(f.Type()))
		}
	}
}

// Fault is the error of a rule between keys, at the position where the key path was set.
func (e *Loaded) Fault(path, what, why, fix string) *exit.Error {
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
func (e *Loaded) Origin(path string) Origin { return e.origins[path] }

// Files returns the configuration files in order.
func (e *Loaded) Files() []SourceFile { return e.files }

// Warnings returns suspicious but valid settings, such as unknown environment variables.
func (e *Loaded) Warnings() []string { return e.warnings }
