package ckpt

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

func sample() []Tensor {
	return []Tensor{
		{"enc_conv0.weight", []int{2, 1, 3}, []float32{1, -2.5, float32(math.Inf(1)), 0, 1e-40, 6}},
		{"moment", []int{2}, []float64{math.Pi, math.Copysign(0, -1)}},
		{"steps", []int{}, []int64{math.MaxInt64}},
		{"order", []int{3}, []int32{-1, 0, 7}},
		{"mask", []int{0}, []uint8{}},
		{`odd "name" <é>`, []int{1}, []uint8{255}},
	}
}

func TestFileRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := WriteFile(path, sample(), map[string]string{"variables": "t,gh"}); err != nil {
		t.Fatal(err)
	}
	got, meta, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sample()) || meta["variables"] != "t,gh" {
		t.Errorf("read back\n%v %v\nwrote\n%v", got, meta, sample())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.LittleEndian.Uint64(raw); n%8 != 0 || raw[8] != '{' {
		t.Errorf("header of %d bytes does not align the data", n)
	}
}

// TestHalf compares converted 16-bit numbers with values computed by hand.
func TestHalf(t *testing.T) {
	for _, c := range []struct {
		d    DType
		bits uint16
		want float64
	}{
		{F16, 0x3c00, 1}, {F16, 0xc000, -2}, {F16, 0x7bff, 65504}, {F16, 0x0001, math.Ldexp(1, -24)}, {F16, 0x8001, -math.Ldexp(1, -24)},
		{F16, 0x0400, math.Ldexp(1, -14)}, {F16, 0x7c00, math.Inf(1)}, {F16, 0xfc00, math.Inf(-1)}, {F16, 0x3555, 0.333251953125},
		{BF16, 0x3f80, 1}, {BF16, 0xc040, -3}, {BF16, 0x7f80, math.Inf(1)},
	} {
		raw := binary.LittleEndian.AppendUint16(nil, c.bits)
		if got := decode(c.d, raw).([]float32)[0]; float64(got) != c.want {
			t.Errorf("%s %04x is %g, want %g", c.d, c.bits, got, c.want)
		}
	}
}

// build puts a header before data, without validation.
func build(header string, data int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, data)...)
}

func TestRefusals(t *testing.T) {
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	w, err := z.Create("archive/data.pkl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("\x80\x02}q\x00.")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	one := `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	for _, c := range []struct {
		name string
		file []byte
		want string // in What, At, Why or Fix
	}{
		{"pickle", []byte("\x80\x02}q\x00X\x01\x00\x00\x00aK\x01s."), "Python pickle"},
		{"pickle with the command to convert", []byte("\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00}\x94."), "weights_only=True"},
		{"pickle in a zip", zipped.Bytes(), "zip archive"},
		{"HDF5", []byte("\x89HDF\r\n\x1a\n0000000000"), "HDF5"},
		{"web page", []byte("<!DOCTYPE html><html></html>"), "HTML page"},
		{"empty", nil, "empty"},
		{"short", []byte("abc"), "needs at least 9"},
		{"huge header", append(binary.LittleEndian.AppendUint64(nil, 1<<60), '{', '}'), "exceeds the file"},
		{"header longer than file", append(binary.LittleEndian.AppendUint64(nil, 100), '{', '}'), "exceeds the file"},
		{"no object", build("[]", 0), "does not begin with {"},
		{"broken JSON", build(`{"a":`, 0), "not valid JSON"},
		{"not UTF-8", build("{\"\xff\":1}", 0), "UTF-8"},
		{"after the end", build(`{}x`, 0), "unexpected bytes"},
		{"unknown type", build(`{"a":{"dtype":"Q8","shape":[2],"data_offsets":[0,8]}}`, 8), "unknown"},
		{"unknown key", build(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}`, 8), "unknown"},
		{"case of keys", build(`{"a":{"DTYPE":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), "unknown"},
		{"missing key", build(`{"a":{"dtype":"F32","shape":[2]}}`, 8), "missing"},
		{"key twice", build(`{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), "twice"},
		{"tensor twice", build(`{`+one+`,`+one+`}`, 8), "twice"},
		{"negative side", build(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8), "not an integer"},
		{"overflow", build(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, 8), "too many elements"},
		{"shape and bytes", build(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), "want 12 for"},
		{"offsets reversed", build(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}}`, 8), "want 0 for"},
		{"overlap", build(`{`+one+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "overlap"},
		{"hole", build(`{`+one+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`, 16), "4 unused bytes before"},
		{"remainder", build(`{`+one+`}`, 9), "unused bytes"},
		{"cut", build(`{`+one+`}`, 7), "truncated"},
		{"metadata not text", build(`{"__metadata__":{"a":1}}`, 0), "not text"},
		{"control character", build(`{"a\u001b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), "control characters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.safetensors")
			if err := os.WriteFile(path, c.file, 0o644); err != nil {
				t.Fatal(err)
			}
			_, _, err := ReadFile(path)
			if exit.CodeOf(err) != exit.BadData {
				t.Fatalf("got %v, want exit 65", err)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("no %q, or not the path, in\n%v", c.want, err)
			}
		})
	}
	if _, _, err := ReadFile(filepath.Join(t.TempDir(), "none")); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("missing file: %v, want exit 66", err)
	}
	if _, _, err := ReadFile(t.TempDir()); exit.CodeOf(err) != exit.BadData {
		t.Errorf("folder: %v, want exit 65", err)
	}
}

// A file that can contain code is refused by its content, under every name, also in an archive within an archive.
func TestFault41(t *testing.T) {
	pickle := []byte("\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00}\x94.")
	archive := func(name string, content []byte) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	zipped := archive("archive/data.pkl", pickle)
	for what, content := range map[string][]byte{"a pickle": pickle, "a pickle of protocol 0": []byte("cos\nsystem\n(S'true'\ntR."), "a pickle in a zip": zipped, "a zip in a zip": archive("model.pt", zipped)} {
		for _, name := range []string{"model.pt", "model.safetensors", "weights-00.st"} {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := ReadFile(path); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), path) {
				t.Errorf("%s named %s: %v", what, name, err)
			}
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.st")
	for name, tensors := range map[string][]Tensor{
		"shape":      {{"a", []int{3}, []float32{1}}},
		"type":       {{"a", []int{1}, []string{"x"}}},
		"twice":      {{"a", []int{1}, []float32{1}}, {"a", []int{1}, []float32{1}}},
		"reserved":   {{"__metadata__", []int{1}, []float32{1}}},
		"no name":    {{"", []int{1}, []float32{1}}},
		"negative":   {{"a", []int{-1, -1}, []float32{1}}},
		"nil values": {{"a", []int{0}, nil}},
	} {
		if err := WriteFile(path, tensors, nil); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("a refused write left a file")
	}
}

func meta(step uint64) Meta {
	return Meta{Step: step, Epoch: 3, Version: "v", ConfigHash: "abc", State: json.RawMessage(`{"best":0.5}`), Plan: json.RawMessage(`["conv"]`)}
}

func save(t *testing.T, root string, step uint64) string {
	t.Helper()
	dir, err := Save(root, meta(step), sample(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckpointRoundTrip(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	if c, w, err := LoadLatest(root); c != nil || w != nil || err != nil {
		t.Errorf("no checkpoints yet: %v, %v, %v", c, w, err)
	}
	dir := save(t, root, 1200)
	if filepath.Base(dir) != "step-000001200" {
		t.Errorf("folder %s", dir)
	}
	c, warnings, err := LoadLatest(root)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	var state struct{ Best float64 }
	if err := json.Unmarshal(c.State, &state); err != nil || state.Best != 0.5 {
		t.Errorf("state %s: %v", c.State, err)
	}
	if c.Step != 1200 || c.Epoch != 3 || c.ConfigHash != "abc" || !reflect.DeepEqual(c.Tensors, sample()) {
		t.Errorf("read back %+v", c)
	}
	save(t, root, 1200) // the same step again replaces it
	if steps, err := List(root); err != nil || !slices.Equal(steps, []uint64{1200}) {
		t.Errorf("steps %v, %v", steps, err)
	}
}

// TestFault42: an index with the right checksum, which an attacker can compute, names no file outside of its folder.
func TestFault42(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	dir := save(t, root, 100)
	path := filepath.Join(dir, indexFile)
	x, err := readIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"../rank-0000.st", "/etc/passwd", "rank-0000.st/../../x", "..", "", "rank-\x00/../x"} {
		x.Parts[0].Path = bad
		text, err := manifest.SealedJSON(&x, &x.Checksum, " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "not in the folder of the checkpoint") {
			t.Errorf("%q: %v, want exit 65", bad, err)
		}
	}
}

// TestFault27 flips one byte in every tensor, truncates and replaces files: each time the error names
// the damaged tensor or file, and the previous checkpoint is used.
func TestFault27(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 100)
	dir := save(t, root, 200)
	file := filepath.Join(dir, "rank-0000.st")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	idx, err := os.ReadFile(filepath.Join(dir, indexFile))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(f, int64(len(whole)))
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, want string) {
		t.Helper()
		_, err := Load(dir)
		if code := exit.CodeOf(err); code != exit.BadData && code != exit.NotYet || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to name %q", name, err, want)
		}
		c, warnings, err := LoadLatest(root)
		if err != nil || c.Step != 100 || len(warnings) != 1 || !strings.Contains(warnings[0], "step-000000200") {
			t.Errorf("%s: fell back to %v, warnings %q, %v", name, c, warnings, err)
		}
	}
	put := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range h.Entries {
		if e.begin == e.end {
			continue
		}
		bad := slices.Clone(whole)
		bad[h.data+e.begin] ^= 0x10
		put(file, bad)
		check("flip in "+e.Name, "tensor "+e.Name)
	}
	put(file, whole[:len(whole)-1])
	check("cut", "by the index")
	bad := bytes.Replace(slices.Clone(whole), []byte(`"moment"`), []byte(`"nonent"`), 1)
	put(file, bad)
	check("renamed tensor", "tensor nonent")
	put(file, bytes.Replace(slices.Clone(whole), []byte(`"dtype":"F64","shape":[2]`), []byte(`"shape":[2],"dtype":"F64"`), 1))
	check("header that means the same", "SHA-256 differs")
	put(file, whole)
	put(filepath.Join(dir, indexFile), idx[:len(idx)/2])
	check("half an index", "checkpoint index is damaged")
	for at := range idx { // a flip in step, position or plan would go on from another state
		bad := slices.Clone(idx)
		bad[at] ^= 1 << (at % 8)
		put(filepath.Join(dir, indexFile), bad)
		if _, err := Load(dir); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), dir) {
			t.Fatalf("byte %d of the index, of %q: %v", at, idx[max(0, at-20):min(len(idx), at+20)], err)
		}
	}
	if err := os.Remove(filepath.Join(dir, indexFile)); err != nil {
		t.Fatal(err)
	}
	check("no index", "index.json")
	if err := os.RemoveAll(filepath.Join(root, Name(100))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadLatest(root); err == nil {
		t.Error("nothing whole is left and nothing was said")
	}
}

