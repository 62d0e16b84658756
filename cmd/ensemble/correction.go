package main

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// correction is a wrong word of a command line, and the words in its place. It is the cause of the errors that suggest
// another word, so that the whole corrected line can be printed.
type correction struct {
	wrong string
	right []string // nil: the word is left out
	// redirect: the command prints what another program writes to a file.
	redirect bool
	drop     bool   // the argument after the word belongs to it and is left out with it
	set      string // key=VALUE of --set that replaces the word and its argument VALUE; "" for none
}

func (c *correction) Error() string { return "the word " + c.wrong }

// apply returns the corrected arguments; nil if the word is not exactly one of them, or of a list with commas.
func (c *correction) apply(args []string) []string {
	var out []string
	found := 0
	for i := 0; i < len(args); i++ {
		word := args[i]
		name, value, joined := strings.Cut(word, "=")
		switch {
		case word == c.wrong:
			found++
			out = append(out, c.right...)
			if (c.drop || c.set != "") && i+1 < len(args) {
				i++
				if c.set != "" {
					out = append(out, "--set", strings.Replace(c.set, "VALUE", args[i], 1))
				}
			}
		case joined && name == c.wrong && c.set != "":
			found++
			out = append(out, "--set", strings.Replace(c.set, "VALUE", value, 1))
		case joined && name == c.wrong:
			if found++; len(c.right) > 0 {
				out = append(out, c.right[0]+"="+value)
			}
		case slices.Contains(strings.Split(word, ","), c.wrong) || joined && slices.Contains(strings.Split(value, ","), c.wrong):
			found++
			prefix, list := "", word
			if joined {
				prefix, list = name+"=", value
			}
			words := strings.Split(list, ",")
			words[slices.Index(words, c.wrong)] = strings.Join(c.right, ",")
			out = append(out, prefix+strings.Join(words, ","))
		default:
			out = append(out, word)
		}
	}
	if found != 1 {
		return nil
	}
	return out
}

// commandLine formats a command line of this program for a shell.
func commandLine(args []string) string {
	words := []string{"ensemble"}
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !isPlain(r) }) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// isPlain reports whether a character has no meaning for shells.
func isPlain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@%+", r)
}

// firstWord returns the argument that directly follows a command; "" if that is a flag, or there is none.
func firstWord(args []string, cmd *cobra.Command) string {
	depth := len(strings.Fields(cmd.CommandPath())) - 1
	for _, a := range args {
		if strings.HasPrefix(a, "-") { // the words behind it may be its value
			return ""
		}
		if depth == 0 {
			return a
		}
		depth--
	}
	return ""
}

// meantWord matches a fix that is another word in place of that at which the error is.
var meantWord = regexp.MustCompile("^did you mean `([^`]+)`\\?$")

// withCorrection adds the corrected command line to the fix of an error that suggests another word.
func withCorrection(err error, args []string) error {
	var c *correction
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	if !errors.As(err, &c) {
		m, file := meantWord.FindStringSubmatch(e.Fix), ""
		if rest, ok := strings.CutPrefix(e.Fix, "leave out the file "); ok {
			file = rest
		}
		switch at := slices.Index(args, file); {
		case m != nil:
			c = &correction{wrong: e.At, right: []string{m[1]}}
		case file != "" && at > 0 && slices.Contains([]string{"-c", "--config"}, args[at-1]):
			c = &correction{wrong: args[at-1], drop: true}
		default:
			return err
		}
	}
	line := c.apply(args)
	if line == nil {
		return err
	}
	out := *e
	text := commandLine(line)
	if c.redirect {
		text += " > train.yaml"
	}
	out.Fix = strings.TrimLeft(out.Fix+" type `"+text+"`", " ")
	return &out
}

// otherFlagNames are names that other programs have for the flags of this one.
var otherFlagNames = map[string][]string{
	"output": {"out", "run-dir"}, "outdir": {"out", "run-dir"}, "output-dir": {"out", "run-dir"}, "output_dir": {"out", "run-dir"}, "out": {"run-dir"}, "out-dir": {"out", "run-dir"}, "dir": {"run-dir", "out"},
	"model": {"run-dir"}, "model-dir": {"run-dir"}, "checkpoint": {"run-dir"}, "rundir": {"run-dir"}, "run": {"run-dir"},
	"inputs": {"input"}, "file": {"input", "config"}, "files": {"input"}, "in": {"input"}, "forecasts": {"forecast", "input"}, "fc": {"forecast", "input"}, "products": {"forecast"},
	"analyses": {"analysis"}, "an": {"analysis"}, "obs": {"analysis"}, "observations": {"analysis"}, "reference": {"analysis"}, "references": {"analysis"}, "truth": {"analysis"},
	"ensemble": {"members"}, "cores": {"threads"}, "jobs": {"threads"}, "num-threads": {"threads"}, "targets": {"target"}, "variable": {"target", "variables"}, "conf": {"config"}, "yaml": {"config"},
	"date": {"init"}, "init-time": {"init"}, "cycle": {"init"}, "force": {"overwrite"},
}

