package main

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/redact"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// finish prints the result and the error, and returns the exit code. Ranks other than 0 print
// nothing.
func (a *app) finish(err error) (code exit.Code) {
	code = exit.CodeOf(err)
	if a.result.answeredElsewhere {
		return code
	}
	if err != nil {
		a.printError(err)
	}
	if a.loggersReady {
		defer func() { a.recordEnd(code, a.frame(err)) }()
	}
	if a.result.printed {
		return code
	}
	var perr error
	if a.json {
		perr = a.printJSON(err)
	} else {
		perr = a.printText() // also with an error: a check that failed has a report
	}
	if !a.result.logged {
		for _, w := range a.result.warnings {
			a.warn(w)
		}
	}
	if perr != nil && err == nil {
		e := exit.CreateError("standard output", perr)
		a.printError(e)
		code = exit.CodeOf(e)
	}
	return code
}

// printError writes an error to standard error, as lines or as a log record. Text from files may
// contain terminal escape sequences; they are printed in escaped form.
func (a *app) printError(err error) {
	e := answer.Error(err)
	a.recordError(e)
	if a.logs.json {
		return
	}
	fmt.Fprintln(a.stderr, answer.MarkError(a.stderr, "ensemble:")+" "+redact.Text(answer.Printable(e.Error())))
	if a.verbose && e.Err != nil {
		fmt.Fprintln(a.stderr, "  cause: "+redact.Text(answer.Printable(e.Err.Error())))
	}
}

// printText prints the result as text or Markdown. Text without sections becomes a code block in
// Markdown.
func (a *app) printText() error {
	shown, is := a.result.shown, true
	if shown == nil {
		shown, is = a.result.data.(answer.Sectioned)
	}
	switch {
	case a.result.text != nil && !a.markdown:
		return a.result.text(a.stdout)
	case a.result.text != nil:
		var b strings.Builder
		if err := a.result.text(&b); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "```text\n%s\n```\n", strings.TrimRight(b.String(), "\n"))
		return err
	case is && a.markdown:
		return shown.Sections().WriteMarkdown(a.stdout)
	case is:
		return shown.Sections().WriteText(a.stdout)
	}
	return nil
}

// frame returns the fields that every JSON result has: command, version, status, error, outputs,
// warnings.
func (a *app) frame(err error) answer.Envelope {
	f := answer.New(a.command, version.String(), err)
	f.Outputs = append(f.Outputs, a.result.outputs...)
	f.Warnings = append(f.Warnings, a.result.warnings...)
	if err == nil && a.result.degraded {
		f.Status = "degraded"
	}
	return f
}

func (a *app) printJSON(err error) error { return a.frame(err).Write(a.stdout, a.result.data) }
