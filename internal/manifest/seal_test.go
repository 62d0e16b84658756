package manifest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Every flipped bit of a manifest is refused, and the file named.
func TestFault03Manifest(t *testing.T) {
	dir, d := written(t)
	path := filepath.Join(dir, Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(whole), d.Checksum) {
		t.Fatalf("the checksum %s is not in\n%s", d.Checksum, whole)
	}
	for bit := range 8 * len(whole) {
		text := bytes.Clone(whole)
		text[bit/8] ^= 1 << (bit % 8)
		var got document
		if err := Parse(text, path, testSchema, &got); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), path) {
			t.Fatalf("bit %d of byte %d, of %q: %v", bit%8, bit/8, whole[max(0, bit/8-20):min(len(whole), bit/8+20)], err)
		}
	}
}

// A document is sealed by its own key, not by that of a field below it, and only if it has one.
func TestSealedJSON(t *testing.T) {
	type inner struct {
		Checksum string `json:"checksum"`
	}
	x := struct {
		Checksum string  `json:"checksum"`
		Below    []inner `json:"below"`
	}{Below: []inner{{"sha256:" + strings.Repeat("a", 64)}}}
	text, err := SealedJSON(&x, &x.Checksum, " ")
	if err != nil || CheckSeal(text) != nil || !bytes.Contains(text, []byte(x.Checksum)) {
		t.Errorf("%v, %v\n%s", err, CheckSeal(text), text)
	}
	if lines := bytes.Count(text, []byte("\n")); !bytes.HasSuffix(text, []byte("}\n")) || lines < 7 {
		t.Errorf("%d lines without a newline at the end:\n%s", lines, text)
	}
	var none struct{ A string }
	if _, err := SealedJSON(&none, new(string), " "); err == nil {
		t.Error("a document without the key was sealed")
	}
	if CheckSeal([]byte("{}")) == nil {
		t.Error("a document without a checksum is accepted")
	}
}
