package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// Flags that several commands have, each declared once.

// configFlags adds --config and --set for trainings and gives what they were set to.
func configFlags(cmd *cobra.Command) *config.Sources { return configFlagsOf(cmd, config.TrainSchema) }

// configFlagsOf is configFlags for a file of another schema.
func configFlagsOf(cmd *cobra.Command, schema *config.Schema) *config.Sources {
	f := cmd.Flags()
	s := &config.Sources{}
	f.StringArrayVarP(&s.Files, "config", "c", nil, "configuration `FILE`; a later one wins")
	f.StringArrayVar(&s.Set, "set", nil, "override one `key=value` of the configuration")
	completeKeys(cmd, schema)
	return s
}

// progressFlag adds --progress and --log-interval and gives a function that makes
// the reporter.
func (a *app) progressFlag(f *pflag.FlagSet) func() (*progress.Reporter, error) {
	mode := f.String("progress", "auto", "auto, bar, plain or none")
	modes := setChoices(f, "progress", "auto", "bar", "plain", "none")
	interval := f.Duration("log-interval", progress.DefaultInterval, "time between two lines of plain progress")
	return func() (*progress.Reporter, error) {
		if err := checkChoice("--progress", []string{*mode}, modes...); err != nil {
			return nil, err
		}
		m := progress.Mode(*mode)
		if a.quiet {
			m = progress.None
		}
		if a.logJSON && m == progress.Bar {
			m = progress.Plain
		}
		return progress.New(a.progressTo(), m, *interval), nil
	}
}

// overwriteFlag adds --overwrite and gives a function that reads it.
func overwriteFlag(f *pflag.FlagSet) func() (string, error) {
	policy := f.String("overwrite", "same", "replace what is there: never, same (made from the same), always")
	policies := setChoices(f, "overwrite", "never", "same", "always")
	return func() (string, error) {
		return *policy, checkChoice("--overwrite", []string{*policy}, policies...)
	}
}

// threadsFlag adds --threads.
func threadsFlag(f *pflag.FlagSet) *uint {
	return f.Uint("threads", 0, "threads; 0 takes all that the machine gives")
}

// deviceFlag adds --device, and gives what checks and reads it.
func deviceFlag(f *pflag.FlagSet) func() (string, error) {
	device := f.String("device", "cpu", "what computes: cpu, cuda (an NVIDIA GPU), or auto (the GPU where there is one)")
	devices := setChoices(f, "device", "cpu", "cuda", "auto")
	return func() (string, error) {
		return *device, checkChoice("--device", []string{*device}, devices...)
	}
}

// sparseFlag adds --sparse.
func sparseFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "sparse", false, "take absent chunks of Zarr stores for missing values")
}

// layoutFlags adds the flags that say whose fields are members, for commands that no file
// tells so, and gives a function that reads them.
func layoutFlags(f *pflag.FlagSet) func() (config.MemberLayout, error) {
	var l config.MemberLayout
	f.StringVar(&l.FilenamePattern, "from-name", "", "`REGEXP` whose first group is the member in the name of a file")
	f.StringSliceVar(&l.Centres, "centres", nil, "take members of these centres only, by `NAMES` such as ecmf")
	percentiles := f.Bool("percentiles", false, "take percentiles of equal steps for members")
	return func() (config.MemberLayout, error) {
		if *percentiles {
			l.Percentiles = config.PercentilesAsMembers
		}
		if l.FilenamePattern != "" && !config.IsMemberPattern(l.FilenamePattern) {
			return l, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q finds no member", l.FilenamePattern), At: "--from-name", Why: "it is no regular expression with a group for the number",
				Fix: "write it like ge[cp]([0-9]+)"}
		}
		return l, nil
	}
}

// filesFlag adds a flag for several files. It takes all values up to the next flag,
// as a shell leaves them when it expands a pattern: --input a.nc b.nc.
func (a *app) filesFlag(f *pflag.FlagSet, name, usage string) *[]string {
	a.multiFlags = append(a.multiFlags, name)
	return f.StringArray(name, nil, usage)
}

// repeatFlags writes the name of a flag of multiFlags before each of its values.
func repeatFlags(args, manyFiles []string) []string {
	var out []string
	open, values := "", 0 // the flag that takes values, and how many it has
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if strings.HasPrefix(arg, "-") && len(arg) > 1 {
			name, _, joined := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			open, values = "", 0
			if strings.HasPrefix(arg, "--") && slices.Contains(manyFiles, name) {
				open = "--" + name
				if joined {
					values = 1
				}
			}
			out = append(out, arg)
			continue
		}
		if open != "" && values > 0 {
			out = append(out, open)
		}
		if open != "" {
			values++
		}
		out = append(out, arg)
	}
	return out
}

// expandFiles lists the files that names, patterns and folders stand for.
func (a *app) expandFiles(flag string, names []string) ([]string, error) {
	files, aside, err := input.ListFiles(flag, names)
	for _, x := range aside {
		a.logIgnored(x)
	}
	return files, err
}

// logIgnored logs what lies in a folder of input files and is none.
func (a *app) logIgnored(x input.UnrelatedFile) {
	a.log.Debug("left aside", "file", x.Path, "why", x.Why)
}

// requireFlags says which of the flags that a command cannot do without are missing, all
// at once.
func requireFlags(cmd *cobra.Command, names ...string) error {
	var missing []string
	for _, n := range names {
		if !cmd.Flags().Changed(n) {
			missing = append(missing, n)
		}
	}
	return missingFlagsError(cmd, missing)
}

// missingFlagsError is the error of flags that are missing, nil for none.
func missingFlagsError(cmd *cobra.Command, flags []string) error {
	if len(flags) == 0 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: "missing --" + strings.Join(flags, " and --"), At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}

// choicesAnnotation is the annotation of flags that take one of a few words, by which shells complete them.
const choicesAnnotation = "words"

// setChoices says which words a flag takes, and gives them.
func setChoices(f *pflag.FlagSet, flag string, words ...string) []string {
	if err := f.SetAnnotation(flag, choicesAnnotation, words); err != nil {
		panic(err) // the flag is declared by the caller
	}
	return words
}

// checkChoice checks the values of a flag that is one of a few words.
func checkChoice(flag string, values []string, words ...string) error {
	for _, v := range values {
		if slices.Contains(words, v) {
			continue
		}
		fix := "give " + strings.Join(words, ", ")
		if near := nearest.Find(v, words); near != "" {
			fix = "did you mean `" + near + "`?"
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no value for %s", v, flag), At: "the command line", Fix: fix}
	}
	return nil
}

// computeFlags are the flags that say what computes, and within which memory.
type computeFlags struct {
	device            func() (string, error)
	memory, workspace func() (int64, error)
}

// bind adds --device, --memory and --workspace.
func (c *computeFlags) bind(f *pflag.FlagSet) {
	c.device, c.memory, c.workspace = deviceFlag(f), memoryFlag(f), workspaceFlag(f)
}

// read gives what was set.
func (c *computeFlags) read() (device string, memory, workspace int64, err error) {
	if device, err = c.device(); err != nil {
		return "", 0, 0, err
	}
	if memory, err = c.memory(); err != nil {
		return "", 0, 0, err
	}
	workspace, err = c.workspace()
	return device, memory, workspace, err
}

// memoryFlag adds --memory and gives a function that reads it in bytes, 0 without.
func memoryFlag(f *pflag.FlagSet) func() (int64, error) {
	return sizeFlag(f, "memory", "bound of the memory of a step, a `SIZE` such as 2GiB")
}

// workspaceFlag adds --workspace and gives a function that reads it in bytes, 0
// without.
func workspaceFlag(f *pflag.FlagSet) func() (int64, error) {
	return sizeFlag(f, "workspace", "bound of the part of it that kernels use in turn, a `SIZE`")
}

// regridFlag adds --regrid and gives a function that reads it.
func regridFlag(f *pflag.FlagSet) func() (task.Interpolation, error) {
	methods := input.InterpolationMethods()
	method := f.String("regrid", "", "bring fields on other grids there by a `METHOD`: "+strings.Join(methods, ", "))
	setChoices(f, "regrid", methods...)
	return func() (task.Interpolation, error) {
		if *method == "" {
			return task.Interpolation{}, nil
		}
		return input.InterpolationByName(*method), checkChoice("--regrid", []string{*method}, methods...)
	}
}

func sizeFlag(f *pflag.FlagSet, name, usage string) func() (int64, error) {
	text := f.String(name, "", usage)
	return func() (int64, error) {
		n, err := config.ParseBytes(cmp.Or(*text, "0"))
		if err != nil {
			return 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no value for --%s", *text, name), At: "the command line",
				Why: err.Error(), Fix: "give a size with its unit, such as 2GiB or 500MiB"}
		}
		return int64(n), nil
	}
}

// withFlag adds the flag to an error.
func withFlag(flag string, err error) error {
	var e *exit.Error
	if errors.As(err, &e) {
		named := *e
		named.At = flag
		return &named
	}
	return err
}
