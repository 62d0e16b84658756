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
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// Flags that several commands have are declared once, in this file.

// configFlags adds --config and --set for a training configuration and returns their values.
func configFlags(cmd *cobra.Command) *config.Sources { return configFlagsOf(cmd, config.TrainSchema) }

// configFlagsOf is configFlags for another schema.
func configFlagsOf(cmd *cobra.Command, schema *config.Schema) *config.Sources {
	f := cmd.Flags()
	s := &config.Sources{}
	f.StringArrayVarP(&s.Files, "config", "c", nil, "configuration `FILE` (repeatable; later files override earlier ones)")
	f.StringArrayVar(&s.Set, "set", nil, "override one `key=value` of the configuration (repeatable)")
	if err := f.SetAnnotation("set", schemaAnnotation, []string{schema.Name}); err != nil {
		panic(err) // the flag is declared above
	}
	completeKeys(cmd, schema)
	return s
}

// progressModes are the values of --progress.
var progressModes = []string{"auto", "bar", "plain", "none"}

// openProgress creates the reporter of a command from --progress and --log-interval. --quiet disables it. With
// --log-file or JSON logs progress is recorded, too. Only rank 0 reports.
//
// Errors: exit 64.
func (a *app) openProgress() error {
	if err := checkChoice("--progress", []string{a.logs.progress}, progressModes...); err != nil {
		return err
	}
	mode := progress.Mode(a.logs.progress)
	if a.quiet || mode == progress.None || team.IsNonRoot() {
		return nil
	}
	if a.logs.json {
		mode = progress.None
	}
	a.progress = progress.New(a.stderr, mode, a.logs.interval)
	if a.logs.json || a.logOutput != nil {
		a.progress.Record(a.recordProgress)
	}
	return nil
}

// overwriteFlag adds --overwrite and returns a function that reads it.
func overwriteFlag(f *pflag.FlagSet) func() (string, error) {
	policy := f.String("overwrite", "same", "replace existing output: never, same (if made from the same input), always")
	policies := setChoices(f, "overwrite", "never", "same", "always")
	return func() (string, error) {
		return *policy, checkChoice("--overwrite", []string{*policy}, policies...)
	}
}

// threadsFlag adds --threads.
func threadsFlag(f *pflag.FlagSet) *uint {
	return f.Uint("threads", 0, "number of threads; 0: all available")
}

// deviceFlag adds --device and returns a function that reads it.
func deviceFlag(f *pflag.FlagSet) func() (string, error) {
	device := f.String("device", "cpu", "device: cpu, cuda (NVIDIA GPU), or auto (GPU if present)")
	devices := setChoices(f, "device", "cpu", "cuda", "auto")
	return func() (string, error) {
		return *device, checkChoice("--device", []string{*device}, devices...)
	}
}

// sparseFlag adds --allow-missing-chunks.
func sparseFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "allow-missing-chunks", false, "accept absent chunks of Zarr stores: fill value (version 3), missing values (version 2)")
}

// layoutFlags adds the flags that define which fields are members, for commands without a
// configuration file, and returns a function that reads them.
func layoutFlags(f *pflag.FlagSet) func() (config.MemberLayout, error) {
	var l config.MemberLayout
	f.StringVar(&l.FilenamePattern, "filename-pattern", "", "`REGEXP` for file names; its first group is the member number")
	f.StringSliceVar(&l.Centres, "centres", nil, "`LIST` of originating centres whose members are used, such as ecmf (default: all)")
	percentiles := f.Bool("percentiles", false, "treat equidistant percentiles as members")
	unnumbered := f.Bool("unnumbered", false, "treat fields without a member number as the control, member 0")
	pairs := f.Bool("pairs", false, "number positive and negative perturbations n of GRIB 2n-1 and 2n")
	return func() (config.MemberLayout, error) {
		if *percentiles {
			l.Percentiles = config.PercentilesAsMembers
		}
		if *unnumbered {
			l.Unnumbered = config.UnnumberedAsControl
		}
		if *pairs {
			l.Pairs = config.PairsAsMembers
		}
		if l.FilenamePattern != "" && !config.IsMemberPattern(l.FilenamePattern) {
			return l, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid pattern %q for member numbers", l.FilenamePattern), At: "--filename-pattern", Why: "want a regular expression with a group for the number",
				Fix: "write it like ge[cp]([0-9]+)"}
		}
		return l, nil
	}
}