// TestFault26: a checkpoint without one of its files, or with the file of another step, is rejected as
// a whole, and the previous one is used; if there is none, nothing is loaded.
func TestFault26(t *testing.T) {
	for _, name := range []string{"rank-0000.st", indexFile} {
		for fault, change := range map[string]func(was, is string) error{
			"missing":         func(_, is string) error { return os.Remove(is) },
			"of another step": os.Rename,
		} {
			root := filepath.Join(t.TempDir(), "checkpoints")
			save(t, root, 100)
			older := sample()
			older[0].Data.([]float32)[0]++
			foreign, err := Save(filepath.Join(t.TempDir(), "checkpoints"), meta(150), older, nil)
			if err != nil {
				t.Fatal(err)
			}
			dir := save(t, root, 200)
			if err := change(filepath.Join(foreign, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s %s: %v, want a refusal", name, fault, err)
			}
			if c, warnings, err := LoadLatest(root); err != nil || c.Step != 100 || len(warnings) != 1 || !strings.Contains(warnings[0], Name(200)) {
				t.Errorf("%s %s: %v, warnings %q, %v, want step 100", name, fault, c, warnings, err)
			}
			if err := os.RemoveAll(filepath.Join(root, Name(100))); err != nil {
				t.Fatal(err)
			}
			if c, _, err := LoadLatest(root); c != nil || err == nil {
				t.Errorf("%s %s: the only checkpoint gives %v, %v", name, fault, c, err)
			}
		}
	}
}

// TestUnannounced: a folder newer than LATEST is ignored.
func TestUnannounced(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 100)
	save(t, root, 200)
	if err := os.WriteFile(filepath.Join(root, latestFile), []byte(Name(100)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, _, err := LoadLatest(root); err != nil || c.Step != 100 {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestRetain(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	for step := uint64(1); step <= 6; step++ {
		save(t, root, step)
		if step == 2 {
			if err := MarkBest(root, 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(root, ".step-000000007.partial-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Retain(root, 1); err != nil { // at least two are kept
		t.Fatal(err)
	}
	if err := RemovePartial(root); err != nil {
		t.Fatal(err)
	}
	if steps, err := List(root); err != nil || !slices.Equal(steps, []uint64{2, 5, 6}) {
		t.Errorf("left %v, %v, want the best and the newest two", steps, err)
	}
	if hidden, err := filepath.Glob(filepath.Join(root, ".*")); err != nil || len(hidden) > 0 {
		t.Errorf("left over: %v", hidden)
	}
	if best, ok := Best(root); !ok || best != 2 {
		t.Errorf("best is %d, %v", best, ok)
	}
}

// TestBranch: a run that continues from an older checkpoint keeps what it saves, whatever the steps of later
// checkpoints, which it removes when it has passed them.
func TestBranch(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	for _, step := range []uint64{100, 145, 150} {
		save(t, root, step)
	}
	if err := MarkBest(root, 145); err != nil {
		t.Fatal(err)
	}
	later, err := Branch(root, 100)
	if err != nil || !slices.Equal(later, []uint64{145, 150}) {
		t.Fatalf("set aside %v, %v", later, err)
	}
	if _, ok := Best(root); ok {
		t.Error("the best is one of another branch")
	}
	for _, c := range []struct {
		step  uint64
		kept  []uint64
		aside int
	}{{110, []uint64{100, 110}, 2}, {120, []uint64{110, 120}, 2}, {148, []uint64{120, 148}, 1}, {150, []uint64{148, 150}, 0}} {
		save(t, root, c.step)
		if err := Retain(root, 2); err != nil {
			t.Fatal(err)
		}
		steps, err := List(root)
		aside, _ := filepath.Glob(filepath.Join(root, asidePrefix+"*"))
		if latest, _ := Latest(root); err != nil || latest != c.step || !slices.Equal(steps, c.kept) || len(aside) != c.aside {
			t.Errorf("step %d: LATEST %d, left %v, aside %v, %v", c.step, latest, steps, aside, err)
		}
		if loaded, _, err := LoadLatest(root); err != nil || loaded.Step != c.step {
			t.Errorf("step %d: resumes from %v, %v", c.step, loaded, err)
		}
	}
}

// TestSaveFails: if a checkpoint cannot be written, the previous one remains.
func TestSaveFails(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	save(t, root, 1)
	if _, err := Save(root, meta(2), []Tensor{{"a", []int{2}, []float32{1}}}, nil); err == nil {
		t.Error("a tensor that contradicts its shape was saved")
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(filepath.Join(root, "file"), meta(2), sample(), nil); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("below a file: %v, want exit 73", err)
	}
	if c, _, err := LoadLatest(root); err != nil || c.Step != 1 {
		t.Errorf("got %v, %v", c, err)
	}
}

// FuzzReadHeader: no input crashes the reader. It accepts only headers that cover the file exactly,
// and these survive a round trip.
func FuzzReadHeader(f *testing.F) {
	path := filepath.Join(f.TempDir(), "w.st")
	if err := WriteFile(path, sample(), map[string]string{"k": "v"}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(build(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
	f.Add(build(`{}`, 0))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := ReadHeader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			var fault *formatError
			if !errors.As(err, &fault) {
				t.Fatalf("not a fault of the format: %v", err)
			}
			return
		}
		at := h.data
		var tensors []Tensor
		for _, e := range h.Entries {
			if h.data+e.begin != at {
				t.Fatalf("%s begins at %d, want %d", e.Name, h.data+e.begin, at)
			}
			raw := file[at : h.data+e.end]
			at = h.data + e.end
			tensors = append(tensors, Tensor{e.Name, e.Shape, decode(e.DType, raw)})
		}
		if at != int64(len(file)) {
			t.Fatalf("%d of %d bytes are covered", at, len(file))
		}
		again, _, err := buildHeader(tensors, h.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		h2, err := parseHeader(again)
		if err != nil || len(h2.Entries) != len(h.Entries) {
			t.Fatalf("written again: %v", err)
		}
	})
}

func ExampleWriteFile() {
	dir, err := os.MkdirTemp("", "ckpt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	if err := WriteFile(path, []Tensor{{"bias", []int{2}, []float32{0.5, -1}}}, nil); err != nil {
		fmt.Println(err)
		return
	}
	tensors, _, err := ReadFile(path)
	fmt.Println(tensors, err)
	// Output: [{bias [2] [0.5 -1]}] <nil>
}
