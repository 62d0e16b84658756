// Command testsum reads what `go test -json` prints and tells a person: one line
// a package, the whole output of what failed, every skipped test with its reason,
// and at the end "N passed, N failed, N skipped". Tests and subtests count alike.
//
//	go test -json ./... | testsum [-record FILE]
//
// With -record the summary is also written to FILE, headed by machine, date and
// version, with what the tests logged: how `make check-long` keeps its proof.
//
// Exit: 0 all passed; 1 something failed or nothing ran; 64 wrong flags.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

// summary is what a test run came to.
type summary struct {
	passed, failed int
	skipped        []string // "package.Test: reason", in order of arrival
	broken         int      // packages that failed without a failed test
	// logs prints what passing tests logged, and leaves out packages that ran none.
	logs bool
}

// sum reads events until the end of r and writes lines for a person to w, with
// what passing tests logged if logs.
func sum(r io.Reader, w io.Writer, logs bool) (summary, error) {
	s := summary{logs: logs}
	output := map[string][]string{} // by package and test, until decided
	failures := map[string]int{}    // failed tests by package
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprint(w, string(line)) // the go command's own words
			} else {
				s.take(e, output, failures, w)
			}
		}
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return s, err
		}
	}
}

func (s *summary) take(e event, output map[string][]string, failures map[string]int, w io.Writer) {
	id := e.Package + "." + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(w, e.Output)
	case "output":
		output[id] = append(output[id], e.Output)
	case "pass", "skip", "fail":
		lines := output[id]
		delete(output, id)
		if e.Test == "" {
			s.pack(e, lines, failures, w)
			return
		}
		switch e.Action {
		case "pass":
			s.passed++
			if s.logs {
				fmt.Fprintf(w, "pass  %s\n", id)
				for _, l := range logged(lines) {
					fmt.Fprintf(w, "      %s\n", l)
				}
			}
		case "skip":
			s.skipped = append(s.skipped, id+": "+reason(lines))
		case "fail":
			s.failed++
			failures[e.Package]++
			fmt.Fprint(w, strings.Join(lines, ""))
		}
	}
}

// pack reports the end of a package.
func (s *summary) pack(e event, lines []string, failures map[string]int, w io.Writer) {
	switch e.Action {
	case "pass":
		if s.logs && strings.Contains(strings.Join(lines, ""), "[no tests to run]") {
			return
		}
		fmt.Fprintf(w, "ok    %-70s %6.1fs\n", e.Package, e.Elapsed)
	case "fail":
		if failures[e.Package] == 0 {
			s.broken++
			fmt.Fprint(w, strings.Join(lines, ""))
		}
		fmt.Fprintf(w, "FAIL  %-70s %6.1fs\n", e.Package, e.Elapsed)
	}
}

// logged is what a test said: its lines but the frame of the test runner, without
// the file and line before them.
func logged(lines []string) []string {
	var out []string
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "---") || strings.HasPrefix(l, "===") {
			continue
		}
		if _, after, ok := strings.Cut(l, ".go:"); ok {
			if _, text, ok := strings.Cut(after, ": "); ok {
				l = text
			}
		}
		out = append(out, l)
	}
	return out
}

// reason is what a test said last when it was skipped.
func reason(lines []string) string {
	if said := logged(lines); len(said) > 0 {
		return said[len(said)-1]
	}
	return "no reason given"
}

func (s *summary) print(w io.Writer) {
	for _, line := range s.skipped {
		fmt.Fprintf(w, "skip  %s\n", line)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", s.passed, s.failed+s.broken, len(s.skipped))
}

func main() {
	record := flag.String("record", "", "also write the summary to this file")
	version := flag.String("version", "unknown", "version to name in the record")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: go test -json ./... | testsum [-record FILE] [-version V]")
		os.Exit(64)
	}
	var kept strings.Builder
	out := io.MultiWriter(os.Stdout, &kept)
	s, err := sum(os.Stdin, out, *record != "")
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	s.print(out)
	if *record != "" {
		head := fmt.Sprintf("date %s\nversion %s\nmachine %s/%s, %d CPUs, %s\n\n", time.Now().UTC().Format(time.RFC3339),
			*version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
		if err := os.WriteFile(*record, []byte(head+kept.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			os.Exit(1)
		}
	}
	if s.failed+s.broken > 0 || s.passed == 0 {
		os.Exit(1)
	}
}