// namingFlags adds the flags that state names and units of variables in place of the files, and leads that they lack, and
// returns a function that reads them.
func namingFlags(f *pflag.FlagSet) func() (config.Naming, error) {
	names := f.StringSlice("names", nil, "variables of names in the files, `NAME=VARIABLE@LEVEL`, such as T850_ens=t@850hPa (repeatable)")
	units := f.StringSlice("units", nil, "units of variables in the files, `NAME=UNIT`, such as T850_ens=degC (repeatable)")
	leads := f.StringSlice("file-leads", nil, "lead of forecast files that state none, `LEAD` or PATTERN=LEAD, such as 24h or \"*_024h.nc=24h\" (repeatable)")
	return func() (config.Naming, error) { return config.ParseNaming(*names, *units, *leads) }
}

// readBoth reads two flags or groups of flags.
func readBoth[A, B any](first func() (A, error), second func() (B, error)) (a A, b B, err error) {
	if a, err = first(); err != nil {
		return a, b, err
	}
	b, err = second()
	return a, b, err
}

// filesFlag adds a flag for several files. It takes all arguments up to the next flag, so that
// the shell may expand a pattern: --input a.nc b.nc.
func (a *app) filesFlag(f *pflag.FlagSet, name, usage string) *[]string {
	a.multiFlags = append(a.multiFlags, name)
	return f.StringArray(name, nil, usage)
}

