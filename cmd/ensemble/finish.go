package main

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/redact"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// finish prints the answer or the error, and gives the exit code.
func (a *app) finish(err error) (code exit.Code) {
	code = exit.CodeOf(err)
	if a.result.answeredByRoot {
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
		perr = a.printText() // also beside an error: the answer may be "no"
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

// printError writes to standard error in the shape of the contract. Text from files
// may hold terminal escapes; they are shown, not obeyed.
func (a *app) printError(err error) {
	e := answer.Error(err)
	a.recordError(e)
	if a.logJSON {
		return
	}
	fmt.Fprintln(a.stderr, "ensemble: "+redact.Text(answer.Printable(e.Error())))
	if a.verbose && e.Err != nil {
		fmt.Fprintln(a.stderr, "  cause: "+redact.Text(answer.Printable(e.Err.Error())))
	}
}

// printText prints the answer for a person. In Markdown, what is no sections is quoted as it is.
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

// frame is what the answer in JSON begins with.
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
