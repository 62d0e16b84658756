package ckpt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testfiles"
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
		text, err := manifest.SealedJSON(&x, &x.Checksum, " ") // the checksum of the index alone does not find it
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit 65 with %q", c.what, err, c.want)
		}
	}
}

// TestFailedSave: nothing is left of a checkpoint that cannot be written, and earlier ones remain.
func TestFailedSave(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 7)
	bad := []Tensor{{Name: "x", Shape: []int{3}, Data: []float32{1, 2}}}
	made, restore := faultfs.Use(faultfs.Fault{Of: faultfs.Changing})
	_, err := Save(root, meta(8), bad, nil)
	restore()
	if err == nil || made.Count() > 0 { // as where the disk has too little space
		t.Fatalf("a tensor without its elements: %v, after %d operations that change files", err, made.Count())
	}
	if _, err := Save(filepath.Join(root, latestFile), meta(8), sample(), nil); exit.CodeOf(err) != exit.CannotWrite {
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
		{header(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[3],"data_offsets":[1,3]}}`, 3), "data_offsets give 2 bytes, want 3 for U8 [3]"},
		{header("x", 0), "header length 1 exceeds the file of 9 bytes"},
		{header(`{"__metadata__":{"k":"1"},"__metadata__":{"k":"2"}}`, 0), "tensor is listed twice"},
		{header(`{"__metadata__":{"k":"1","k":"2"}}`, 0), "is given twice"},
		{header(`{a`, 1), "not valid JSON"},
		{header(`{"a":{7}}`, 1), "not valid JSON"},
		{header(`["a"]`, 1), "does not begin with {"},
		{header(`{"a":[1]}`, 1), "want an object"},
		{header(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`, 1), "not valid JSON"},
		{header(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]`, 1), "not valid JSON"},
	} {
		path := filepath.Join(t.TempDir(), "x.st")
		if err := os.WriteFile(path, c.raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(path); f != nil || exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v, want exit 65 with %q", f, err, c.want)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad.st")
	if err := os.WriteFile(bad, make([]byte, 8), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := testfiles.Left(t, func() {
		for range 20 {
			if f, err := Open(bad); err == nil {
				f.Close()
			}
		}
	}); n > 5 { // other tests may open some meanwhile
		t.Errorf("%d files stay open", n)
	}
	h, err := ReadHeader(bytes.NewReader(header("{}", 0)), 10)
	if err != nil || len(h.Entries) > 0 {
		t.Errorf("a file without tensors: %+v, %v", h, err)
	}
}

// sparse is a file of any size that has only a beginning.
type sparse []byte

func (s sparse) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > int64(len(s)) {
		return 0, errors.New("read behind the beginning")
	}
	return copy(p, s[at:]), nil
}

// TestEmptyTensors: tensors without elements lie between others, in any order of the header.
func TestEmptyTensors(t *testing.T) {
	entries := []string{`"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}`, `"e":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}`, `"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}`}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		text := "{" + entries[order[0]] + "," + entries[order[1]] + "," + entries[order[2]] + "}"
		raw := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), []byte(text), make([]byte, 8))
		if h, err := ReadHeader(bytes.NewReader(raw), int64(len(raw))); err != nil || len(h.Entries) != 3 {
			t.Errorf("order %v: %v", order, err)
		}
	}
}

// TestGuardedSave: the newest checkpoint gets its name within the guard, which states whether this process may still write; without it the
// checkpoint before stays the newest.
func TestGuardedSave(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 7)
	lost := errors.New("the lease is lost")
	if _, err := Save(root, meta(8), sample(), func(func() error) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
	if step, _ := Latest(root); step != 7 || slices.Contains(folders(t, root), Name(8)) {
		t.Errorf("LATEST is %d of %q", step, folders(t, root))
	}
	var within uint64
	if _, err := Save(root, meta(8), sample(), func(publish func() error) error {
		err := publish()
		within, _ = Latest(root)
		return err
	}); err != nil || within != 8 {
		t.Errorf("LATEST is %d within the guard, %v", within, err)
	}
}

// TestUnencodableState: a state that is no JSON is an error, and no checkpoint is made.
func TestUnencodableState(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 7)
	m := meta(8)
	m.State = json.RawMessage("{")
	if dir, err := Save(root, m, sample(), nil); err == nil {
		t.Errorf("saved in %q", dir)
	}
	if step, _ := Latest(root); step != 7 || slices.Contains(folders(t, root), Name(8)) {
		t.Errorf("LATEST is %d of %q", step, folders(t, root))
	}
}

// TestFileKind: what is no file is named.
func TestFileKind(t *testing.T) {
	for mode, want := range map[os.FileMode]string{os.ModeDir | 0o755: "folder", os.ModeNamedPipe | 0o644: "pipe", os.ModeDevice | os.ModeCharDevice | 0o644: "device", os.ModeSocket | 0o644: "special file"} {
		if got := fileKind(mode); got != want {
			t.Errorf("%v: %s, want %s", mode, got, want)
		}
	}
}

// TestHeaderLimit: a header of more than 100 MB is refused before it is read, one of 100 MB is not refused for its length.
func TestHeaderLimit(t *testing.T) {
	for length, want := range map[uint64]string{100_000_000: "header does not begin with {", 100_000_001: "header length 100000001"} {
		raw := append(binary.LittleEndian.AppendUint64(nil, length), 'x')
		if _, err := ReadHeader(sparse(raw), 1<<30); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", length, err, want)
		}
	}
	if _, err := ReadHeader(sparse(append(binary.LittleEndian.AppendUint64(nil, 100), '{')), 1<<30); err == nil || !strings.Contains(err.Error(), "behind the beginning") {
		t.Errorf("a header that cannot be read: %v", err)
	}
}

// copied returns a copy of a folder.
func copied(t *testing.T, dir string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "checkpoints")
	if err := os.CopyFS(root, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return root
}

// eachFault calls do in a new root with checkpoints 100 and 200, once for every operation on files that fails in it, and then check.
func eachFault(t *testing.T, do func(root string) error, check func(root string, hit faultfs.Operation, err error)) {
	t.Helper()
	before := filepath.Join(t.TempDir(), "before")
	save(t, before, 100)
	save(t, before, 200)
	for round := range faultfs.Rounds(faultfs.Fault{Err: unix.EIO}, 1) {
		root := copied(t, before)
		if hit, err := round.Run(t, func() error { return do(root) }); hit != nil {
			check(root, *hit, err)
		}
	}
}

// TestSaveEachFault: whatever operation of Save fails, it is an error, or the checkpoint is the newest. After an error the newest one is
// the previous one, or whole. Nothing remains that RemovePartial and Retain leave.
func TestSaveEachFault(t *testing.T) {
	eachFault(t, func(root string) error { _, err := Save(root, meta(300), sample(), nil); return err }, func(root string, hit faultfs.Operation, err error) {
		if code := exit.CodeOf(err); err != nil && (code != exit.IO && code != exit.CannotWrite || !errors.Is(err, unix.EIO) && !strings.Contains(err.Error(), "read back")) {
			t.Errorf("%s of %s fails: %v", hit.Kind, hit.Path, err)
		}
		latest, _ := Latest(root)
		if err == nil && latest != 300 || err != nil && latest != 200 && hit.Kind != faultfs.SyncDir {
			t.Errorf("%s of %s fails: %v, and LATEST is %d", hit.Kind, hit.Path, err, latest)
		}
		if c, warnings, load := LoadLatest(root); load != nil || c.Step != latest || len(warnings) > 0 {
			t.Errorf("%s of %s fails: then %q, %v", hit.Kind, hit.Path, warnings, load)
		}
		want := []string{latestFile, Name(100), Name(200)}
		if latest == 300 {
			want = append(want, Name(300))
		}
		if err := errors.Join(RemovePartial(root), Retain(root, 9)); err != nil {
			t.Error(err)
		}
		if got := slices.DeleteFunc(folders(t, root), func(name string) bool { return name == asidePrefix+Name(300) }); !slices.Equal(got, want) {
			t.Errorf("%s of %s fails: %q remain, want %q", hit.Kind, hit.Path, got, want)
		}
	})
}

// TestOthersEachFault: whatever operation of the other functions fails, they return an error, but for those that look for a file that may
// not exist. No checkpoint up to the newest is lost that should stay.
func TestOthersEachFault(t *testing.T) {
	for name, do := range map[string]func(root string) error{
		"load":   func(root string) error { _, err := Load(filepath.Join(root, Name(200))); return err },
		"mark":   func(root string) error { return MarkBest(root, 100) },
		"branch": func(root string) error { _, err := Branch(root, 100); return err },
		"list":   func(root string) error { _, err := List(root); return err },
		"partial": func(root string) error {
			if err := os.Mkdir(filepath.Join(root, ".trash-1"), 0o755); err != nil {
				t.Fatal(err)
			}
			return RemovePartial(root)
		},
	} {
		eachFault(t, do, func(root string, hit faultfs.Operation, err error) {
			pointer := hit.Kind == faultfs.Open || hit.Kind == faultfs.Read // of LATEST or BEST, which count as none then
			if code := exit.CodeOf(err); err == nil && !(name == "branch" && pointer) || err != nil && code != exit.IO && code != exit.CannotWrite && name != "load" {
				t.Errorf("%s: %s of %s fails: %v", name, hit.Kind, hit.Path, err)
			}
			if _, err := Load(filepath.Join(root, Name(100))); err != nil {
				t.Errorf("%s: %s of %s fails: then %v", name, hit.Kind, hit.Path, err)
			}
		})
	}
	for _, passed := range []uint64{200, 300} {
		before := filepath.Join(t.TempDir(), "before")
		for _, step := range []uint64{50, 100, 200} {
			save(t, before, step)
		}
		if _, err := Branch(before, 100); err != nil {
			t.Fatal(err)
		}
		save(t, before, passed)
		for round := range faultfs.Rounds(faultfs.Fault{Err: unix.EIO}, 1) { // Retain removes checkpoint 50, and what the branch at 100 has set aside
			root := copied(t, before)
			hit, err := round.Run(t, func() error { return Retain(root, 2) })
			if hit == nil {
				if got := folders(t, root); !slices.Equal(got, []string{latestFile, Name(100), Name(passed)}) {
					t.Errorf("left %q", got)
				}
				continue
			}
			pointer := hit.Kind == faultfs.Open || hit.Kind == faultfs.Read
			if code := exit.CodeOf(err); err == nil && !pointer || err != nil && code != exit.IO && code != exit.CannotWrite {
				t.Errorf("%s of %s fails: %v", hit.Kind, hit.Path, err)
			}
			for _, step := range []uint64{100, passed} {
				if _, err := Load(filepath.Join(root, Name(step))); err != nil {
					t.Errorf("%s of %s fails: then %v", hit.Kind, hit.Path, err)
				}
			}
			if err := errors.Join(RemovePartial(root), Retain(root, 2)); err != nil {
				t.Error(err)
			}
			if got := folders(t, root); !slices.Equal(got, []string{latestFile, Name(100), Name(passed)}) {
				t.Errorf("%s of %s fails: later left %q", hit.Kind, hit.Path, got)
			}
		}
	}
}

// TestUnreadableFolder: a folder of checkpoints that cannot be listed is an error, not one without checkpoints, from which a run would begin again.
func TestUnreadableFolder(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 7)
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.ReadDir}, Err: unix.EIO})
	c, _, err := LoadLatest(root)
	restore()
	if c != nil || !errors.Is(err, unix.EIO) {
		t.Errorf("%v, %v", c, err)
	}
	if c, _, err := LoadLatest(filepath.Join(root, "none")); c != nil || err != nil {
		t.Errorf("without a folder: %v, %v", c, err)
	}
}

// TestBranchKeepsBest: if BEST names a later checkpoint and cannot be removed, that is an error: it would name one that is set aside.
func TestBranchKeepsBest(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 100)
	save(t, root, 200)
	if err := MarkBest(root, 200); err != nil {
		t.Fatal(err)
	}
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Remove}, At: func(op faultfs.Operation) bool { return filepath.Base(op.Path) == bestFile }, Err: unix.EIO})
	_, err := Branch(root, 100)
	restore()
	if exit.CodeOf(err) != exit.IO {
		t.Errorf("%v, want exit 74", err)
	}
}

// TestDataAreAligned: the data of a file begin at a multiple of eight bytes, whatever the length of names.
func TestDataAreAligned(t *testing.T) {
	for n := range 9 {
		path := filepath.Join(t.TempDir(), "a.safetensors")
		if err := WriteFile(path, []Tensor{{Name: strings.Repeat("x", n+1), Shape: []int{1}, Data: []float32{1}}}, nil); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := f.header.data; at%8 != 0 {
			t.Errorf("a name of %d bytes: data at byte %d", n+1, at)
		}
		f.Close()
	}
}

// TestNewRootIsSynced: a new folder of checkpoints whose name may not survive a power failure is an error.
func TestNewRootIsSynced(t *testing.T) {
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.SyncDir}, Err: unix.EIO})
	_, err := Save(filepath.Join(t.TempDir(), "checkpoints"), meta(7), sample(), nil)
	restore()
	if exit.CodeOf(err) != exit.IO {
		t.Errorf("%v, want exit 74", err)
	}
}

// TestPermissions: folders of checkpoints can be changed by their owner alone, whatever the umask.
func TestPermissions(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	root := filepath.Join(t.TempDir(), "a", "checkpoints")
	save(t, root, 7)
	if st, err := os.Stat(root); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}
