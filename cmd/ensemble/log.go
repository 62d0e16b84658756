package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/redact"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// Log messages are lines of text on standard error, and structured records (slog). Records go to
// --log-file, and with --log-format json to standard error instead of the lines.

// logsAsJSON reports whether log messages are JSON: the default of serve, and --log-format json. It
// scans the arguments itself, because errors in flags are logged before flags are parsed.
func logsAsJSON(args []string) bool {
	i := slices.Index(args, "--log-format")
	if len(args) > 0 && args[0] == "serve" && i < 0 && !slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "--log-format=") }) {
		return true
	}
	return slices.Contains(args, "--log-format=json") || i >= 0 && i+1 < len(args) && args[i+1] == "json"
}

// logFormats are the values of --log-format.
var logFormats = []string{"text", "json"}

// openLoggers creates the loggers from the parsed flags.
//
// Errors: exit 64 for an unknown format, 73 for the log file.
func (a *app) openLoggers() error {
	if err := checkChoice("--log-format", []string{a.logs.format}, logFormats...); err != nil {
		return err
	}
	level := slog.LevelInfo
	switch {
	case a.quiet:
		level = slog.LevelError
	case a.verbose:
		level = slog.LevelDebug
	}
	var f *logFile
	if a.logs.file != "" {
		var err error
		if f, err = openLogFile(a.logs.file); err != nil {
			return exit.CreateError(a.logs.file, err)
		}
		a.logOutput = f
	}
	a.setLoggers(level, f)
	a.loggersReady = true
	if team.IsNonRoot() { // only rank 0 logs
		return nil
	}
	a.records.Info("begin", "command", strings.Join(append([]string{"ensemble"}, a.args...), " "), "version", version.String())
	return nil
}

// setLoggers creates the loggers: a.records for records only, a.log for lines and records. f is
// the file of --log-file, or nil.
func (a *app) setLoggers(level slog.Level, f *logFile) {
	var lines, records []slog.Handler
	var shown slog.Handler = &lineHandler{w: a.stderr, level: level}
	if a.logs.json {
		shown = recordHandler(a.stderr, level, true)
		records = append(records, shown)
	} else {
		lines = append(lines, shown)
	}
	if f != nil {
		f.failed = func(err error) { slog.New(shown).Warn("cannot write to the log file", "error", err) }
		records = append(records, recordHandler(f, min(level, slog.LevelInfo), a.logs.json))
	}
	a.records = slog.New(slog.NewMultiHandler(records...))
	a.log = slog.New(slog.NewMultiHandler(append(lines, records...)...))
}

// recordHandler returns a handler for records with host and pid, times in UTC, secrets redacted.
func recordHandler(w io.Writer, level slog.Level, json bool) slog.Handler {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: sanitise}
	var h slog.Handler = slog.NewTextHandler(w, o)
	if json {
		h = slog.NewJSONHandler(w, o)
	}
	host, _ := os.Hostname() // empty if unknown
	return h.WithAttrs([]slog.Attr{slog.String("host", host), slog.Int("pid", os.Getpid())})
}

// sanitise redacts secrets in an attribute and converts times, durations and errors to text.
func sanitise(_ []string, at slog.Attr) slog.Attr {
	switch at.Value.Kind() {
	case slog.KindString:
		at.Value = slog.StringValue(redact.Text(at.Value.String()))
	case slog.KindTime:
		at.Value = slog.TimeValue(at.Value.Time().UTC())
	case slog.KindDuration:
		at.Value = slog.StringValue(at.Value.Duration().String())
	case slog.KindAny:
		switch x := at.Value.Any().(type) {
		case error:
			at.Value = slog.StringValue(redact.Text(oneLine(x)))
		case fmt.Stringer:
			at.Value = slog.StringValue(redact.Text(fmt.Sprint(x))) // Sprint, as x may be a nil pointer
		case []string:
			some := make([]string, len(x))
			for i, s := range x {
				some[i] = redact.Text(s)
			}
			at.Value = slog.AnyValue(some)
		}
	}
	return at
}

// oneLine is the text of an error on one line, for attributes.
func oneLine(err error) string {
	if e, ours := err.(*exit.Error); ours {
		return exit.OneLine(e)
	}
	return err.Error()
}