// namedOtherwise returns the flag of a command that another program calls by a name; "" without one.
func namedOtherwise(cmd *cobra.Command, name string) string {
	for _, n := range otherFlagNames[strings.ToLower(name)] {
		if cmd.Flags().Lookup(n) != nil {
			return n
		}
	}
	return ""
}

// keyOfFlag returns the key of the configuration of a command whose last component is the name of a flag, as --set has
// it: "train.epochs=VALUE"; "" without one.
func keyOfFlag(cmd *cobra.Command, name string) string {
	set := cmd.Flags().Lookup("set")
	if set == nil || len(set.Annotations[schemaAnnotation]) == 0 {
		return ""
	}
	schemas := []*config.Schema{config.TrainSchema, config.PredictSchema, config.PruneSchema, config.DistilSchema, config.QuantiseSchema}
	i := slices.IndexFunc(schemas, func(s *config.Schema) bool { return s.Name == set.Annotations[schemaAnnotation][0] })
	if i < 0 {
		return ""
	}
	name = strings.ReplaceAll(cmp.Or(otherKeyNames[name], name), "-", "_")
	for _, k := range schemas[i].Keys {
		if strings.Contains(k.Path, "[]") || k.Path != name && !strings.HasSuffix(k.Path, "."+name) {
			continue
		}
		if strings.HasPrefix(k.Example, "[") {
			return k.Path + "=[VALUE]"
		}
		return k.Path + "=VALUE"
	}
	return ""
}

// otherKeyNames are names that other programs have for keys of a training.
var otherKeyNames = map[string]string{"lr": "learning_rate", "batch": "batch_size", "bs": "batch_size", "num-epochs": "epochs", "max-epochs": "epochs", "gpu": "device"}

// schemaAnnotation is the annotation of --set with the name of the schema.
const schemaAnnotation = "schema"

// commandsWithFlag lists the commands that have a flag of their own.
func commandsWithFlag(root *cobra.Command, name string) (found []*cobra.Command) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.LocalNonPersistentFlags().Lookup(name) != nil {
			found = append(found, c)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return found
}

// takesValue reports whether a flag needs a value.
func takesValue(f *pflag.Flag) bool { return f.NoOptDefVal == "" }

// suggestFlag completes the error of an unknown flag: the nearest flag, the name that this program has for it, the key of
// the configuration, or the commands that have it.
func suggestFlag(cmd *cobra.Command, e *exit.Error, name string) {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	others := commandsWithFlag(cmd.Root(), name)
	others = slices.DeleteFunc(others, func(c *cobra.Command) bool { return c == cmd })
	if len(others) > 0 {
		var paths []string
		for _, c := range others[:min(3, len(others))] {
			paths = append(paths, "`"+c.CommandPath()+"`")
		}
		e.Why = "it is a flag of " + strings.Join(paths, ", ")
	}
	key := keyOfFlag(cmd, name)
	near := nearest.Find(name, names)
	switch other := namedOtherwise(cmd, name); {
	case other != "":
		near = other
	case near != "":
	case key != "":
		e.Fix = "did you mean `--set '" + key + "'`?"
		e.Err = &correction{wrong: "--" + name, set: key}
		return
	case cmd.Name() == "init" && slices.Contains([]string{"out", "output", "o", "file"}, name):
		e.Fix = "it prints the configuration:"
		e.Err = &correction{wrong: "--" + name, drop: true, redirect: true}
		return
	case len(others) > 0:
		e.Fix = "leave it out:"
		e.Err = &correction{wrong: "--" + name, drop: takesValue(others[0].Flags().Lookup(name))}
		return
	}
	if near != "" {
		e.Fix = "did you mean `--" + near + "`?"
		e.Err = &correction{wrong: "--" + name, right: []string{"--" + near}}
	}
}
