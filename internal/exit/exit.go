// Package exit defines the exit codes of the program and the format of its error
// messages. Codes are part of the API, because schedulers act on them.
package exit

import (
	"errors"
	"fmt"
	"strings"
)

// Code is a process exit code. Libraries never exit: they return an Error, and the
// command line converts its Code to the exit status.
type Code int

// The exit codes, with the recommended reaction of a scheduler.
const (
	OK          Code = 0  // done; outputs complete and in the manifest
	No          Code = 1  // ran, and the answer is no: alert
	Usage       Code = 64 // usage or config error, nothing read or written: fix
	BadData     Code = 65 // corrupt, inconsistent, wrong units or grid: alert
	NotYet      Code = 66 // input missing or not complete yet: retry later
	NoDevice    Code = 69 // needed device or library absent: another node
	Bug         Code = 70 // internal error: report
	RankLost    Code = 71 // a rank died or hung: retry
	CannotWrite Code = 73 // cannot create output: exists, permission, locked
	IO          Code = 74 // disk full, read error, stale handle: retry after a fix
	SaveAndStop Code = 75 // interrupted, state saved: the same command continues
)

// All lists the codes in ascending order with their meanings, for `ensemble help
// exit-codes`.
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
	{RankLost, "a rank died or hung", "retry from checkpoint"},
	{CannotWrite, "cannot create output", "fix"},
	{IO, "I/O error: disk full, read error, stale handle", "retry after a fix"},
	{SaveAndStop, "interrupted, state saved; same command continues", "requeue"},
}

// Error is an error for users: what failed, where, why, and the next step. Code
// determines the exit status and the number in the message.
type Error struct {
	Code Code
	What string   // one clause, lower case, no full stop
	At   string   // file:line:column, or file, message, byte, section; may be empty
	Why  string   // cause; may be empty
	Fix  string   // next step
	More []*Error // further errors found in the same pass
	Err  error    // wrapped cause for errors.Is; shown only with --verbose
}

// Error formats the message:
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

// Unwrap returns the wrapped cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the exit code of an error: OK for nil, the code of the first Error
// in its chain, and Bug for an error without a code.
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

// OneLine formats an error in one line: what, where and why.
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

// Reason returns the cause and the fix of an Error. For other errors it returns the
// whole text and no fix.
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
