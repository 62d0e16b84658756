package ckpt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// folders lists the names below root.
func folders(t *testing.T, root string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestIndexIsChecked: another format version, no parts, and parts with other names are refused, with the index.
func TestIndexIsChecked(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	dir := save(t, root, 7)
	path := filepath.Join(dir, indexFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		change func(x *index)
		want   string
	}{
		{"version", func(x *index) { x.Format++ }, "format version 2, this program reads version 1"},
		{"no parts", func(x *index) { x.Parts = nil }, "it lists no tensor files"},
		{"name", func(x *index) { x.Parts[0].Path = "other.st" }, `"other.st" is not in the folder`},
		{"folder", func(x *index) { x.Parts[0].Path = "rank-1/rank-0000.st" }, "is not in the folder"},
		{"size", func(x *index) { x.Parts[0].Size++ }, "by the index"},
		{"SHA-256", func(x *index) { x.Parts[0].SHA256 = strings.Repeat("0", 64) }, "SHA-256"},
		{"one tensor too few", func(x *index) { x.Parts[0].Tensors = x.Parts[0].Tensors[:1] }, "does not list this tensor"},
		{"one tensor too many", func(x *index) { x.Parts[0].Tensors = append(x.Parts[0].Tensors, tensorChecksum{Name: "late"}) }, "tensor late is missing"},
		{"type", func(x *index) { x.Parts[0].Tensors[0].DType = "F64" }, "does not list this tensor"},
		{"shape", func(x *index) { x.Parts[0].Tensors[0].Shape = []int{6} }, "does not list this tensor"},
	} {
		var x index
		if err := json.Unmarshal(raw, &x); err != nil {
			t.Fatal(err)
		}
		c.change(&x)
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want exit 65 with %q", c.what, err, c.want)
		}
	}
}

// TestFailedSave: nothing is left of a checkpoint that cannot be written, and earlier ones remain.
func TestFailedSave(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 7)
	bad := []Tensor{{Name: "x", Shape: []int{3}, Data: []float32{1, 2}}}
	if _, err := Save(root, meta(8), bad); err == nil {
		t.Fatal("a tensor without its elements was saved")
	}
	if _, err := Save(filepath.Join(root, latestFile), meta(8), sample()); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("below a file: %v, want exit 73", err)
	}
	if got := folders(t, root); !slices.Equal(got, []string{latestFile, Name(7)}) {
		t.Errorf("left %q", got)
	}
	if c, warnings, err := LoadLatest(root); err != nil || c.Step != 7 || len(warnings) > 0 {
		t.Errorf("%v, %q, %v", c, warnings, err)
	}
}

// TestNoSpace: more than the disk has is refused before anything is written, with both sizes.
func TestNoSpace(t *testing.T) {
	root := t.TempDir()
	if err := checkSpace("/proc", sample()); exit.CodeOf(err) != exit.IO || !strings.Contains(err.Error(), "it needs 1 MiB, 0 MiB are free") { // has no blocks
		t.Errorf("no free block: %v, want exit 74 with both sizes", err)
	}
	if err := checkSpace(root, sample()); err != nil {
		t.Errorf("a few bytes: %v", err)
	}
	if err := checkSpace(filepath.Join(root, "nowhere"), sample()); err != nil {
		t.Errorf("a file system that does not tell: %v", err)
	}
}

// TestPointers: LATEST and BEST with anything but the name of a checkpoint count as none.
func TestPointers(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	if _, ok := Latest(root); ok {
		t.Error("a LATEST of nothing")
	}
	save(t, root, 7)
	if step, ok := Latest(root); !ok || step != 7 {
		t.Errorf("LATEST is %d, %v", step, ok)
	}
	if _, ok := Best(root); ok {
		t.Error("a BEST of nothing")
	}
	if err := MarkBest(root, 12); err != nil {
		t.Fatal(err)
	}
	if step, ok := Best(root); !ok || step != 12 {
		t.Errorf("BEST is %d, %v", step, ok)
	}
	for _, text := range []string{"", "step-7", "step-000000007/../x", "../step-000000007", "step-x"} {
		if err := os.WriteFile(filepath.Join(root, bestFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if step, ok := Best(root); ok {
			t.Errorf("%q is read as step %d", text, step)
		}
	}
	for _, name := range []string{"step-7", "step-0000000099x", "other"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, Name(9)), nil, 0o644); err != nil { // no folder
		t.Fatal(err)
	}
	if steps, err := List(root); err != nil || !slices.Equal(steps, []uint64{7}) {
		t.Errorf("steps %v, %v", steps, err)
	}
	if _, err := List(filepath.Join(root, latestFile)); err == nil {
		t.Error("a file has checkpoints")
	}
}

// TestBranchRemovesBest: a BEST of an abandoned branch is removed, one of the step or before stays.
func TestBranchRemovesBest(t *testing.T) {
	for best, stays := range map[uint64]bool{100: true, 200: true, 300: false} {
		root := filepath.Join(t.TempDir(), "checkpoints")
		for _, step := range []uint64{100, 200, 300} {
			save(t, root, step)
		}
		if err := MarkBest(root, best); err != nil {
			t.Fatal(err)
		}
		later, err := Branch(root, 200)
		if _, ok := Best(root); err != nil || !slices.Equal(later, []uint64{300}) || ok != stays {
			t.Errorf("BEST of step %d: later %v, %v; BEST stays: %v", best, later, err, ok)
		}
		if step, _ := Latest(root); step != 200 {
			t.Errorf("LATEST is %d", step)
		}
		if err := Retain(root, 5); err != nil {
			t.Fatal(err)
		}
		if got := folders(t, root); !slices.Contains(got, asidePrefix+Name(300)) {
			t.Errorf("set aside before its step is passed: %q", got)
		}
		save(t, root, 300)
		if err := Retain(root, 5); err != nil {
			t.Fatal(err)
		}
		if got := folders(t, root); slices.Contains(got, asidePrefix+Name(300)) || !slices.Contains(got, Name(300)) {
			t.Errorf("after its step is passed: %q", got)
		}
	}
}

// TestRemovePartialKeepsOthers: hidden files of other programs stay.
func TestRemovePartialKeepsOthers(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{".step-000000007.partial-x", ".trash-1", ".LATEST.partial-1", ".BEST.partial-1", ".nfs0001", ".hidden", "step-000000007"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemovePartial(root); err != nil {
		t.Fatal(err)
	}
	if got := folders(t, root); !slices.Equal(got, []string{".hidden", ".nfs0001", "step-000000007"}) {
		t.Errorf("left %q", got)
	}
	if err := RemovePartial(filepath.Join(root, "nowhere")); err != nil {
		t.Errorf("no folder: %v", err)
	}
}

// TestHeaders: short files, text that is not UTF-8, and files that are none are refused by name; what Open refuses it does not return.
func TestHeaders(t *testing.T) {
	header := func(text string, data int) []byte {
		return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), []byte(text), make([]byte, data))
	}
	for _, c := range []struct {
		raw  []byte
		want string
	}{
		{make([]byte, 8), "needs at least 9"},
		{header("{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), "not valid UTF-8"},
		{header(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}`, 1), "data_offsets give 1 bytes, want 2 for U8 [2]"},
	} {
		path := filepath.Join(t.TempDir(), "x.st")
		if err := os.WriteFile(path, c.raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(path); f != nil || exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v, want exit 65 with %q", f, err, c.want)
		}
	}
	h, err := ReadHeader(bytes.NewReader(header("{}", 0)), 10)
	if err != nil || len(h.Entries) > 0 {
		t.Errorf("a file without tensors: %+v, %v", h, err)
	}
}
