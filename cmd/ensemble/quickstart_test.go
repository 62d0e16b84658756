package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

const quickstartPage = "../../docs/quickstart.md"

// block is a block of commands of a page, and the output that the page states.
type block struct {
	line     int // of the page, where the commands begin
	commands string
	// stated are lines of the output in order; "..." matches any text.
	stated []string
}

// blocks reads a page: ```sh contains commands, and the following ```text their output.
func blocks(t *testing.T, path string) []block {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []block
	inside := ""
	n := 0
	for line := range strings.Lines(string(page)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		fence, is := strings.CutPrefix(line, "```")
		switch {
		case is && inside != "":
			inside = ""
		case is && fence != "sh" && fence != "text", is && fence == "text" && len(found) == 0:
			t.Fatalf("%s:%d: a block of neither commands nor output", path, n)
		case is:
			inside = fence
			if inside == "sh" {
				found = append(found, block{line: n + 1})
			}
		case inside == "sh":
			found[len(found)-1].commands += line + "\n"
		case inside == "text":
			found[len(found)-1].stated = append(found[len(found)-1].stated, line)
		}
	}
	return found
}

// count is a whole number, and the plural of the word after it.
var count = regexp.MustCompile(`[0-9]+( [a-z]+s\b)?`)

// unstated returns the first line of a page that does not occur in the output after the lines before it. The width
// of columns is ignored; with anyCount whole numbers are too.
func unstated(stated []string, output string, anyCount bool) string {
	lines := strings.Split(output, "\n")
	for _, want := range stated {
		var parts []string
		for p := range strings.SplitSeq(strings.Join(strings.Fields(want), " "), "...") {
			p = regexp.QuoteMeta(p)
			if anyCount {
				p = count.ReplaceAllStringFunc(p, func(s string) string {
					if things := strings.TrimLeft(s, "0123456789"); things != "" {
						return "[0-9]+" + things + "?" // 1 has no plural
					}
					return "[0-9]+"
				})
			}
			parts = append(parts, p)
		}
		like := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		is := func(line string) bool { return like.MatchString(strings.Join(strings.Fields(line), " ")) }
		i := slices.IndexFunc(lines, is)
		if i < 0 {
			return want
		}
		lines = lines[i+1:]
	}
	return ""
}

// follow runs the blocks of a page consecutively in one shell, which ends at the first failure, in an empty
// folder, and compares their output with that of the page. programs is the folder of the programs; small means
// that the data have fewer inits than those of the page.
func follow(t *testing.T, page string, all []block, programs string, small bool) {
	t.Helper()
	followIn(t, t.TempDir(), page, all, programs, small)
}

// followIn is follow in an existing folder.
func followIn(t *testing.T, dir, page string, all []block, programs string, small bool) {
	t.Helper()
	const mark = "\x1e"
	var script strings.Builder
	for _, b := range all {
		fmt.Fprintf(&script, "%sprintf '%s'\n", b.commands, mark)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-e", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	printed := strings.Split(string(out), mark)
	if err != nil {
		t.Fatalf("%s:%d: %v\n%s", page, all[min(len(printed), len(all))-1].line, err, printed[len(printed)-1])
	}
	for i, b := range all {
		if line := unstated(b.stated, printed[i], small); line != "" {
			t.Errorf("%s:%d: the output has no line %q where the page states it:\n%s", page, b.line, line, printed[i])
		}
	}
}

// smallData are the demo's data with few inits in each period.
func smallData(t *testing.T) string {
	t.Helper()
	o := rundemo.Options{Root: t.TempDir(), DataOnly: true}
	for _, p := range []struct {
		first        time.Time
		inits, every int
	}{{firstDay, 4, 7}, {time.Date(2003, 10, 6, 0, 0, 0, 0, time.UTC), 2, 7}, {time.Date(2004, 1, 5, 0, 0, 0, 0, time.UTC), 1, 7}} {
		for i := range p.inits {
			o.Data.InitTimes = append(o.Data.InitTimes, p.first.AddDate(0, 0, p.every*i))
		}
	}
	r, err := rundemo.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r.DataDir
}

// TestQuickstart runs the quickstart with the data of few inits and one small network. It skips the first and the
// last step, self-test and the figures of the report, which take eight seconds each. TestLongQuickstart runs the
// unchanged page.
func TestQuickstart(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	wrapper := fmt.Sprintf(`#!/bin/sh
case $1 in
demo) mkdir -p runs && exec cp -r '%[2]s' runs/demo-data ;;
train) exec '%[1]s' "$@" --set model.base=2 --set train.networks=1 --set train.threads=1 ;;
*) exec '%[1]s' "$@" ;;
esac
`, program, smallData(t))
	if err := os.WriteFile(filepath.Join(programs, "ensemble"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	all := blocks(t, quickstartPage)
	last := len(all) - 1
	if len(all) < 9 || all[0].commands != "ensemble self-test\n" || all[last].commands != "ensemble report runs/quickstart\n" {
		t.Fatalf("%s: %d blocks of commands, the first %q, the last %q", quickstartPage, len(all), all[0].commands, all[last].commands)
	}
	follow(t, quickstartPage, all[1:last], programs, true)
}

// TestUnstated: the stated lines must occur in order.
func TestUnstated(t *testing.T) {
	const output = "a 12 files\nb\n  c 3.5 s\nd 1 date\n"
	for _, c := range []struct {
		stated   []string
		anyCount bool
		want     string
	}{
		{nil, false, ""},
		{[]string{"a  12 files", "c ... s"}, false, ""},
		{[]string{"a 1 files"}, false, "a 1 files"},
		{[]string{"a 1 files"}, true, ""},
		{[]string{"a 1 file"}, true, "a 1 file"},
		{[]string{"d 12 dates"}, true, ""},
		{[]string{"d 12 dates"}, false, "d 12 dates"},
		{[]string{"a"}, false, "a"},
		{[]string{"b", "a 12 files"}, false, "a 12 files"},
	} {
		if got := unstated(c.stated, output, c.anyCount); got != c.want {
			t.Errorf("%q: %q is missing, want %q", c.stated, got, c.want)
		}
	}
}
