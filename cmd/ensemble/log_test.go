package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// record is one line of a JSON log.
type record struct {
	Time     time.Time
	Level    string
	Msg      string
	PID      int
	Host     string
	Command  string
	Code     string
	Kind     string
	Status   string
	At, Why  string
	Stack    string
	ExitCode int `json:"exit_code"`
	Outputs  []string
	Task     string // of progress, as the following
	Done     int
	Total    int
}

// recordsOf reads a log and checks that every line is an object with a time in UTC.
func recordsOf(t *testing.T, text string) (out []record) {
	t.Helper()
	for line := range strings.Lines(text) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%v: %q", err, line)
		}
		if _, zone := r.Time.Zone(); zone != 0 || r.Level == "" || r.Msg == "" || r.PID != os.Getpid() || !strings.Contains(line, `Z","level"`) {
			t.Errorf("record %+v of %s", r, line)
		}
		out = append(out, r)
	}
	return out
}

// messages returns the messages of records.
func messages(rs []record) (out []string) {
	for _, r := range rs {
		out = append(out, r.Level+" "+r.Msg)
	}
	return out
}

// TestLogRecords: with --log-format json every event is one object on one line, on standard error and in the file,
// and contains no secrets.
func TestLogRecords(t *testing.T) {
	const secret = "pa55w0rd"
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("SITE_TOKEN", secret)
	f := faulty(t)
	log := filepath.Join(f.dir, "log", "predict.jsonl")
	if err := os.Mkdir(filepath.Dir(log), 0o755); err != nil {
		t.Fatal(err)
	}
	input := f.put("fc.grib2", join(cycle(lastDay)...))
	line := func(more ...string) []string {
		return append([]string{"predict", "--run-dir", f.run, "--out", filepath.Join(f.dir, "out"), "--threads", "1", "--log-format", "json", "--log-file", log}, more...)
	}
	code, _, stderr := call(t, line("--input", "https://me:"+secret+"@host/fc?token="+secret)...)
	bad := recordsOf(t, stderr)
	if got := strings.Join(messages(bad), "\n"); code != exit.NotYet || !strings.HasPrefix(got, "INFO begin\n") || !strings.HasSuffix(got, "\nERROR no such file\nINFO end") {
		t.Errorf("exit %d, %s", code, got)
	}
	if e, end := bad[len(bad)-2], bad[len(bad)-1]; e.Code != "E066" || e.ExitCode != 66 || !strings.Contains(e.At, "https://***@host") || end.ExitCode != 66 || end.Status != "failed" || end.Command != "ensemble predict" {
		t.Errorf("error %+v, end %+v", e, end)
	}
	code, stdout, stderr := call(t, line("--input", input, "--set", "members.expected=5", "--set", "members.on_missing=degrade", "--progress", "bar", "--log-interval", "1ns")...)
	good := recordsOf(t, stderr)
	if got := messages(good); code != exit.OK || !slices.Contains(got, "WARN 4 of 5 members are complete; missing: 4") || !slices.ContainsFunc(good, func(r record) bool {
		return strings.HasPrefix(r.Msg, "predict 1/1 100 %") && r.Kind == "progress" && r.Task == "predict" && r.Done == 1 && r.Total == 1
	}) {
		t.Errorf("exit %d, %s\n%q", code, stdout, got)
	}
	if end := good[len(good)-1]; end.Status != "degraded" || len(end.Outputs) != 1 || end.Msg != "end" {
		t.Errorf("end %+v", end)
	}
	text, err := os.ReadFile(log)
	if err != nil || strings.Join(messages(recordsOf(t, string(text))), "\n") != strings.Join(messages(append(bad, good...)), "\n") {
		t.Errorf("the file: %v\n%s", err, text)
	}
	_, _, lines := call(t, "predict", "--run-dir", f.run, "--out", f.dir, "--input", "https://me:"+secret+"@host/fc", "--log-file", filepath.Join(f.dir, "text"))
	text2, err := os.ReadFile(filepath.Join(f.dir, "text"))
	if err != nil || !strings.Contains(string(text2), `level=ERROR msg="no such file"`) {
		t.Errorf("the file of lines: %v\n%s", err, text2)
	}
	if strings.Contains(stderr+string(text)+lines+string(text2), secret) {
		t.Errorf("a secret: %s%s%s%s", stderr, text, lines, text2)
	}

	// Errors in flags, and bugs.
	_, _, stderr = call(t, "predict", "--log-format=json", "--run-dr", "x")
	if rs := recordsOf(t, stderr); len(rs) != 1 || rs[0].Code != "E064" {
		t.Errorf("flags: %+v", rs)
	}
	if code, _, stderr = call(t, "version", "--log-format", "xml"); code != exit.Usage || !strings.Contains(stderr, "give text, json") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	old := commandGroups
	defer func() { commandGroups = old }()
	burst := func(*app) *cobra.Command {
		return &cobra.Command{Use: "burst", RunE: func(*cobra.Command, []string) error { panic("invariant broken") }}
	}
	commandGroups = append(slices.Clip(commandGroups), commandGroup{members: []func(*app) *cobra.Command{burst}})
	code, _, stderr = call(t, "burst", "--log-format", "json")
	if rs := recordsOf(t, stderr); code != exit.Bug || len(rs) != 1 || rs[0].Why != "invariant broken" || !strings.Contains(rs[0].Stack, "log_test.go") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestLogRotation: a log that was moved is created again, and writing to a truncated log continues at its new end.
// If its folder was removed, the program continues.
func TestLogRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "log")
	l, err := openLogFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write := func(s string) {
		t.Helper()
		if _, err := l.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(path, want string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q: %v", path, got, want, err)
		}
	}
	write("1\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("2\n")
	write("3\n")
	holds(path+".1", "1\n")
	holds(path, "2\n3\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write("4\n")
	holds(path, "4\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write("5\n")
}

// TestLogFull: a log file that cannot be written is reported once; an error inside a message stays on one line.
func TestLogFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("skipped: ", err)
	}
	for _, format := range []string{"text", "json"} {
		code, _, stderr := call(t, "config", "explain", "train.epochs", "--log-file", "/dev/full", "--log-format", format)
		if code != exit.OK || strings.Count(stderr, "cannot write to the log file") != 1 || !strings.Contains(stderr, "write /dev/full: no space left on device") {
			t.Errorf("%s: exit %d, %s", format, code, stderr)
		}
	}
	var text, records strings.Builder
	for _, h := range []slog.Handler{&lineHandler{w: &text}, recordHandler(&records, slog.LevelInfo, true)} {
		slog.New(h).Warn("times are not kept", "error", &exit.Error{Code: exit.CannotWrite, What: "no permission to write", At: "cache", Fix: "choose another"})
	}
	if text.String() != "ensemble: warning: times are not kept error=no permission to write: cache\n" || !strings.Contains(records.String(), `"error":"no permission to write: cache"`) {
		t.Errorf("%s%s", &text, &records)
	}
}

// nameable is a Stringer whose nil pointer has no text.
type nameable struct{ name string }

func (n *nameable) String() string { return n.name }

// TestSanitiseNil: a nil pointer among the attributes of a record is text.
func TestSanitiseNil(t *testing.T) {
	if got := sanitise(nil, slog.Any("of", (*nameable)(nil))).Value.String(); got != "<nil>" {
		t.Errorf("a nil pointer gives %q", got)
	}
	if got := sanitise(nil, slog.Any("of", &nameable{"a"})).Value.String(); got != "a" {
		t.Errorf("a name gives %q", got)
	}
}
