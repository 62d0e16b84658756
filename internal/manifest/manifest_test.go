package manifest

import (
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testfiles"
)

const testSchema = "ensemble.test/1"

// document is a manifest with a field of its own.
type document struct {
	Record
	Colour string `json:"colour"`
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// written creates a directory with two outputs and a manifest.
func written(t *testing.T) (string, *document) {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "sub", "b"), "abc")
	put(t, filepath.Join(dir, "a b"), "")
	files, err := SumBelow(dir, []string{filepath.Join("sub", "b"), "a b"})
	if err != nil {
		t.Fatal(err)
	}
	d := &document{Record{Schema: testSchema, Status: OK, Start: time.Unix(0, 0).UTC(), Outputs: files}, "red"}
	if err := Write(dir, d); err != nil {
		t.Fatal(err)
	}
	return dir, d
}

func TestWriteRead(t *testing.T) {
	dir, d := written(t)
	// Checksums of the empty string and of "abc" (FIPS 180-2, appendix B.1).
	want := []File{{"a b", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"sub/b", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}}
	if !reflect.DeepEqual(d.Outputs, want) {
		t.Errorf("outputs %v, want %v", d.Outputs, want)
	}
	var got document
	if err := Read(dir, testSchema, &got); err != nil || !reflect.DeepEqual(&got, d) {
		t.Errorf("read back: %v\n%+v\n%+v", err, got, d)
	}
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"inputs": []`, `"warnings": []`, `"status": "ok"`, `"colour": "red"`, `"start": "1970-01-01T00:00:00Z"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the manifest has no %s:\n%s", part, text)
		}
	}
	if tool, err := exec.LookPath("sha256sum"); err == nil {
		cmd := exec.Command(tool, "-c", "--strict", SumsName)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 2 {
			t.Errorf("sha256sum -c: %v\n%s", err, out)
		}
	}
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(path string) error
		why    string
	}{
		{"untouched", func(string) error { return nil }, ""},
		{"gone", os.Remove, "no such file"},
		{"longer", func(p string) error { return os.WriteFile(p, []byte("abcd"), 0o644) }, "it has 4 bytes, the manifest states 3"},
		{"same size", func(p string) error { return os.WriteFile(p, []byte("abd"), 0o644) }, "SHA-256 differs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, d := written(t)
			path := filepath.Join(dir, "sub", "b")
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			err := d.Verify(dir)
			if c.why == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want exit 65 with %q", err, c.why)
			}
		})
	}
}

// A manifest with the right checksum, which an attacker can compute, names no file outside its directory.
func TestFault42(t *testing.T) {
	for _, path := range []string{"../../etc/passwd", "/etc/passwd", "a\x00b", "a/../../b", "a/../b", "./a", "a//b", ".", "..", ""} {
		d := &document{Record{Schema: testSchema, Outputs: []File{{Path: path}}}, ""}
		text, err := SealedJSON(d, &d.Checksum, " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := Parse(text, "m.json", testSchema, &document{}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "outside its directory") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	var d document
	if err := Read(dir, testSchema, &d); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no manifest: %v", err)
	}
	written, _ := written(t)
	if err := Read(written, "ensemble.other/1", &document{}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), `schema "ensemble.test/1", want "ensemble.other/1"`) {
		t.Errorf("a whole manifest of another kind: %v", err)
	}
	for _, bad := range []string{`{`, `[]`, `{}`, `{"schema":"ensemble.test/2"}`, `{"schema":7}`} {
		put(t, filepath.Join(dir, Name), bad)
		if err := Read(dir, testSchema, &document{}); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s: %v, want exit 65", bad, err)
		}
	}
	if _, err := SumBelow(dir, []string{"../x"}); err == nil {
		t.Error("an output outside the directory was accepted")
	}
	if _, err := Sum(filepath.Join(dir, "none")); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("a missing input: %v, want exit 66", err)
	}
}

// TestDamagedOutputs: an output that cannot be is named, also in a manifest whose checksum is right.
func TestDamagedOutputs(t *testing.T) {
	sum := hex.EncodeToString(make([]byte, 32))
	for want, f := range map[string]File{`a has -1 bytes`: {"a", -1, sum}, `the SHA-256 "zz"`: {"a", 1, "zz"}, `"../a"`: {"../a", 1, sum}} {
		dir := t.TempDir()
		if err := Write(dir, &document{Record{Schema: testSchema, Status: OK, Outputs: []File{{"b", 0, sum}, f}}, ""}); err != nil {
			t.Fatal(err)
		}
		if err := Read(dir, testSchema, &document{}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", f, err, want)
		}
	}
}

// TestSumLeavesNothingOpen: files whose checksums are computed are closed.
func TestSumLeavesNothingOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	put(t, path, "abc")
	n := testfiles.Left(t, func() {
		for range 50 {
			if _, err := Sum(path); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 10 { // other tests may open some meanwhile
		t.Errorf("%d files of 50 stay open", n)
	}
}

func TestIdentity(t *testing.T) {
	a, b := File{Path: "a", SHA256: "1"}, File{Path: "b", SHA256: "2"}
	one := Identity("v", "c", []File{a, b})
	if moved := (File{Path: "elsewhere", SHA256: "1"}); one != Identity("v", "c", []File{b, moved}) {
		t.Error("the order or the place of inputs changes the identity")
	}
	for name, other := range map[string]string{"version": Identity("w", "c", []File{a, b}), "config": Identity("v", "d", []File{a, b}), "inputs": Identity("v", "c", []File{a})} {
		if other == one {
			t.Errorf("another %s has the same identity", name)
		}
	}
}
