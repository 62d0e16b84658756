package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/syntax"

	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/internal/exit"
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
	checked, executed, variants := 0, 0, 0
	for _, path := range pages(t) {
		rel, _ := filepath.Rel("../..", path)
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
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
			variants += checkVariants(t, rel, cmd)
			checked++
			if runnable[cmd.CommandPath()] && !slices.ContainsFunc(args, func(a string) bool {
				return strings.Contains(a, "$") || strings.ContainsAny(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || strings.HasSuffix(a, ".yaml")
			}) {
				if code, _, stderr := call(t, args[1:]...); code != exit.OK {
					t.Errorf("%s: %s: exit %d, %s", rel, line, code, stderr)
				}
				executed++
			}
		}
	}
	if checked < 200 || executed < 20 || variants < 20 {
		t.Errorf("%d command lines, %d of them executed, %d variants, want over 200, 20 and 20", checked, executed, variants)
	}
}

// checkVariants checks the variants of a command line, but for words that a shell expands or that are left out. It
// returns their number.
func checkVariants(t *testing.T, page string, cmd *cobra.Command) int {
	variants, err := cmd.Flags().GetStringArray("variant")
	if err != nil {
		return 0 // the command has none
	}
	for _, v := range variants {
		words := slices.DeleteFunc(strings.Fields(v), func(w string) bool { return strings.ContainsAny(w, "$…") })
		if _, err := experiment.ParseVariant(strings.Join(words, " ")); err != nil {
			t.Errorf("%s: %v", page, err)
		}
	}
	return len(variants)
}

// runnable are commands that need no file and write none. The others of the quickstart, of the pages of migration and of the
// suites are run by tests of their own.
var runnable = map[string]bool{"ensemble config explain": true, "ensemble config schema": true, "ensemble help": true, "ensemble version": true,
	"ensemble doctor": true, "ensemble engine passes": true, "ensemble engine ops": true, "ensemble completion": true}

// dottedKey matches the path of a key in a section of a configuration file.
var dottedKey = regexp.MustCompile(`(?:^|[^\w./-])((?:data|model|train|climate|calibrate|calibration|prune|teacher|members|drift|alarms|serve|output|coupling|neighbourhood)(?:\.[a-z_]+(?:\[\])?)+)(?:$|[^\w(/.-]|\.\W|\.$)`)

// TestPagesKeys: every key of a configuration file that a page names by its path exists in a schema.
func TestPagesKeys(t *testing.T) {
	keys := map[string]bool{
		"data.folder": true, "data.source": true, "data.optimum": true, "data.oracle": true, // of experiment.yaml
		"members.shape": true, "output.sfc": true, "output.pl": true, // an attribute in Python; names of files
		"prune.hidden": true, "prune.last": true, "prune.mask": true, "prune.scores": true, // tensors of checkpoints
	}
	type schema struct {
		Properties           map[string]*schema
		Items                *schema
		AdditionalProperties any
		AnyOf, OneOf         []*schema
	}
	var walk func(s *schema, path string)
	walk = func(s *schema, path string) {
		if s == nil {
			return
		}
		for name, p := range s.Properties {
			q := strings.TrimPrefix(path+"."+name, ".")
			keys[q] = true
			walk(p, q)
		}
		walk(s.Items, path)
		for _, o := range slices.Concat(s.AnyOf, s.OneOf) {
			walk(o, path)
		}
	}
	for _, file := range []string{"train", "predict", "prune", "distil", "quantise"} {
		code, stdout, stderr := call(t, "config", "schema", "--schema", file)
		var s schema
		if err := json.Unmarshal([]byte(stdout), &s); code != exit.OK || err != nil {
			t.Fatalf("schema of %s: exit %d, %v, %s", file, code, err, stderr)
		}
		walk(&s, "")
	}
	if !keys["train.loss.kind"] || !keys["data.targets.variable"] {
		t.Fatal("the schemas have no train.loss.kind or no data.targets[].variable")
	}
	if m := dottedKey.FindStringSubmatch("`data.none.such`, see"); m == nil || keys[m[1]] {
		t.Fatalf("a wrong key is not found: %q", m)
	}
	named := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range dottedKey.FindAllStringSubmatch(string(text), -1) {
			key := strings.ReplaceAll(m[1], "[]", "")
			if ext := filepath.Ext(key); slices.Contains([]string{".md", ".json", ".yaml", ".jsonl", ".nc", ".csv", ".parquet", ".safetensors", ".sums", ".html", ".py", ".sh", ".go", ".log", ".txt", ".grib"}, ext) {
				continue
			}
			if named++; !keys[key] {
				t.Errorf("%s: no schema has the key %s", page, key)
			}
		}
	}
	if named < 300 {
		t.Errorf("%d keys, want over 300", named)
	}
}

// pages lists the Markdown files of the repository without decisions, which are records of their time.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "build", "bin", "runs", "testdata", "decisions"}, d.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
