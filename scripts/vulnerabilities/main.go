// Command vulnerabilities runs govulncheck on packages with the database of the module scripts/vulndb, and compares what it finds
// with the list known.txt.
//
//	vulnerabilities [-db URL] ./...
//
// It prints a line for each vulnerability of a function that the packages may call, and the number of those in modules whose
// vulnerable functions are not called. It runs in the root folder of the module.
//
// Exit: 0 all that are called are in known.txt; 1 others are called, or govulncheck failed.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed known.txt
var knownText string

func main() {
	db := flag.String("db", "", "URL of the database (https://vuln.go.dev is the newest); default: that of scripts/vulndb")
	flag.Parse()
	clean, err := check(os.Stdout, *db, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulnerabilities:", err)
	}
	if err != nil || !clean {
		os.Exit(1)
	}
}

// check runs govulncheck and reports whether all that it finds is known.
func check(w io.Writer, db string, packages []string) (clean bool, err error) {
	known, err := parseKnown(knownText)
	if err != nil {
		return false, err
	}
	if db == "" {
		if db, err = pinned(); err != nil {
			return false, err
		}
	}
	cmd := exec.Command("go", append([]string{"tool", "-modfile=scripts/tools/go.mod", "govulncheck", "-format", "json", "-db", db}, packages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("govulncheck: %w", err)
	}
	r, err := parse(bytes.NewReader(out))
	if err != nil {
		return false, err
	}
	return r.write(w, known), nil
}

// pinned returns the URL of the database of scripts/vulndb, which it downloads if necessary.
func pinned() (string, error) {
	const module = "golang.org/x/vulndb"
	cmd := exec.Command("go", "-C", "scripts/vulndb", "mod", "download", "-json", module)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", module, err)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", err
	}
	return "file://" + filepath.Join(m.Dir, "data", "osv"), nil
}

// parseKnown reads lines "ID REASON"; lines that begin with # are comments.
func parseKnown(text string) (map[string]string, error) {
	known := map[string]string{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && line[0] != '#' {
			id, reason, _ := strings.Cut(line, " ")
			if reason == "" || known[id] != "" {
				return nil, fmt.Errorf("known.txt: %q has no reason, or is listed twice", id)
			}
			known[id] = reason
		}
	}
	return known, nil
}

// finding is a vulnerability of one module.
type finding struct {
	id, module, version, fixed, summary string
	called                              bool // the packages may call a vulnerable function
}

// report has the findings by identifier and module.
type report struct {
	db    string // URL of the database
	found map[string]finding
}

// parse reads the messages of govulncheck -format json.
//
// Source: golang.org/x/vuln, internal/govulncheck, Message; a trace begins with the vulnerable function, package or module.
func parse(r io.Reader) (report, error) {
	out, summaries := report{found: map[string]finding{}}, map[string]string{}
	for d := json.NewDecoder(r); ; {
		var m struct {
			Config struct {
				DB string `json:"db"`
			} `json:"config"`
			OSV struct {
				ID      string `json:"id"`
				Summary string `json:"summary"`
			} `json:"osv"`
			Finding struct {
				OSV   string `json:"osv"`
				Fixed string `json:"fixed_version"`
				Trace []struct {
					Module, Version, Function string
				} `json:"trace"`
			} `json:"finding"`
		}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return out, fmt.Errorf("output of govulncheck: %w", err)
		}
		out.db = cmp.Or(m.Config.DB, out.db)
		summaries[m.OSV.ID] = m.OSV.Summary
		if f := m.Finding; f.OSV != "" && len(f.Trace) > 0 {
			at := f.Trace[0]
			key := f.OSV + " " + at.Module
			called := out.found[key].called || at.Function != ""
			out.found[key] = finding{f.OSV, at.Module, at.Version, f.Fixed, summaries[f.OSV], called}
		}
	}
	if out.db == "" {
		return out, errors.New("govulncheck names no database")
	}
	return out, nil
}

// write prints the report, and reports whether all that is called is known.
func (r report) write(w io.Writer, known map[string]string) (clean bool) {
	counts := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(r.found)) {
		f := r.found[key]
		reason := known[f.id]
		switch {
		case !f.called:
			counts["not called"]++
			continue
		case reason != "" && f.module == "stdlib":
			counts["known"]++
			fmt.Fprintf(w, "known  %s %s %s, fixed in %s: %s\n", f.id, f.module, f.version, f.fixed, reason)
		default:
			counts["new"]++
			fmt.Fprintf(w, "NEW    %s %s %s, fixed in %s: %s\n", f.id, f.module, f.version, f.fixed, f.summary)
		}
	}
	fmt.Fprintf(w, "vulnerabilities: %d new, %d known, %d in modules whose vulnerable functions are not called; database %s\n",
		counts["new"], counts["known"], counts["not called"], r.db)
	return counts["new"] == 0
}
