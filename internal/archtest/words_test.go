package archtest

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// phrases are sequences of words by their first word, each with what to say instead.
type phrases map[string][]phrase

type phrase struct {
	words []string
	say   string
}

// readPhrases reads the table "Words that are not used" of the glossary.
func readPhrases(t *testing.T, glossary string) phrases {
	t.Helper()
	_, table, found := strings.Cut(glossary, "\n## Words that are not used\n")
	if !found {
		t.Fatal("docs/glossary.md has no section \"Words that are not used\"")
	}
	p := phrases{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 2 || strings.TrimSpace(cells[0]) == "not" {
			continue
		}
		for _, text := range strings.Split(cells[0], ";") {
			words := splitWords(text)
			p[words[0]] = append(p[words[0]], phrase{words, strings.TrimSpace(cells[1])})
		}
	}
	return p
}

// splitWords are the words of a text, in lower case.
func splitWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '-' && r != '\'' && r != '’' })
}

// find returns the phrases in a text, each with what to say instead.
func (p phrases) find(text string) (found []string) {
	words := splitWords(text)
	for i, w := range words {
		for _, ph := range p[w] {
			if len(words)-i >= len(ph.words) && slices.Equal(words[i:i+len(ph.words)], ph.words) {
				found = append(found, strconv.Quote(strings.Join(ph.words, " "))+": say "+ph.say)
			}
		}
	}
	return found
}

// proseOfGo gives the comments and the texts of a Go file by their lines. Consecutive comment lines are one text, so that a
// phrase may continue on the next line.
func proseOfGo(src []byte) map[int]string {
	prose := map[int]string{}
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	begin, last := 0, -2 // of the comment block
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return prose
		}
		line := fset.Position(pos).Line
		switch tok {
		case token.COMMENT:
			if line != last+1 {
				begin = line
			}
			prose[begin] += strings.TrimLeft(lit, "/*") + " "
			last = line
		case token.STRING:
			if strings.Contains(lit, " ") {
				prose[-line] += lit + " "
			}
		}
	}
}

// eachSource calls f for every file of the repository that has prose: pages, Go, C and HTML, without test data and decisions, which are
// records of their time.
func eachSource(t *testing.T, f func(rel string, src []byte)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("../..", path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if slices.Contains([]string{".git", "build", "bin", "runs", "docs/decisions"}, rel) || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".md", ".c", ".h", ".cu", ".html"}, filepath.Ext(rel)) {
			return nil
		}
		src, err := os.ReadFile(path)
		if err == nil {
			f(rel, src)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// proseOfPage gives the paragraphs of a text by their first lines.
func proseOfPage(src []byte) map[int]string {
	prose := map[int]string{}
	n, begin := 0, 1
	for line := range strings.Lines(string(src)) {
		if n++; strings.TrimSpace(line) == "" {
			begin = n + 1
		}
		prose[begin] += line
	}
	return prose
}

// TestWords: comments and texts of the program, its help and errors included, and the pages of its documentation use the words
// of the glossary.
func TestWords(t *testing.T) {
	glossary, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	p := readPhrases(t, string(glossary))
	if got := p.find("The rank deals\n\tout what IS TOLD; retold"); len(got) != 2 {
		t.Fatalf("two phrases, found %q", got)
	}
	if got := proseOfGo([]byte("package x\n\n// Dealt\n// out.\nvar y = \"is told\"\n")); got[3] != " Dealt  out. " || got[-5] != `"is told" ` {
		t.Fatalf("prose %v", got)
	}
	files := 0
	eachSource(t, func(rel string, src []byte) {
		if rel == "internal/archtest/words_test.go" { // it has examples
			return
		}
		prose := proseOfPage
		if filepath.Ext(rel) == ".go" {
			prose = proseOfGo
		}
		if rel == "docs/glossary.md" {
			src, _, _ = bytes.Cut(src, []byte("\n## Words that are not used\n"))
		}
		files++
		for line, text := range prose(src) {
			for _, f := range p.find(text) {
				t.Errorf("%s:%d: %s", rel, max(line, -line), f)
			}
		}
	})
	if files < 1000 {
		t.Errorf("%d files, want over 1000: the folders are not those of the repository", files)
	}
}
