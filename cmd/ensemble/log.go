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
	"github.com/ensemble-weather/ensemble/internal/redact"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// Messages: for a person lines on standard error, for a machine records, which are one line
// each with keys. Records go to --log-file, and with --log-format json to standard error in
// place of the lines.

// logsAsJSON says whether messages are JSON, as those of a program that stays are unless it is told otherwise. Errors
// in flags come before flags are parsed.
func logsAsJSON(args []string) bool {
	i := slices.Index(args, "--log-format")
	if len(args) > 0 && args[0] == "serve" && i < 0 && !slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "--log-format=") }) {
		return true
	}
	return slices.Contains(args, "--log-format=json") || i >= 0 && i+1 < len(args) && args[i+1] == "json"
}

// logFormats are the values of --log-format.
var logFormats = []string{"text", "json"}

// openLoggers makes the loggers once the flags are known.
func (a *app) openLoggers() error {
	if err := checkChoice("--log-format", []string{a.logFormat}, logFormats...); err != nil {
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
	if a.logFile != "" {
		var err error
		if f, err = openLogFile(a.logFile); err != nil {
			return exit.CreateError(a.logFile, err)
		}
		a.logOutput = f
	}
	a.setLoggers(level, f)
	a.loggersReady = true
	if team.IsNonRoot() { // rank 0 speaks
		return nil
	}
	a.records.Info("begin", "command", strings.Join(append([]string{"ensemble"}, a.args...), " "), "version", version.String())
	return nil
}

func (a *app) setLoggers(level slog.Level, f *logFile) {
	var lines, records []slog.Handler
	var shown slog.Handler = &lineHandler{w: a.stderr, level: level}
	if a.logJSON {
		shown = recordHandler(a.stderr, level, true)
		records = append(records, shown)
	} else {
		lines = append(lines, shown)
	}
	if f != nil {
		f.failed = func(err error) { slog.New(shown).Warn("messages do not reach the log file", "error", err) }
		records = append(records, recordHandler(f, min(level, slog.LevelInfo), a.logJSON))
	}
	a.records = slog.New(slog.NewMultiHandler(records...))
	a.log = slog.New(slog.NewMultiHandler(append(lines, records...)...))
}

// recordHandler writes records without secrets, with the process, in UTC.
func recordHandler(w io.Writer, level slog.Level, json bool) slog.Handler {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: sanitise}
	var h slog.Handler = slog.NewTextHandler(w, o)
	if json {
		h = slog.NewJSONHandler(w, o)
	}
	host, _ := os.Hostname() // which may have no name
	return h.WithAttrs([]slog.Attr{slog.String("host", host), slog.Int("pid", os.Getpid())})
}

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
			at.Value = slog.StringValue(redact.Text(x.String()))
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

// oneLine is the text of an error in a message about something else: one line.
func oneLine(err error) string {
	if e, ours := err.(*exit.Error); ours {
		return exit.OneLine(e)
	}
	return err.Error()
}

// warn logs a warning of a job.
func (a *app) warn(text string) { a.log.Warn(answer.Printable(text)) }

// recordError writes an error, and each of those found in the same pass, as a record.
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

// recordEnd writes how a command ended.
func (a *app) recordEnd(code exit.Code, f answer.Envelope) {
	a.records.Info("end", "command", "ensemble "+a.command, "exit_code", int(code), "status", f.Status, "seconds", time.Since(a.started).Seconds(), "outputs", f.Outputs)
}

// progressTo is where progress is printed: lines become records where messages are.
func (a *app) progressTo() io.Writer {
	if a.logJSON {
		return lineRecords{a.records}
	}
	return a.stderr
}

// lineRecords makes a record of every line.
type lineRecords struct{ to *slog.Logger }

func (l lineRecords) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l.to.Info(strings.TrimSpace(line), "kind", "progress")
	}
	return len(p), nil
}

// logFile appends whole lines to a file that others may write to, cut short or move away:
// one that is no longer the file of its name is opened again.
type logFile struct {
	path string
	// failed hears of the first line that could not be written: a log goes on without, and nobody would know.
	failed func(error)

	mu       sync.Mutex
	f        *os.File
	reported bool
}

func openLogFile(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &logFile{path: path, f: f}, nil
}

// Write appends a line.
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

func (l *logFile) append(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := os.Stat(l.path)
	mine, err2 := l.f.Stat()
	if err != nil || err2 == nil && !os.SameFile(now, mine) {
		if f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err == nil { // else the old one goes on
			l.f.Close()
			l.f = f
		}
	}
	return l.f.Write(p)
}

// Close closes the file.
func (l *logFile) Close() error { return l.f.Close() }

// lineHandler prints messages for a person: "ensemble: warning: text key=value".
type lineHandler struct {
	w     io.Writer
	level slog.Level
	attrs []slog.Attr
}

// Enabled says whether a level is printed.
func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle prints one line.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("ensemble: ")
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
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

// WithAttrs gives a handler that adds attributes to every line.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(append([]slog.Attr{}, h.attrs...), attrs...)
	return &c
}

// WithGroup leaves groups out: lines are for people.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }
