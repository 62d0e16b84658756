package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/interrupt"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// app is one run of the program: where it prints, its common flags, and what the
// chosen command answered.
type app struct {
	stdout, stderr io.Writer
	root           *cobra.Command

	json, markdown, quiet, verbose bool
	logFile, logFormat             string
	logJSON                        bool // messages are JSON

	flag         *interrupt.Flag // raised by SIGTERM, SIGINT, SIGUSR1, SIGHUP
	log          *slog.Logger    // messages
	records      *slog.Logger    // those of them that are for machines, and what a person sees otherwise
	logOutput    *logFile        // of --log-file
	loggersReady bool            // the loggers are those that the flags ask for
	started      time.Time
	args         []string
	multiFlags   []string // flags of filesFlag
	command      string   // that ran, "config show"
	result       result
}

// result is what a command has to say.
type result struct {
	// data becomes the fields of the JSON object; a structure or nil.
	data any
	// shown is the same for people; nil means data, if that is an answer.Sectioned.
	shown answer.Sectioned
	// text prints what is no sections, such as a list of files.
	text     func(io.Writer) error
	outputs  []string // files that were written
	warnings []string
	logged   bool // the warnings were logged when they arose
	degraded bool // done, with less than was expected
	// answeredByRoot says that rank 0 of the job gives the answer.
	answeredByRoot bool
	// printed says that the command has written its answer to app.stdout itself.
	printed bool
}

// jobFunc is the one call a command makes.
type jobFunc func(ctx context.Context, args []string) (result, error)

func newApp(stdout, stderr io.Writer) *app {
	a := &app{stdout: stdout, stderr: stderr}
	a.root = &cobra.Command{
		Use:   "ensemble",
		Short: "Turn a few members of an ensemble forecast into a calibrated distribution",
		Long: "Turn a few members of an ensemble forecast into a calibrated distribution:\n" +
			"mean, spread and scores, learned from past forecasts and analyses.",
		Example:       "  ensemble demo\n  ensemble inspect forecast.grib2\n  ensemble help train",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
	}
	a.root.SetOut(stdout)
	a.root.SetErr(stderr)
	a.root.SetFlagErrorFunc(flagError)
	a.root.CompletionOptions.DisableDefaultCmd = true
	common := a.root.PersistentFlags()
	common.BoolVar(&a.json, "json", false, "print one JSON object instead of text")
	common.BoolVar(&a.markdown, "markdown", false, "print the answer as Markdown")
	common.BoolVarP(&a.quiet, "quiet", "q", false, "print only errors beside the answer")
	common.BoolVarP(&a.verbose, "verbose", "v", false, "print details and the causes of errors")
	common.StringVar(&a.logFile, "log-file", "", "also write messages to this file")
	common.StringVar(&a.logFormat, "log-format", "text", "of messages: text, or json with one object a line (default of serve)")
	setChoices(common, "log-format", logFormats...)
	showVersion := a.root.Flags().Bool("version", false, "print the version") // without cobra's -v
	a.root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			a.result = versionResult()
			return nil
		}
		a.result.printed = true
		return cmd.Help()
	}
	for _, build := range commands {
		a.root.AddCommand(build(a))
	}
	completeFlags(a.root)
	setHelp(a)
	return a
}

// run executes a command line and gives the exit code.
func (a *app) run(args []string) exit.Code {
	a.flag = interrupt.Watch(func() { os.Exit(130) })
	defer a.flag.Close()
	// Flags are parsed too late for an error in them to be answered in JSON.
	for _, arg := range args {
		if arg == "--json" {
			a.json = true
		}
	}
	a.args, a.logJSON, a.started = args, logsAsJSON(args), time.Now()
	a.setLoggers(slog.LevelInfo, nil)
	a.root.SetArgs(repeatFlags(args, a.multiFlags))
	cmd, err := a.root.ExecuteC()
	a.command = strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "ensemble"), " ")
	if a.logOutput != nil {
		defer a.logOutput.Close()
	}
	return a.finish(err)
}