// warn logs a warning of a job.
func (a *app) warn(text string) { a.log.Warn(answer.Printable(text)) }

// recordError logs an error as a record, and all further errors of the same check.
func (a *app) recordError(e *exit.Error) {
	attrs := []any{"code", fmt.Sprintf("E%03d", int(e.Code)), "exit_code", int(e.Code)}
	for _, part := range []struct{ name, text string }{{"at", e.At}, {"why", e.Why}, {"fix", e.Fix}} {
		if part.text != "" {
			attrs = append(attrs, part.name, part.text)
		}
	}
	if a.verbose && e.Err != nil {
		attrs = append(attrs, "cause", e.Err)
	}
	a.records.Error(e.What, attrs...)
	for _, more := range e.More {
		a.recordError(more)
	}
}

// recordEnd logs exit code, status, duration and outputs of a command.
func (a *app) recordEnd(code exit.Code, f answer.Envelope) {
	a.records.Info("end", "command", "ensemble "+a.command, "exit_code", int(code), "status", f.Status, "seconds", time.Since(a.started).Seconds(), "outputs", f.Outputs)
}

// recordProgress logs the progress of a task as a record.
func (a *app) recordProgress(e progress.Event) {
	attrs := []any{"kind", "progress", "task", e.Task, "done", e.Done, "seconds", e.Elapsed.Seconds()}
	if e.Total > 0 {
		attrs = append(attrs, "total", e.Total)
	}
	if e.Rate > 0 {
		attrs = append(attrs, "rate_per_s", e.Rate)
	}
	if e.Left > 0 {
		attrs = append(attrs, "seconds_left", e.Left.Seconds())
	}
	if e.Note != "" {
		attrs = append(attrs, "note", e.Note)
	}
	if e.Final {
		attrs = append(attrs, "final", true)
	}
	a.records.Info(e.String(), attrs...)
}

// logFile appends whole lines to a file that other processes may append to, truncate or rotate.
// It is opened again when its path no longer refers to the open file (logrotate).
type logFile struct {
	path string
	// failed is called once, with the first error of Write; slog ignores errors of its writers.
	failed func(error)

	mu       sync.Mutex
	f        filesystem.File
	reported bool
}

// openLogFile opens a log file for appending and creates it if needed.
func openLogFile(path string) (*logFile, error) {
	f, err := filesystem.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &logFile{path: path, f: f}, nil
}

// Write appends a line. It is safe for concurrent use.
func (l *logFile) Write(p []byte) (int, error) {
	n, err := l.append(p)
	l.mu.Lock()
	first := err != nil && !l.reported
	l.reported = l.reported || first
	l.mu.Unlock()
	if first && l.failed != nil {
		l.failed(err)
	}
	return n, err
}

// append writes p after it has reopened a rotated file.
func (l *logFile) append(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := filesystem.Stat(l.path)
	mine, err2 := l.f.Stat()
	if err != nil || err2 == nil && !os.SameFile(now, mine) {
		if f, err := filesystem.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err == nil { // else keep the old file
			l.f.Close()
			l.f = f
		}
	}
	return l.f.Write(p)
}

// Close closes the file.
func (l *logFile) Close() error { return l.f.Close() }

// lineHandler is a slog.Handler that prints lines such as "ensemble: warning: text key=value".
type lineHandler struct {
	w     io.Writer
	level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle implements slog.Handler: it prints one line without secrets.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("ensemble: ")
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString(answer.MarkError(h.w, "error:") + " ")
	case r.Level >= slog.LevelWarn:
		b.WriteString(answer.MarkWarning(h.w, "warning:") + " ")
	}
	b.WriteString(r.Message)
	attr := func(at slog.Attr) bool {
		if err, bad := at.Value.Any().(error); bad {
			at.Value = slog.StringValue(oneLine(err))
		}
		fmt.Fprintf(&b, " %s=%v", at.Key, at.Value)
		return true
	}
	for _, at := range h.attrs {
		attr(at)
	}
	r.Attrs(attr)
	b.WriteByte('\n')
	_, err := io.WriteString(h.w, redact.Text(b.String()))
	return err
}

// WithAttrs implements slog.Handler: the attributes are printed on every line.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(append([]slog.Attr{}, h.attrs...), attrs...)
	return &c
}

// WithGroup implements slog.Handler; groups are not printed.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }
