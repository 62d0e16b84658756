// Package exit holds the exit codes of the program and the one shape of its
// error messages. Codes are part of the API: schedulers act on them.
package exit

import (
	"errors"
	"fmt"
	"strings"
)

// Code is a process exit code. Libraries never exit: they return an Error and
// the command line turns its Code into the exit status.
type Code int

// The exit codes, with what a scheduler should do on each.
const (
	OK          Code = 0  // done; outputs complete and in the manifest
	No          Code = 1  // ran, and the answer is no: alert
	Usage       Code = 64 // usage or config error, nothing read or written: fix
	BadData     Code = 65 // corrupt, inconsistent, wrong units or grid: alert
	NotYet      Code = 66 // input missing or not complete yet: retry later
	NoDevice    Code = 69 // needed device or library absent: another node
	Bug         Code = 70 // internal error: report
	RankLost    Code = 71 // a rank died, hung or disagreed: retry
	CannotWrite Code = 73 // cannot create output: exists, permission, locked
	IO          Code = 74 // disk full, read error, stale handle: retry after a fix
	SaveAndStop Code = 75 // interrupted, state saved: the same command continues
)

// All lists the codes in ascending order with their one-line meanings, as
// `ensemble help exit-codes` prints them.
var All = []struct {
	Code    Code
	Meaning string
	Advice  string
}{
	{OK, "done; outputs complete and in the manifest", "go on"},
	{No, "ran, and the answer is no", "alert"},
	{Usage, "usage or config error; nothing read or written", "fix, no retry"},
	{BadData, "bad data: corrupt, inconsistent, wrong units or grid", "alert, no retry"},
	{NotYet, "input missing or not complete yet", "retry later"},
	{NoDevice, "needed device or library not available", "other node"},
	{Bug, "internal error: a bug", "report"},
	{RankLost, "a rank died, hung or disagreed", "retry from checkpoint"},
	{CannotWrite, "cannot create output", "fix"},
	{IO, "I/O error: disk full, read error, stale handle", "retry after a fix"},
	{SaveAndStop, "interrupted, state saved; same command continues", "requeue"},
}

// Error is what a user reads: what went wrong, at which place, why, and the
// next step. Code decides the exit status and the stable number in the text.
type Error struct {
	Code Code
	What string   // one clause, lower case, no full stop
	At   string   // file:line:column, or file, message, byte, section; may be empty
	Why  string   // cause; may be empty
	Fix  string   // next step
	More []*Error // further faults found in the same pass
	Err  error    // wrapped cause for errors.Is; shown only with --verbose
}

// Error gives the text in the shape of the product's contract:
//
//	error[E065]: WHAT
//	  at: WHERE
//	  why: CAUSE
//	  fix: NEXT STEP
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "error[E%03d]: %s", int(e.Code), e.What)
	for _, part := range []struct{ name, text string }{{"at", e.At}, {"why", e.Why}, {"fix", e.Fix}} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n  %s: %s", part.name, part.text)
		}
	}
	for _, m := range e.More {
		b.WriteString("\n")
		b.WriteString(m.Error())
	}
	return b.String()
}

// Unwrap gives the wrapped cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the exit code of an error: OK for nil, that of the first Error in
// its chain, and Bug for an error nobody gave a code to.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Bug
}

// OneLine is an error in one line: what, where and why.
func OneLine(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	parts := []string{e.What}
	for _, s := range []string{e.At, e.Why} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Reason gives why an error came about and what helps: the words of an Error, or the whole text
// and no remedy.
func Reason(err error) (why, fix string) {
	var e *Error
	if !errors.As(err, &e) {
		return err.Error(), ""
	}
	why = e.Why
	if why == "" {
		why = e.What
	}
	return why, e.Fix
}