// repeatFlags inserts the name of a flag of multiFlags before each of its values, as pflag
// requires it.
func repeatFlags(args, manyFiles []string) []string {
	var out []string
	open, values := "", 0 // the flag that takes values, and the number of its values
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

// expandFiles lists the files that names, patterns and directories match.
//
// Errors: exit 66 if one matches no file.
func (a *app) expandFiles(flag string, names []string) ([]string, error) {
	files, aside, err := input.ListFiles(flag, names)
	for _, x := range aside {
		a.logIgnored(x)
	}
	return files, err
}

// logIgnored logs a file in an input directory that is ignored because it is no input.
func (a *app) logIgnored(x input.UnrelatedFile) {
	a.log.Debug("file ignored", "file", x.Path, "why", x.Why)
}

// requireFlags checks that all the named flags are set.
//
// Errors: exit 64 with all missing flags.
func requireFlags(cmd *cobra.Command, names ...string) error {
	var missing []string
	for _, n := range names {
		if !cmd.Flags().Changed(n) {
			missing = append(missing, n)
		}
	}
	return missingFlagsError(cmd, missing)
}

// missingFlagsError returns the error for missing flags, nil if there are none.
func missingFlagsError(cmd *cobra.Command, flags []string) error {
	if len(flags) == 0 {
		return nil
	}
	fix := ""
	for _, name := range flags {
		if way := cmp.Or(waysToGive[cmd.Name()+" "+name], waysToGive[name]); way != "" {
			fix += "give " + way + "; "
		}
	}
	return &exit.Error{Code: exit.Usage, What: "missing --" + strings.Join(flags, " and --"), At: cmd.CommandPath(), Fix: fix + "usage: " + cmd.UseLine()}
}

// waysToGive describes the ways to give a value that a command requires, by flag, or by command and flag.
var waysToGive = map[string]string{
	"config":           "-c train.yaml (`ensemble init FILES > train.yaml` writes one), or that of a run: -c RUN_DIR/" + trained.EffectiveConfigFile,
	"train run-dir":    "--run-dir DIR, a new directory; with --resume auto that of a stopped training",
	"predict run-dir":  inPredictFile("run-dir", "DIR", "run_dir: DIR"),
	"predict input":    inPredictFile("input", "FILE", "input: [FILE]"),
	"predict out":      inPredictFile("out", "DIR", "out: DIR"),
	"serve run-dir":    inPredictFile("run-dir", "DIR", "run_dir: DIR"),
	"serve input":      inPredictFile("input", "FILE", "input: [FILE]"),
	"serve out":        inPredictFile("out", "DIR", "out: DIR"),
	"prune run-dir":    newModelDir + "`run_dir: DIR` in the file of -c, or --set run_dir=DIR",
	"quantise run-dir": newModelDir + "`run_dir: DIR` in the file of -c, or --set run_dir=DIR",
	"distil run-dir":   newModelDir + "`teachers: [DIR]` in the file of -c, or --set teachers=[DIR]",
	"export run-dir":   "--run-dir DIR, that of a finished training",
}

// newModelDir begins the ways to give run directories to commands that read one model and write another.
const newModelDir = "--run-dir DIR for the new model; the existing one is "

// inPredictFile describes a value that is a flag, or a key of predict.yaml.
func inPredictFile(flag, value, key string) string {
	return "--" + flag + " " + value + ", or `" + key + "` in the file of -c"
}

// choicesAnnotation is the annotation that holds the valid values of a flag, for shell completion.
const choicesAnnotation = "words"

// setChoices annotates a flag with its valid values and returns them.
func setChoices(f *pflag.FlagSet, flag string, words ...string) []string {
	if err := f.SetAnnotation(flag, choicesAnnotation, words); err != nil {
		panic(err) // the flag is declared by the caller
	}
	return words
}

// checkChoice checks that all values of a flag are among words.
//
// Errors: exit 64 with the nearest word.
func checkChoice(flag string, values []string, words ...string) error {
	for _, v := range values {
		if slices.Contains(words, v) {
			continue
		}
		e := &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %q for %s", v, flag), At: "the command line", Fix: "give " + strings.Join(words, ", ")}
		if near := nearest.Find(v, words); near != "" {
			e.Fix = "did you mean `" + near + "`?"
			e.Err = &correction{wrong: v, right: []string{near}}
		}
		return e
	}
	return nil
}

// computeFlags are the flags of the device and its memory limits.
type computeFlags struct {
	device            func() (string, error)
	memory, workspace func() (int64, error)
}

// bind adds --device, --memory and --workspace.
func (c *computeFlags) bind(f *pflag.FlagSet) {
	c.device, c.memory, c.workspace = deviceFlag(f), memoryFlag(f), workspaceFlag(f)
}

// read returns the values of the flags; memory and workspace in bytes, 0: no limit.
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

// memoryFlag adds --memory and returns a function that reads it in bytes; 0: no limit.
func memoryFlag(f *pflag.FlagSet) func() (int64, error) {
	return sizeFlag(f, "memory", "memory limit of a step, a `SIZE` such as 2GiB (default: none)")
}

// workspaceFlag adds --workspace and returns a function that reads it in bytes; 0: no limit.
func workspaceFlag(f *pflag.FlagSet) func() (int64, error) {
	return sizeFlag(f, "workspace", "memory limit of the kernels' workspace, a `SIZE` (default: none)")
}

// regridFlag adds --regrid and returns a function that reads it.
func regridFlag(f *pflag.FlagSet) func() (task.Interpolation, error) {
	methods := input.InterpolationMethods()
	method := f.String("regrid", "", "interpolate fields on other grids by `METHOD`: "+strings.Join(methods, ", ")+" (default: refuse)")
	setChoices(f, "regrid", methods...)
	return func() (task.Interpolation, error) {
		if *method == "" {
			return task.Interpolation{}, nil
		}
		return input.InterpolationByName(*method), checkChoice("--regrid", []string{*method}, methods...)
	}
}

// sizeFlag adds a flag for an amount of memory and returns a function that reads it in bytes.
func sizeFlag(f *pflag.FlagSet, name, usage string) func() (int64, error) {
	text := f.String(name, "", usage)
	return func() (int64, error) {
		n, err := config.ParseBytes(cmp.Or(*text, "0"))
		if err != nil {
			return 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %q for --%s", *text, name), At: "the command line",
				Why: err.Error(), Fix: "give a size with its unit, such as 2GiB or 500MiB"}
		}
		return int64(n), nil
	}
}

// withFlag sets the location of an *exit.Error to a flag.
func withFlag(flag string, err error) error {
	var e *exit.Error
	if errors.As(err, &e) {
		named := *e
		named.At = flag
		return &named
	}
	return err
}
