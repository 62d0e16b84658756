// Command ensemble post-processes ensemble forecasts with neural networks.
//
// Each subcommand is one file: it parses flags, makes one call into ensemble/run or
// ensemble/config, and returns a result and an exit code. Code that all subcommands share is in
// app.go (signals, errors of the command line), flags.go (common flags), finish.go (printing of
// results), log.go (loggers), help.go and man.go.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

func main() { os.Exit(int(execute(os.Args[1:], os.Stdout, os.Stderr))) }

// execute runs one command line and returns the exit code. A panic is reported as an internal
// error with its stack, exit code 70.
func execute(args []string, stdout, stderr io.Writer) (code exit.Code) {
	a := newApp(stdout, stderr)
	defer func() {
		if p := recover(); p != nil {
			if a.records != nil {
				a.records.Error("internal error", "code", "E070", "exit_code", int(exit.Bug), "why", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			if code = exit.Bug; a.logs.json {
				return
			}
			fmt.Fprintf(stderr, "ensemble: error[E070]: internal error: %v\n  why: a bug in the program\n"+
				"  fix: report it with this text and the command line\n%s", p, debug.Stack())
		}
	}()
	return a.run(args)
}
