package manifest

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// abc is the SHA-256 of "abc" (FIPS 180-2, appendix B.1).
const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

// TestSum: inputs keep their paths and order.
func TestSum(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "b"), filepath.Join(dir, "a")
	put(t, a, "abc")
	put(t, b, "abcabc")
	got, err := Sum(a, b)
	if err != nil || len(got) != 2 || got[0] != (File{a, 3, abc}) || got[1].Path != b || got[1].Size != 6 {
		t.Errorf("%+v, %v", got, err)
	}
	if got := Checksums([]File{{SHA256: "2"}, {SHA256: "1"}}); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("checksums %q are not in ascending order", got)
	}
	if got, err := SumFile(a); err != nil || got != (File{a, 3, abc}) {
		t.Errorf("one file: %+v, %v", got, err)
	}
	if got := JoinFiles(a, []InputFile{{"", nil}}, []File{{"x", 3, abc}}); got != (File{a, 3, abc}) {
		t.Errorf("an input of one file: %+v", got)
	}
	if got := JoinFiles(a, []InputFile{{"x", nil}}, []File{{"x", 3, abc}}); got.SHA256 == abc || got.Size != 3 {
		t.Errorf("a folder with one file: %+v", got)
	}
}

// TestListFiles: regular files of all subfolders, in order, without links; a file is itself.
func TestListFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a/2", "a/1"} {
		put(t, filepath.Join(dir, name), name)
	}
	if err := os.Symlink("b", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	files, err := ListFiles(dir)
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
		if f.Size() != int64(len(f.Path)) {
			t.Errorf("%s has %d bytes", f.Path, f.Size())
		}
	}
	if err != nil || !slices.Equal(names, []string{"a/1", "a/2", "b"}) {
		t.Errorf("files %q, %v", names, err)
	}
	if files, err := ListFiles(filepath.Join(dir, "b")); err != nil || len(files) != 1 || files[0].Path != "" || files[0].Size() != 1 {
		t.Errorf("of a file: %+v, %v", files, err)
	}
	if _, err := ListFiles(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}

// TestErrors: what cannot be read or written has the exit code of its kind.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := SumBelow(dir, []string{"none"}); exit.CodeOf(err) != exit.CodeOf(exit.CreateError("x", os.ErrNotExist)) || !strings.Contains(err.Error(), filepath.Join(dir, "none")) {
		t.Errorf("an output that is gone: %v", err)
	}
	if _, err := SumFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
	if err := Write(filepath.Join(dir, "nowhere"), &document{}); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("no folder to write to: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, Name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Read(dir, testSchema, &document{}); !strings.Contains(err.Error(), "not a file") || !strings.Contains(err.Error(), Name) {
		t.Errorf("a manifest that is a folder: %v", err)
	}
}

// TestParseRefusesOutputs: of outputs only clean relative paths, sizes from 0 and hexadecimal checksums are accepted.
func TestParseRefusesOutputs(t *testing.T) {
	dir, d := written(t)
	raw, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	var got document
	if err := Parse(raw, "here", testSchema, &got); err != nil || len(got.Outputs) != len(d.Outputs) {
		t.Fatalf("the manifest itself: %v", err)
	}
	for _, c := range []struct{ what, old, new, want string }{
		{"the folder", `"path": "a b"`, `"path": "."`, "outside its directory"},
		{"a path that is not clean", `"path": "a b"`, `"path": "x/../a b"`, "outside its directory"},
		{"no path", `"path": "a b"`, `"path": ""`, "outside its directory"},
		{"a negative size", `"size": 3`, `"size": -1`, "damaged"},
		{"a checksum that is none", abc, strings.Repeat("x", 64), "damaged"},
	} {
		text := strings.Replace(string(raw), c.old, c.new, 1)
		if err := Parse([]byte(text), "here", testSchema, &document{}); text == string(raw) || exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "here") {
			t.Errorf("%s: %v, want exit 65", c.what, err)
		}
	}
}

// TestWriteKeepsLists: the lists of the record are not shared with what the caller has.
func TestWriteKeepsLists(t *testing.T) {
	dir := t.TempDir()
	d := &document{Record: Record{Schema: testSchema, Warnings: []string{"one"}, Inputs: []File{{"in", 3, abc}}}}
	if err := Write(dir, d); err != nil {
		t.Fatal(err)
	}
	var got document
	if err := Read(dir, testSchema, &got); err != nil || !slices.Equal(got.Warnings, []string{"one"}) || !slices.Equal(got.Inputs, d.Inputs) || len(got.Outputs) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if text := string(Sums([]File{{"a", 3, abc}, {"b", 3, abc}})); text != abc+"  a\n"+abc+"  b\n" {
		t.Errorf("%q", text)
	}
}

// TestListErrors: a folder that cannot be listed whole is an error, not a shorter list. Names in it are longer than the system takes.
func TestListErrors(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(strings.Repeat(strings.Repeat("x", 250)+"/", 20), 0o755); err != nil {
		t.Fatal(err)
	}
	if files, err := ListFiles(dir); err == nil {
		t.Errorf("listed %d files", len(files))
	}
	if f, err := SumFile(dir); err == nil {
		t.Errorf("the sum is %+v", f)
	}
	if f, err := sumRegular(dir); err == nil {
		t.Errorf("the sum of a folder as a file is %+v", f)
	}
}

// TestEachOperation: whatever operation fails while a folder is summed or its outputs are written, listed or verified, the caller receives an error.
func TestEachOperation(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"sum":        func(dir string) error { _, err := SumFile(dir); return err },
		"sum inputs": func(dir string) error { _, err := Sum(filepath.Join(dir, "a"), dir); return err },
		"sum below":  func(dir string) error { _, err := SumBelow(dir, []string{"a", "b"}); return err },
		"list":       func(dir string) error { _, err := ListFiles(dir); return err },
		"write":      func(dir string) error { return Write(dir, &document{Record: Record{Schema: testSchema}}) },
		"verify": func(dir string) error {
			return (&Record{Outputs: []File{{"a", 3, abc}, {"b/c", 3, abc}}}).Verify(dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for round := range faultfs.Rounds(faultfs.Fault{Err: syscall.EIO}, 1) {
				dir := t.TempDir()
				put(t, filepath.Join(dir, "a"), "abc")
				put(t, filepath.Join(dir, "b", "c"), "abc")
				if hit, err := round.Run(t, func() error { return do(dir) }); hit != nil && !errors.Is(err, syscall.EIO) {
					t.Errorf("%s of %s fails, and the result is %v", hit.Kind, hit.Path, err)
				}
			}
		})
	}
}

// TestOutsideIsRefused: an output outside the folder is refused also if it exists.
func TestOutsideIsRefused(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "x"), "abc")
	put(t, filepath.Join(dir, "below", "y"), "abc")
	if files, err := SumBelow(filepath.Join(dir, "below"), []string{"../x"}); err == nil {
		t.Errorf("outputs %+v", files)
	}
}

// TestUnwritable: a record that has no JSON leaves no file.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	d := &struct {
		Record
		Number float64
	}{Number: math.NaN()}
	if err := Write(dir, d); err == nil {
		t.Error("NaN was written")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	var coded *exit.Error
	if err := Read(dir, testSchema, &document{}); !errors.Is(err, os.ErrNotExist) || errors.As(err, &coded) {
		t.Errorf("no manifest: %v, want that of the file system", err)
	}
	if err := Parse([]byte("{"), "here", testSchema, &document{}); err == nil || !strings.Contains(err.Error(), "the manifest is damaged") {
		t.Errorf("half a manifest: %v", err)
	}
}
