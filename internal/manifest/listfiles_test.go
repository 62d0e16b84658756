package manifest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The checksum of a folder is that of the checksums of its files, and depends on
// names and content.
func TestFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("b", "two")
	put("a/1", "one")
	list := fmt.Sprintf("%x  a/1\n%x  b\n", sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two")))
	first, err := SumFile(dir)
	if want := (File{dir, 6, fmt.Sprintf("%x", sha256.Sum256([]byte(list)))}); err != nil || first != want {
		t.Errorf("%+v, %v, want %+v", first, err, want)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if f, err := SumFile(link); err != nil || f.SHA256 != first.SHA256 {
		t.Errorf("by a link: %+v, %v", f, err)
	}
	before := first.SHA256
	for _, c := range []struct {
		what   string
		change func() error
	}{
		{"content", func() error { put("b", "TWO"); return nil }},
		{"the files", func() error { put("c", ""); return nil }},
		{"a name", func() error { return os.Rename(filepath.Join(dir, "c"), filepath.Join(dir, "d")) }},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		f, err := SumFile(dir)
		if err != nil || f.SHA256 == before {
			t.Errorf("%s changed and the sum did not: %v", c.what, err)
		}
		before = f.SHA256
	}
}
