package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// commandLines returns the command lines of this program in a page: in code blocks, and in inline code with an
// argument.
func commandLines(page string) (lines []string) {
	var block []string
	fenced, language := false, ""
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "```") {
			fenced = !fenced
			language = strings.TrimPrefix(text, "```")
			block = append(block, "")
			continue
		}
		switch {
		case fenced && slices.Contains([]string{"", "sh", "bash", "console"}, language), !fenced && strings.HasPrefix(line, "    "):
			block = append(block, strings.TrimPrefix(text, "$ "))
		default:
			block = append(block, "")
			for _, m := range inlineCommand.FindAllStringSubmatch(line, -1) {
				lines = append(lines, m[1])
			}
		}
	}
	text := strings.ReplaceAll(strings.Join(block, "\n"), "\\\n", " ")
	for line := range strings.Lines(text) {
		if m := commandOfBlock.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			lines = append(lines, m[1])
		}
	}
	return lines
}

var (
	inlineCommand  = regexp.MustCompile("`((?:bin/)?ensemble [a-z][^`…]*)`")
	commandOfBlock = regexp.MustCompile(`^(?:\w+=\S+ )*((?:\S*/)?ensemble [a-z-].*)$`)
)

// words returns the arguments of a command line up to a pipe, redirection or comment. Expansions are kept as text.
func words(line string) ([]string, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	var args []string
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || args != nil {
			return args == nil
		}
		for _, w := range call.Args {
			var b strings.Builder
			_ = syntax.NewPrinter().Print(&b, w)
			args = append(args, strings.Trim(b.String(), `'"`))
		}
		return false
	})
	return args, nil
}

// TestPagesCommandLines: every command line of the pages names a command that exists, with flags that it has.
func TestPagesCommandLines(t *testing.T) {
	if got := commandLines("`ensemble x --y` and\n\n    $ bin/ensemble z \\\n      --w # c\n\n```yaml\nensemble no\n```\n"); !slices.Equal(got, []string{"ensemble x --y", "bin/ensemble z  --w # c"}) {
		t.Fatalf("command lines %q", got)
	}
	checked := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("../..", path)
		if d.IsDir() && slices.Contains([]string{".git", "build", "bin", "runs", "testdata", "decisions"}, d.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(rel) != ".md" {
			return nil
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range commandLines(string(page)) {
			args, err := words(line)
			if err != nil || len(args) < 2 {
				t.Errorf("%s: %s: not a command line: %v", rel, line, err)
				continue
			}
			root := newApp(io.Discard, io.Discard).root
			cmd, rest, err := root.Find(args[1:])
			if err == nil && cmd == root && args[1] != "help" {
				t.Errorf("%s: %s: no such command", rel, line)
			} else if err != nil {
				t.Errorf("%s: %s: %v", rel, line, err)
			} else if err := cmd.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "invalid argument") && !strings.HasPrefix(err.Error(), "flag needs an argument") && err.Error() != "pflag: help requested" {
				t.Errorf("%s: %s: %v", rel, line, err)
			}
			checked++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 200 {
		t.Errorf("%d command lines, want over 200", checked)
	}
}
