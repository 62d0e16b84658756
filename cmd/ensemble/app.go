package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/interrupt"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// app is one execution of the program: its output streams, the flags that all commands
// have, its loggers, and the result of the command.
type app struct {
	stdout, stderr io.Writer
	root           *cobra.Command

	json, markdown, quiet, verbose bool
	logs                           logFlags

	flag         *interrupt.Flag    // raised by SIGTERM, SIGINT, SIGUSR1, SIGHUP
	progress     *progress.Reporter // nil shows nothing
	log          *slog.Logger       // every message: lines for people and records
	records      *slog.Logger       // structured records only: --log-file and --log-format json
	logOutput    *logFile           // --log-file; nil without it
	loggersReady bool               // the loggers are configured from the flags
	started      time.Time
	args         []string // command line without the program
	multiFlags   []string // names of flags that take several values, see filesFlag
	command      string   // name of the command that ran, such as "config show"
	result       result
}

// logFlags are the flags of log messages and progress.
type logFlags struct {
	file, format string
	json         bool          // records are JSON, not lines of text
	progress     string        // display: auto, bar, plain or none
	interval     time.Duration // between lines of plain progress
}

// result is the outcome of a command, printed by finish.
type result struct {
	// data is a structure whose fields become those of the JSON object; nil adds none.
	data any
	// shown is data as tables of text; nil: data itself, if it is an answer.Sectioned.
	shown answer.Sectioned
	// text prints a result that has no sections, such as a list of files; nil: shown.
	text     func(io.Writer) error
	outputs  []string // paths of the files written
	warnings []string
	logged   bool // warnings have already been logged
	degraded bool // finished with less input than expected
	// answeredElsewhere: another process of the job prints the result or the error.
	answeredElsewhere bool
	// printed: the command has written its output to app.stdout.
	printed bool
}

// jobFunc is the work of a command: args are the arguments that are not flags.
type jobFunc func(ctx context.Context, args []string) (result, error)

func newApp(stdout, stderr io.Writer) *app {
	a := &app{stdout: stdout, stderr: progress.Screen(stderr)}
	a.root = &cobra.Command{
		Use:   "ensemble",
		Short: "Post-process ensemble forecasts with neural networks",
		Long: "Post-process ensemble forecasts with neural networks: turn a few members into a\n" +
			"calibrated distribution of the forecast, learned from past forecasts and\n" +
			"analyses.",
		Example:       "  ensemble demo\n  ensemble inspect forecast.grib2\n  ensemble help train",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
	}
	a.root.SetOut(stdout)
	a.root.SetErr(a.stderr)
	a.root.SetFlagErrorFunc(a.flagError)
	a.root.CompletionOptions.DisableDefaultCmd = true
	common := a.root.PersistentFlags()
	common.BoolVar(&a.json, "json", false, "print the result as one JSON object")
	common.BoolVar(&a.markdown, "markdown", false, "print the result as Markdown")
	common.BoolVarP(&a.quiet, "quiet", "q", false, "log errors only")
	common.BoolVarP(&a.verbose, "verbose", "v", false, "log details and the causes of errors")
	common.StringVar(&a.logs.file, "log-file", "", "append log records to `FILE`")
	common.StringVar(&a.logs.format, "log-format", "text", "`FORMAT` of log messages: text, or json with one object a line (default of serve)")
	setChoices(common, "log-format", logFormats...)
	common.StringVar(&a.logs.progress, "progress", "auto", "progress display: auto, bar, plain or none")
	setChoices(common, "progress", progressModes...)
	common.DurationVar(&a.logs.interval, "log-interval", progress.DefaultInterval, "interval between lines of plain progress")
	showVersion := a.root.Flags().Bool("version", false, "print the version") // without cobra's -v
	a.root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			a.result = versionResult()
			return nil
		}
		a.result.printed = true
		return cmd.Help()
	}
	addCommands(a)
	completeFlags(a.root)
	setHelp(a)
	return a
}

// run executes a command line and returns the exit code. A second signal ends the process at
// once with exit code 130.
func (a *app) run(args []string) exit.Code {
	a.flag = interrupt.Watch(func() { os.Exit(130) })
	defer a.flag.Close()
	// --json is read before flags are parsed, so that errors in flags are printed as JSON too.
	for _, arg := range args {
		if arg == "--json" {
			a.json = true
		}
	}
	a.args, a.logs.json, a.started = args, logsAsJSON(args), time.Now()
	a.setLoggers(slog.LevelInfo, nil)
	a.root.SetArgs(repeatFlags(args, a.multiFlags))
	cmd, err := a.root.ExecuteC()
	err = withCorrection(err, args)
	if slices.Contains(rankCommands, cmd.Name()) {
		err = team.EndTogether(err)
		a.result.answeredElsewhere = team.IsReportedElsewhere(err)
	}
	a.command = strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "ensemble"), " ")
	if a.logOutput != nil {
		defer a.logOutput.Close()
	}
	return a.finish(err)
}

// rankCommands are the commands whose jobs the ranks of an MPI launcher do together.
var rankCommands = []string{"train", "predict", "verify"}

// runJob returns the RunE of a command: it opens the loggers, runs the job with a context that
// signals cancel, and keeps the result for finish. A job that saves its own state polls a.flag
// and must not use the context while it saves.
func (a *app) runJob(j jobFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.openLoggers(); err != nil {
			return err
		}
		if err := a.openProgress(); err != nil {
			return err
		}
		defer a.progress.Close()
		ctx, cancel := a.flag.Context(progress.With(context.Background(), a.progress))
		defer cancel()
		var err error
		a.result, err = j(ctx, args)
		a.result.answeredElsewhere = team.IsReportedElsewhere(err)
		if errors.Is(err, context.Canceled) && a.flag.Raised() {
			err = a.flag.Err()
		}
		if exit.CodeOf(err) == exit.SaveAndStop && cmd.Flags().Lookup("resume") == nil {
			e := *answer.Error(err)
			e.Fix = "run the same command again; finished parts are kept"
			err = &e
		}
		return err
	}
}

// Errors of the command line end with exit 64 and suggest the nearest valid word. The patterns
// match the texts of pflag's errors, which have no types.

var (
	flagUnknown   = regexp.MustCompile(`^unknown flag: --(.+)$`)
	flagShort     = regexp.MustCompile(`^unknown shorthand flag: '(.)' in`)
	flagNoValue   = regexp.MustCompile(`^flag needs an argument: (?:'.' in )?(-+\S+)$`)
	flagWrongType = regexp.MustCompile(`^invalid argument "(.*)" for "(.+)" flag: (.+)$`)
)

// flagTypeHelp describes the values of a flag by pflag's name of its type.
var flagTypeHelp = map[string]string{"uint": "want a whole number, 0 or more", "uint64": "want a whole number, 0 or more",
	"bool": "want true or false", "duration": "want a number with its unit, such as 30s or 5m"}

// flagError turns an error of pflag into exit 64 with the nearest flag, or the commands that
// have the flag.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	// Flags after an unknown command are parsed as those of the command above it.
	if word := firstWord(a.args, cmd); word != "" && cmd.HasSubCommands() {
		if unknown := unknownCommand(cmd, []string{word}); unknown != nil {
			return unknown
		}
	}
	e := &exit.Error{Code: exit.Usage, What: err.Error(), At: cmd.CommandPath(), Fix: "`" + cmd.CommandPath() + " --help` lists the flags", Err: err}
	if m := flagUnknown.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("unknown flag %q", "--"+m[1])
		suggestFlag(cmd, e, m[1])
	} else if m := flagShort.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("unknown flag %q", "-"+m[1])
	} else if m := flagNoValue.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("flag %q needs a value", m[1])
	} else if m := flagWrongType.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("invalid value %q for %s", m[1], m[2])
		e.Why = m[3]
		if f := cmd.Flags().Lookup(strings.TrimLeft(m[2][strings.LastIndex(m[2], " ")+1:], "-")); f != nil && flagTypeHelp[f.Value.Type()] != "" {
			e.Why = flagTypeHelp[f.Value.Type()]
		}
	}
	return e
}

// group adds subcommands to a command that does nothing but print its help.
func group(a *app, cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = unknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.result.printed = true
		return cmd.Help()
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

// otherCommandNames are names that other programs have for commands of this one.
var otherCommandNames = map[string]string{"forecast": "predict", "postprocess": "predict", "post-process": "predict", "apply": "predict", "infer": "predict", "inference": "predict",
	"fit": "train", "learn": "train", "run": "train", "evaluate": "verify", "eval": "verify", "score": "verify", "scores": "verify", "test": "verify",
	"info": "inspect", "ls": "inspect", "list": "inspect", "show": "inspect", "dump": "inspect", "cat": "inspect", "new": "init", "setup": "init", "configure": "init", "quickstart": "demo", "plot": "report"}

// unknownCommand refuses arguments that are no subcommand, and suggests the nearest one.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	e := &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown command %q", args[0]), At: cmd.CommandPath(), Fix: "`" + cmd.CommandPath() + " --help` lists the commands"}
	near := nearest.Find(args[0], names)
	if other := otherCommandNames[strings.ToLower(args[0])]; near == "" && !cmd.HasParent() {
		near = other
	}
	if near != "" {
		e.Fix = "did you mean `" + cmd.CommandPath() + " " + near + "`?"
		e.Err = &correction{wrong: args[0], right: []string{near}}
	}
	return e
}

// noArgs, atLeastOneArg, atMostOneArg and exactlyOneArg check the number of arguments that are not flags.
//
// Errors: exit 64 with the usage line.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unexpected argument %q", args[0]), At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}

func atLeastOneArg(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: "missing argument", At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}

func atMostOneArg(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("got %d arguments, want at most one", len(args)), At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}

func exactlyOneArg(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("got %d arguments, want one", len(args)), At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}