// runJob makes a command run its job: logging set up, the context cancelled by signals.
// A job that saves by itself polls a.flag and shields its saving part from the
// context.
func (a *app) runJob(j jobFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.openLoggers(); err != nil {
			return err
		}
		ctx, cancel := a.flag.Context(context.Background())
		defer cancel()
		var err error
		a.result, err = j(ctx, args)
		a.result.answeredByRoot = team.IsNonRoot() && (err == nil || team.IsAgreed(err))
		if errors.Is(err, context.Canceled) && a.flag.Raised() {
			err = a.flag.Err()
		}
		if exit.CodeOf(err) == exit.SaveAndStop && cmd.Flags().Lookup("resume") == nil {
			e := *answer.Error(err)
			e.Fix = "run the same command again; what was finished is kept"
			err = &e
		}
		return err
	}
}

// Errors of the command line: exit 64, with the nearest word that would be right.

var (
	flagUnknown   = regexp.MustCompile(`^unknown flag: --(.+)$`)
	flagShort     = regexp.MustCompile(`^unknown shorthand flag: '(.)' in`)
	flagNoValue   = regexp.MustCompile(`^flag needs an argument: (?:'.' in )?(-+\S+)$`)
	flagWrongType = regexp.MustCompile(`^invalid argument "(.*)" for "(.+)" flag: (.+)$`)
)

// flagTypeHelp says what a flag of a type takes.
var flagTypeHelp = map[string]string{"uint": "it is a whole number, 0 or more", "uint64": "it is a whole number, 0 or more",
	"bool": "it is true or false", "duration": "it is a number with its unit, such as 30s or 5m"}

func flagError(cmd *cobra.Command, err error) error {
	e := &exit.Error{Code: exit.Usage, What: err.Error(), At: cmd.CommandPath(), Fix: "`" + cmd.CommandPath() + " --help` lists the flags", Err: err}
	if m := flagUnknown.FindStringSubmatch(err.Error()); m != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		e.What = fmt.Sprintf("unknown flag %q", "--"+m[1])
		if near := nearest.Find(m[1], names); near != "" {
			e.Fix = "did you mean `--" + near + "`?"
		}
		var others []string
		for _, c := range cmd.Root().Commands() {
			if c.Flags().Lookup(m[1]) != nil {
				others = append(others, "`"+c.CommandPath()+"`")
			}
		}
		if len(others) > 0 && len(others) <= 3 {
			e.Why = "it is a flag of " + strings.Join(others, ", ")
		}
	} else if m := flagShort.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("unknown flag %q", "-"+m[1])
	} else if m := flagNoValue.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("flag %q needs a value", m[1])
	} else if m := flagWrongType.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("%q is no value for %s", m[1], m[2])
		e.Why = m[3]
		if f := cmd.Flags().Lookup(strings.TrimLeft(m[2][strings.LastIndex(m[2], " ")+1:], "-")); f != nil && flagTypeHelp[f.Value.Type()] != "" {
			e.Why = flagTypeHelp[f.Value.Type()]
		}
	}
	return e
}

// group makes a command that has only subcommands; by itself it shows its help.
func group(a *app, cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = unknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.result.printed = true
		return cmd.Help()
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	fix := "`" + cmd.CommandPath() + " --help` lists the commands"
	if near := nearest.Find(args[0], names); near != "" {
		fix = "did you mean `" + cmd.CommandPath() + " " + near + "`?"
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown command %q", args[0]), At: cmd.CommandPath(), Fix: fix}
}

// noArgs, atLeastOneArg and exactlyOneArg say what a command takes beside its flags.
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
	return &exit.Error{Code: exit.Usage, What: "an argument is missing", At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}

func atMostOneArg(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d arguments, want one at most", len(args)), At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}

func exactlyOneArg(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d arguments, want one", len(args)), At: cmd.CommandPath(), Fix: "usage: " + cmd.UseLine()}
}
