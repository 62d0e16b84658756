package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// envelope is the frame of every JSON answer; the command's own fields follow it in
// the same object. Fields are only added, never renamed, within a major version.
type envelope struct {
	Schema   int      `json:"schema"`
	Command  string   `json:"command"`
	Version  string   `json:"version"`
	Status   string   `json:"status"` // ok, degraded, failed, interrupted
	ExitCode int      `json:"exit_code"`
	Outputs  []string `json:"outputs"`
	Warnings []string `json:"warnings"`
	Error    *fault   `json:"error,omitempty"`
}

// fault is an error in JSON.
type fault struct {
	Code string   `json:"code"` // "E065"
	What string   `json:"what"`
	At   string   `json:"at,omitempty"`
	Why  string   `json:"why,omitempty"`
	Fix  string   `json:"fix,omitempty"`
	More []*fault `json:"more,omitempty"`
}

func faultOf(e *exit.Error) *fault {
	f := &fault{Code: fmt.Sprintf("E%03d", int(e.Code)), What: e.What, At: e.At, Why: e.Why, Fix: e.Fix}
	for _, m := range e.More {
		f.More = append(f.More, faultOf(m))
	}
	return f
}

// asError gives every error the shape that users read. One that nobody gave a code
// to is our bug.
func asError(err error) *exit.Error {
	var e *exit.Error
	if errors.As(err, &e) {
		return e
	}
	return &exit.Error{Code: exit.Bug, What: err.Error(), Why: "the program has no better words for this, which is a bug",
		Fix: "report it with this text and the command line", Err: err}
}

// finish prints the answer or the error, and gives the exit code.
func (a *app) finish(err error) exit.Code {
	code := exit.CodeOf(err)
	if err != nil {
		a.printError(err)
	}
	if a.answer.printed {
		return code
	}
	var perr error
	if a.json {
		perr = a.printJSON(err)
	} else if a.answer.text != nil { // also beside an error: the answer may be "no"
		perr = a.answer.text(a.stdout)
	}
	if !a.quiet && !a.answer.told {
		for _, w := range a.answer.warnings {
			fmt.Fprintln(a.stderr, "ensemble: warning:", printable(w))
		}
	}
	if perr != nil && err == nil {
		e := exit.Create("standard output", perr)
		a.printError(e)
		return exit.CodeOf(e)
	}
	return code
}

// printError writes to standard error in the shape of the contract. Text from files
// may hold terminal escapes; they are shown, not obeyed.
func (a *app) printError(err error) {
	e := asError(err)
	fmt.Fprintln(a.stderr, "ensemble: "+printable(e.Error()))
	if a.verbose && e.Err != nil {
		fmt.Fprintln(a.stderr, "  cause: "+printable(e.Err.Error()))
	}
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

func (a *app) printJSON(err error) error {
	e := envelope{Schema: 1, Command: a.command, Version: version.Version, Status: "ok", ExitCode: int(exit.CodeOf(err)),
		Outputs: append([]string{}, a.answer.outputs...), Warnings: append([]string{}, a.answer.warnings...)}
	switch {
	case err != nil && e.ExitCode == int(exit.SaveAndStop):
		e.Status = "interrupted"
	case err != nil:
		e.Status = "failed"
	case a.answer.degraded:
		e.Status = "degraded"
	}
	if err != nil {
		e.Error = faultOf(asError(err))
	}
	return writeJSON(a.stdout, e, a.answer.data)
}

// writeJSON writes frame and data as one object on one line.
func writeJSON(w io.Writer, frame, data any) error {
	encode := func(v any) ([]byte, error) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		err := enc.Encode(v)
		return bytes.TrimSpace(b.Bytes()), err
	}
	out, err := encode(frame)
	if err != nil {
		return err
	}
	if data != nil {
		fields, err := encode(data)
		if err != nil {
			return err
		}
		if len(fields) < 2 || fields[0] != '{' {
			return fmt.Errorf("the answer is %T, which is no JSON object", data)
		}
		if len(fields) > 2 {
			out = append(append(out[:len(out)-1], ','), fields[1:]...)
		}
	}
	_, err = w.Write(append(out, '\n'))
	return err
}
