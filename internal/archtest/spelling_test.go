package archtest

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	codeOfPage = regexp.MustCompile("(?s)```.*?```|(?m)^    .*$|`[^`\n]*`|\\]\\([^)]*\\)|<[^>]+>")
	addresses  = regexp.MustCompile("https?://\\S+|doi:\\S+|arXiv:\\S+|`[^`]*`|\"[^\"]*\"")
	// A word in lower case, or with a capital at its beginning; no identifier, path, unit or name of a file.
	plainWord = regexp.MustCompile(`(^|[\s("'“*_—–-])(\p{L}\p{Ll}+)(?:['’]s?)?($|[\s.,;:!?)"'”*_—–-])`)
)

// wordsOf returns the plain words of a text, each with the file that has it.
func wordsOf(words map[string]string, file, text string) {
	for _, field := range strings.Fields(text) {
		for _, w := range plainWord.FindAllStringSubmatch(field, -1) {
			if strings.ContainsAny(field, "/_=<>[]{}@\\") || strings.Contains(strings.TrimRight(field, ".,;:!?)"), ".") {
				break
			}
			if !strings.ContainsFunc(w[2], func(r rune) bool { return unicode.Is(unicode.Greek, r) || r == 'µ' }) { // a formula
				words[w[2]] = file
			}
		}
	}
}

// misspelt returns the words that are neither English nor in the list of words.
func misspelt(t *testing.T, known []byte, words []string) []string {
	t.Helper()
	hunspell, err := exec.LookPath("hunspell")
	if err != nil {
		t.Skip("skipped: no hunspell in PATH, with its British dictionary")
	}
	list := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(list, known, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(hunspell, "-i", "utf-8", "-d", "en_GB", "-p", list, "-l")
	cmd.Stdin = strings.NewReader(strings.Join(words, "\n"))
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil || log.Len() > 0 {
		t.Fatalf("hunspell: %v %s", err, &log)
	}
	own := strings.Fields(string(known)) // hunspell forbids some, such as Gao
	return slices.DeleteFunc(strings.Fields(string(out)), func(w string) bool { return slices.Contains(own, w) })
}

// TestSpelling: words of the pages, and of the comments of Go without tests, are in the British dictionary of hunspell, in the
// glossary or in docs/dictionary.txt, which has names of authors and programs and technical terms.
func TestSpelling(t *testing.T) {
	glossary, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile("../../docs/dictionary.txt")
	if err != nil {
		t.Fatal(err)
	}
	dictionary := strings.Split(strings.TrimSpace(string(known)), "\n")
	if !slices.IsSorted(dictionary) {
		t.Error("docs/dictionary.txt is not sorted (LC_ALL=C sort -u)")
	}
	for _, p := range list(t) { // the names of packages
		known = append(known, "\n"+p.short()[strings.LastIndex(p.short(), "/")+1:]...)
	}
	terms := map[string]string{}
	wordsOf(terms, "", strings.ReplaceAll(string(glossary), "|", " "))
	for w := range terms {
		known = append(known, "\n"+w...)
	}
	if got := misspelt(t, known, []string{"initialisation", "callibrated", "forecast"}); !slices.Equal(got, []string{"callibrated"}) {
		t.Fatalf("misspelt: %q, want callibrated", got)
	}
	words := map[string]string{}
	eachSource(t, func(rel string, src []byte) {
		switch {
		case strings.HasSuffix(rel, ".md"):
			wordsOf(words, rel, addresses.ReplaceAllString(codeOfPage.ReplaceAllString(string(src), " "), " "))
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"):
			for line := range strings.Lines(string(src)) {
				if text, found := strings.CutPrefix(strings.TrimSpace(line), "// "); found && !strings.HasPrefix(text, "\t") {
					wordsOf(words, rel, addresses.ReplaceAllString(text, " "))
				}
			}
		}
	})
	if len(words) < 3000 {
		t.Errorf("%d words, want over 3000", len(words))
	}
	for _, w := range misspelt(t, known, slices.Sorted(maps.Keys(words))) {
		t.Errorf("%s: %q is in no dictionary: correct it, or add a name or term to docs/dictionary.txt", words[w], w)
	}
}
