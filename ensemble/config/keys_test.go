package config

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// keysIn adds the paths of the keys of a YAML text, with [] behind lists of structures, and those of the levels above
// them. What is no YAML has none.
func keysIn(text []byte, into map[string]bool) {
	var tree map[string]any
	if yaml.Unmarshal(text, &tree) != nil {
		return
	}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, below := range v {
				path := strings.TrimPrefix(prefix+"."+name, ".")
				into[path] = true
				walk(path, below)
			}
		case []any:
			for _, item := range v {
				walk(prefix+"[]", item)
			}
		}
	}
	walk("", tree)
}

// assignment is a key that is given on a command line or in the environment.
var assignment = regexp.MustCompile(`([a-z_]+(?:\.[a-z0-9_]+)+)=`)

// keysInTests are those that string literals of a test set: "key=value", or a piece of YAML.
func keysInTests(text []byte, into map[string]bool) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", -1, len(text)), text, nil, 0)
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.STRING:
			value, err := strconv.Unquote(lit)
			if err != nil {
				continue
			}
			for _, m := range assignment.FindAllStringSubmatch(value, -1) {
				into[m[1]] = true
			}
			keysIn([]byte(value), into)
		}
	}
}

// What a page names keys with: words with dots, of which {a,b} stand for several; and pieces of YAML, in
// the text, as a block, or as a file that a script writes.
var (
	word   = regexp.MustCompile(`[a-z_]+(?:\.(?:[a-z0-9_]+|\{[a-z0-9_,]+\}))+`)
	braces = regexp.MustCompile(`\{([^}]*)\}`)
	code   = regexp.MustCompile("`[^`\n]+`")
	block  = regexp.MustCompile("(?m)(?:^    .*\n|^\n)+|(?s)^```.*?^```")
	here   = regexp.MustCompile("(?s)<<'EOF'\n(.*?\n)EOF\n")
)

// expanded are the words that one with braces stands for, as a shell has it.
func expanded(word string) []string {
	at := braces.FindStringSubmatchIndex(word)
	if at == nil {
		return []string{word}
	}
	var out []string
	for one := range strings.SplitSeq(word[at[2]:at[3]], ",") {
		out = append(out, expanded(word[:at[0]]+one+word[at[1]:])...)
	}
	return out
}

// keysInPage are those that a page names in full, or that its examples hold.
func keysInPage(text []byte, into map[string]bool) {
	for _, w := range word.FindAllString(string(text), -1) {
		for _, path := range expanded(w) {
			into[path] = true
		}
	}
	for _, w := range code.FindAll(text, -1) {
		keysIn(bytes.Trim(w, "`"), into)
	}
	for _, b := range block.FindAll(text, -1) {
		var plain []byte
		for line := range bytes.Lines(b) {
			if !bytes.HasPrefix(line, []byte("```")) {
				plain = append(plain, bytes.TrimPrefix(line, []byte("    "))...)
			}
		}
		keysIn(plain, into)
	}
	for _, m := range here.FindAllSubmatch(text, -1) {
		keysIn(m[1], into)
	}
}

// A key of a training serves somebody: a page names it, and a test, an experiment or an example sets it.
func TestEveryKeyServes(t *testing.T) {
	root := filepath.Join("..", "..")
	set, named := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		read := func(add func([]byte, map[string]bool), into map[string]bool) error {
			text, err := os.ReadFile(path)
			add(text, into)
			return err
		}
		switch {
		case d.IsDir() && slices.Contains([]string{".git", "build", "runs"}, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
		case strings.HasSuffix(path, "_test.go"):
			return read(keysInTests, set)
		case strings.HasSuffix(path, ".yaml"):
			return read(keysIn, set)
		case strings.HasPrefix(path, filepath.Join(root, "docs")+"/") && strings.HasSuffix(path, ".md"):
			return read(keysInPage, named)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range TrainSchema.Names() {
		if !named[k] {
			t.Errorf("no page of docs/ names %s: tell there what it is for, or take it out of the schema", k)
		}
		if !set[k] {
			t.Errorf("no test, experiment or example sets %s: try it, or take it out of the schema", k)
		}
	}
	for _, no := range []string{"train.no_such_key", "prune.block.taps"} {
		if named[no] || set[no] {
			t.Errorf("%s is found, and nowhere", no)
		}
	}
}
