// Command ensemble is the program. Each subcommand is one file: flags in, one call
// into ensemble/run or ensemble/config, and out comes an answer on standard output
// and an exit code. What the subcommands share, the answer and its frame, errors,
// signals, help, is in app.go, finish.go and help.go.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

func main() { os.Exit(int(execute(os.Args[1:], os.Stdout, os.Stderr))) }

// execute runs one command line. A panic is our bug: it is said so, with what to
// send, and the exit code is 70.
func execute(args []string, stdout, stderr io.Writer) (code exit.Code) {
	a := newApp(stdout, stderr)
	defer func() {
		if p := recover(); p != nil {
			if a.records != nil {
				a.records.Error("internal error", "code", "E070", "exit_code", int(exit.Bug), "why", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			if code = exit.Bug; a.logJSON {
				return
			}
			fmt.Fprintf(stderr, "ensemble: error[E070]: internal error: %v\n  why: a bug in the program\n"+
				"  fix: report it with this text and the command line\n%s", p, debug.Stack())
		}
	}()
	return a.run(args)
}
