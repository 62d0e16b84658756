package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/interrupt"
)

// call runs one command line in this process.
func call(t *testing.T, args ...string) (code exit.Code, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandLineErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"doctr"}, "did you mean `ensemble doctor`?"},
		{[]string{"doctor", "--jsn"}, "did you mean `--json`?"},
		{[]string{"serve", "--log-format", "text", "--deadline", "+3m"}, "it is a flag of `ensemble predict`"},
		{[]string{"doctor", "-x"}, `unknown flag "-x"`},
		{[]string{"doctor", "extra"}, `unexpected argument "extra"`},
		{[]string{"doctor", "--run-dir"}, `flag "--run-dir" needs a value`},
		{[]string{"inspect"}, "usage: ensemble inspect FILE..."},
		{[]string{"inspect", "--stats=perhaps", "f"}, `invalid value "perhaps" for --stats`},
		{[]string{"config", "shw"}, "did you mean `ensemble config show`?"},
		{[]string{"config", "check"}, "missing configuration file"},
		{[]string{"config", "explain", "train.epocs"}, "did you mean `train.epochs`?"},
		{[]string{"help", "doktor"}, "did you mean `ensemble help doctor`?"},
		{[]string{"train", "--run-dr", "x"}, "did you mean `--run-dir`?"},
		{[]string{"train", "-c", "x.yaml"}, "missing --run-dir"},
		{[]string{"train", "-c", "x.yaml", "--run-dir", "r", "--resume", "latest"}, "give auto, or the number of a step"},
		{[]string{"train", "-c", "x.yaml", "--run-dir", "r", "--overwrite", "alway"}, "did you mean `always`?"},
		{[]string{"predict", "--run-dir", "r"}, "missing --input and --out"},
		{[]string{"predict", "--run-dir", "r", "--input", "../../go.mod", "--out", "o", "--format", "netcfd"}, "did you mean `netcdf`?"},
		{[]string{"predict", "--run-dir", "r", "--input", "../../go.mod", "--out", "o", "--init", "2026-01-01T00:00"}, "2026-01-01T00:00Z"},
		{[]string{"predict", "--products", "mean,quantile"}, "did you mean `quantiles`?"},
		{[]string{"predict", "--products", "mean", "--quantiles", "0.5"}, "add quantiles to products"},
		{[]string{"predict", "--products", "probabilities"}, "--probability"},
		{[]string{"predict", "--quantiles", "0.5,1"}, "more than 0 and less than 1"},
		{[]string{"predict", "--quantiles", "10%"}, "want a number"},
		{[]string{"predict", "--quantiles", "0.5,0.5"}, "listed twice"},
		{[]string{"predict", "--probability", "t2m>=273.15"}, "write > for >="},
		{[]string{"predict", "--probability", "t2m"}, "is not an event"},
		{[]string{"predict", "--area", "30/0/70/20"}, "the order is north/west/south/east"},
		{[]string{"predict", "--packing-bits", "17"}, "2 to 16"},
		{[]string{"predict", "--packing", "png"}, "simple"},
		{[]string{"predict", "--levels", "850"}, "850hPa"},
		{[]string{"predict", "--set", "output.areas=1"}, "did you mean `output.area`?"},
		{[]string{"verify"}, "missing --forecast and --analysis"},
		{[]string{"predict", "--run-dir", "r", "--input", "../../go.mod", "--out", "o", "--memory", "2"}, "2GiB"},
		{[]string{"predict", "--run-dir", "r", "--input", "../../go.mod", "--out", "o", "--workspace", "much"}, "--workspace"},
		{[]string{"predict", "--run-dir", "r", "--input", "f", "--out", "o", "--threads", "-3"}, `invalid value "-3" for --threads`},
		{[]string{"verify", "--forecast", "f", "--analysis", "a", "--resamples", "-5"}, "want a whole number, 0 or more"},
		{[]string{"config", "explain", "loss"}, "did you mean `train.loss`?"},
		{[]string{"train", "-c", "../../experiments/small/trian.yaml", "--run-dir", "x"}, "did you mean `../../experiments/small/train.yaml`?"},
		{[]string{"experiment", "run", "../../experiments/smal"}, "did you mean `../../experiments/small`?"},
		{[]string{"experiment", "run", "../../experiments"}, "give one of ../../experiments/demo, "},
		{[]string{"experiment", "run", "elsewhere"}, "`ensemble experiment list DIR`"},
		{[]string{"completion", "tcsh"}, "give bash, zsh or fish"},
	} {
		code, stdout, stderr := call(t, c.args...)
		if code != exit.Usage || !strings.Contains(stderr, c.want) || !strings.HasPrefix(stderr, "ensemble: error[E064]: ") {
			t.Errorf("%q: exit %d, %q; want exit 64 and %q", c.args, code, stderr, c.want)
		}
		if stdout != "" {
			t.Errorf("%q: standard output has %q", c.args, stdout)
		}
		// The same in JSON: one object, with the same exit code.
		code, stdout, _ = call(t, append([]string{"--json"}, c.args...)...)
		var e answer.Envelope
		if err := json.Unmarshal([]byte(stdout), &e); err != nil || e.ExitCode != int(code) || e.Status != "failed" || e.Error == nil || e.Error.Code != "E064" {
			t.Errorf("--json %q: exit %d, %v: %s", c.args, code, err, stdout)
		}
	}
}

// TestArguments: no command reports a wrong number of arguments as a bug.
func TestArguments(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for n := range 5 {
			if cmd.Args == nil {
				break
			}
			if err := cmd.Args(cmd, slices.Repeat([]string{"x"}, n)); err != nil && exit.CodeOf(err) != exit.Usage {
				t.Errorf("%s with %d arguments: %v", cmd.CommandPath(), n, err)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newApp(io.Discard, io.Discard).root)
}

// TestHelp: every command prints help of at most 80 columns on standard output, with examples that begin with the
// program's name, and its exit codes.
func TestHelp(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		args := append(strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "ensemble")), "--help")
		code, stdout, stderr := call(t, args...)
		if code != exit.OK || stderr != "" {
			t.Errorf("%q: exit %d, %q", args, code, stderr)
		}
		for line := range strings.Lines(stdout) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%q: %d columns: %s", args, n, line)
			}
		}
		want := []string{"\nUsage:\n  " + cmd.CommandPath()}
		if cmd.Name() != "help" {
			want = append(want, "\nExamples:\n", "ensemble ")
		}
		if cmd.HasParent() && cmd.Name() != "help" {
			want = append(want, "\nExit codes:\n  0   done")
		}
		for _, w := range want {
			if !strings.Contains(stdout, w) {
				t.Errorf("%q: no %q in\n%s", args, w, stdout)
			}
		}
		if cmd.HasParent() && (strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 66) {
			t.Errorf("%s: short help %q ends in a full stop or is too long", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range visibleCommands(cmd) {
			walk(sub)
		}
	}
	walk(newApp(io.Discard, io.Discard).root)
}

func TestHelpTopics(t *testing.T) {
	for topic, want := range map[string]string{"exit-codes": "requeue", "E065": "bad data", "e075": "state is saved", "doctor": "Usage:"} {
		if code, stdout, _ := call(t, "help", topic); code != exit.OK || !strings.Contains(stdout, want) {
			t.Errorf("help %s: exit %d, %q", topic, code, stdout)
		}
	}
	for _, c := range exit.All { // every error has its page
		if c.Code != exit.OK && commonCauses[c.Code] == "" {
			t.Errorf("exit code %d has no text", c.Code)
		}
	}
}

func TestConfigCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.yaml")
	text := `version: 1
data:
  forecasts: [f]
  analyses: [a]
  leads: [0h, 48h]
  target_lead: 48h
  levels: [850hPa]
  variables: [t]
  targets: [{variable: t, levels: [850hPa]}]
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := call(t, "config", "check", "-c", path); code != exit.OK || !strings.Contains(stdout, "valid") {
		t.Errorf("check: exit %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, stderr := call(t, "config", "show", "-c", path, "--origin", "--set", "train.seed=7")
	if code != exit.OK || !strings.Contains(stdout, "# --set train.seed=7") || !strings.Contains(stdout, "# "+path+":6:3") {
		t.Errorf("show: exit %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, stderr = call(t, "config", "check", "-c", path, "--set", "train.sede=7", "--set", "model.base=0")
	if code != exit.Usage || strings.Count(stderr, "error[E064]") != 2 || stdout != "" {
		t.Errorf("two faults: exit %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, _ = call(t, "config", "check", "-c", path, "--set", "train.sede=7", "--set", "model.base=0", "--json")
	var e answer.Envelope
	if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != exit.Usage || e.Command != "config check" || len(e.Error.More) != 1 {
		t.Errorf("two faults in JSON: exit %d, %v, %s", code, err, stdout)
	}
	if code, stdout, _ := call(t, "config", "explain", "--schema", "predict", "members.on_missing"); code != exit.OK || !strings.Contains(stdout, "degrade") {
		t.Errorf("explain of predict: exit %d, %s", code, stdout)
	}
	if code, stdout, _ := call(t, "config", "show", "--schema", "predict", "--set", "members.deadline=06:40Z", "--set", "members.expected=[0, 7]"); code != exit.OK || !strings.Contains(stdout, "deadline: 06:40Z") {
		t.Errorf("show of predict: exit %d, %s", code, stdout)
	}
	if code, _, stderr := call(t, "config", "check", "--schema", "serve"); code != exit.Usage || !strings.Contains(stderr, "--schema") {
		t.Errorf("check of serve: exit %d, %s", code, stderr)
	}
	if code, _, stderr := call(t, "config", "check", "--schema", "predict", "--schedule"); code != exit.Usage || !strings.Contains(stderr, "only trainings have a schedule") {
		t.Errorf("schedule of predict: exit %d, %s", code, stderr)
	}
	if code, _, stderr := call(t, "config", "check", "-c", path, "--schedule"); code != exit.NotYet || !strings.Contains(stderr, "data.forecasts") {
		t.Errorf("schedule without files: exit %d, %s", code, stderr)
	}
	if code, stdout, _ = call(t, "config", "schema"); code != exit.OK || !json.Valid([]byte(stdout)) {
		t.Errorf("schema: exit %d, %s", code, stdout)
	}
	code, stdout, _ = call(t, "config", "show", "-c", path, "--json")
	var shown struct {
		Values map[string]struct{ Value, Origin string }
	}
	if err := json.Unmarshal([]byte(stdout), &shown); err != nil || code != exit.OK || shown.Values["train.epochs"].Origin != "default" {
		t.Errorf("show --json: exit %d, %v, %s", code, err, stdout)
	}
}

func TestDoctor(t *testing.T) {
	code, stdout, stderr := call(t, "doctor", "--json", "--run-dir", t.TempDir())
	var d struct {
		Command   string
		Status    string
		CPU       struct{ Cores int }
		Libraries []struct{ Name, Enables string }
		GPU       struct{ Enables string }
	}
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || code != exit.OK || d.Command != "doctor" || d.Status != "ok" ||
		d.CPU.Cores < 1 || len(d.Libraries) < 8 || d.GPU.Enables == "" {
		t.Errorf("exit %d, %v, %s, %s", code, err, stdout, stderr)
	}
	if strings.Count(stdout, "\n") != 1 {
		t.Error("want exactly one line")
	}
	if code, stdout, _ := call(t, "doctor", "--run-dir", t.TempDir()); code != exit.OK || !strings.Contains(stdout, "\nmemory  ") {
		t.Errorf("exit %d, %s", code, stdout)
	}
	if code, stdout, _ := call(t, "doctor", "--markdown", "--run-dir", t.TempDir()); code != exit.OK || !strings.Contains(stdout, "\n|---|---|\n") || !strings.Contains(stdout, "\n| memory | ") {
		t.Errorf("Markdown: exit %d, %s", code, stdout)
	}
	if code, stdout, _ := call(t, "version", "--markdown"); code != exit.OK || !strings.HasPrefix(stdout, "```text\nensemble ") || !strings.HasSuffix(stdout, "\n```\n") {
		t.Errorf("output that is not a table, in Markdown: exit %d, %s", code, stdout)
	}
}

// TestRepeatFlags: a flag for files accepts all values up to the next flag.
func TestRepeatFlags(t *testing.T) {
	files := newApp(io.Discard, io.Discard).multiFlags
	for in, want := range map[string]string{
		"predict --input a b c --out o":      "predict --input a --input b --input c --out o",
		"predict --input=a b -o o":           "predict --input=a --input b -o o",
		"verify --forecast a --analysis b c": "verify --forecast a --analysis b --analysis c",
		"predict --run-dir r x --input a":    "predict --run-dir r x --input a",
		"predict --input a b -- --input c d": "predict --input a --input b -- --input c d",
		"inspect --stats a b":                "inspect --stats a b",
	} {
		if got := strings.Join(repeatFlags(strings.Fields(in), files), " "); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", in, got, want)
		}
	}
}

// TestMissingFile: all commands return exit code 66.
func TestMissingFile(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"predict", "--run-dir", "r", "--input", "nowhere/*.grib2", "--out", "o"}, "no such run directory"},
		{[]string{"verify", "--forecast", "nowhere.nc", "--analysis", "nowhere.nc"}, "no such file"},
	} {
		if code, _, stderr := call(t, row.args...); code != exit.NotYet || !strings.Contains(stderr, row.want) {
			t.Errorf("%q: exit %d, %s", row.args, code, stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"version"}} {
		if code, stdout, _ := call(t, args...); code != exit.OK || !strings.HasPrefix(stdout, "ensemble ") {
			t.Errorf("%q: exit %d, %q", args, code, stdout)
		}
		code, stdout, _ := call(t, append(args, "--json")...)
		var e answer.Envelope
		if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != exit.OK || e.Version == "" {
			t.Errorf("%q --json: exit %d, %v: %s", args, code, err, stdout)
		}
	}
}

// TestInterrupted: only commands that can resume suggest it.
func TestInterrupted(t *testing.T) {
	for name, want := range map[string]string{"train": "--resume auto", "verify": "run the same command again"} {
		var errs bytes.Buffer
		a := newApp(io.Discard, &errs)
		cmd, _, err := a.root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		a.flag = interrupt.Watch(func() {})
		defer a.flag.Close()
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		err = a.runJob(func(ctx context.Context, _ []string) (result, error) {
			<-ctx.Done()
			return result{}, fmt.Errorf("reading: %w", ctx.Err())
		})(cmd, nil)
		if exit.CodeOf(err) != exit.SaveAndStop || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want exit 75 and %q", name, err, want)
		}
	}
}

// TestFullOutput: output that cannot be written gives exit code 74, not a bug.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("skipped: no /dev/full on this system")
	}
	defer full.Close()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"inspect", "--json", "nowhere.grib2"}} {
		want := exit.IO
		if args[0] == "inspect" {
			want = exit.NotYet // the fault in the files takes precedence
		}
		if code := execute(args, full, io.Discard); code != want {
			t.Errorf("%q: exit %d, want %d", args, code, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := call(t, "completion", shell); code != exit.OK || !strings.Contains(stdout, "ensemble") {
			t.Errorf("%s: exit %d, %d bytes", shell, code, len(stdout))
		}
	}
	if code, stdout, _ := call(t, "__complete", "config", "show", "--set", "train.e"); code != exit.OK || !strings.Contains(stdout, "train.epochs=") {
		t.Errorf("keys after --set: exit %d, %q", code, stdout)
	}
}

// TestPanic: a bug gives exit code 70, with a message and a stack.
func TestPanic(t *testing.T) {
	old := commandGroups
	defer func() { commandGroups = old }()
	burst := func(*app) *cobra.Command {
		return &cobra.Command{Use: "burst", RunE: func(*cobra.Command, []string) error { panic("invariant broken") }}
	}
	commandGroups = append(slices.Clip(commandGroups), commandGroup{members: []func(*app) *cobra.Command{burst}})
	code, _, stderr := call(t, "burst")
	if code != exit.Bug || !strings.Contains(stderr, "error[E070]: internal error: invariant broken") || !strings.Contains(stderr, "main_test.go") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

func TestLogFile(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := call(t, "version", "--log-file", dir); code != exit.CannotWrite {
		t.Errorf("a folder as log file: exit %d, %s", code, stderr)
	}
	if code, _, stderr := call(t, "version", "--log-file", filepath.Join(dir, "log")); code != exit.OK {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "log")); err != nil {
		t.Error(err)
	}
}

// TestFault47Escapes: terminal escapes in names are printed in escaped form.
func TestFault47Escapes(t *testing.T) {
	_, _, stderr := call(t, "config", "check", "-c", "a\x1b[2Jb.yaml")
	if strings.ContainsRune(stderr, '\x1b') || !strings.Contains(stderr, "a?[2Jb.yaml") {
		t.Errorf("got %q", stderr)
	}
}

// TestExamples: the configurations that packages install as examples are sound.
func TestExamples(t *testing.T) {
	for path, of := range map[string]string{"../../docs/examples/predict.yaml": "predict", "../../docs/examples/serve.yaml": "predict", "../../ensemble/run/demo/demo.yaml": "train"} {
		if code, _, stderr := call(t, "config", "check", "--schema", of, "-c", path); code != exit.OK {
			t.Errorf("%s: exit %d, %s", path, code, stderr)
		}
	}
}
