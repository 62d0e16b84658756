package zarr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// small is a store of version 2 with one array t of 4×6 floats in chunks of 2×3, or
// one of version 3 with shards of four such chunks. texts replaces documents.
func small(t testing.TB, version int, texts map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small.zarr")
	files := map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		"t/.zarray": `{"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<f4", "compressor": null, "fill_value": "NaN", "order": "C", "filters": null}`,
		"t/.zattrs": `{"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}`,
	}
	if version == 3 {
		files = map[string]string{
			"zarr.json": `{"zarr_format": 3, "node_type": "group", "attributes": {"title": "small"}}`,
			"t/zarr.json": `{"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "float32", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
 "chunk_key_encoding": {"name": "default"}, "fill_value": "NaN", "dimension_names": ["y", "x"], "attributes": {"units": "K"}, "codecs": [{"name": "sharding_indexed", "configuration":
 {"chunk_shape": [2, 3], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]}`,
		}
	}
	var shard, index []byte
	for c := range 4 {
		var b []byte
		for k := range 6 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(10*c+k)))
		}
		if version == 2 {
			files[fmt.Sprintf("t/%d.%d", c/2, c%2)] = string(b)
		}
		index = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(index, uint64(len(shard))), uint64(len(b)))
		shard = append(shard, b...)
	}
	if version == 3 {
		files["t/c/0/0"] = string(append(shard, index...))
	}
	for name, text := range texts {
		files[name] = text
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// readSmall reads all of t.
func readSmall(dir string, o Options) ([]float64, error) {
	s, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if len(s.Arrays) != 1 {
		return nil, fmt.Errorf("%d arrays, unused %v", len(s.Arrays), s.Unused)
	}
	return readAll(s, 0)
}

func TestSmall(t *testing.T) {
	for _, version := range []int{2, 3} {
		got, err := readSmall(small(t, version, nil), Options{})
		if err != nil || len(got) != 24 || got[2] != 2 || got[3] != 10 || got[23] != 35 || got[12] != 20 {
			t.Errorf("version %d: %v, %v", version, got, err)
		}
	}
}

// A chunk that is absent, empty or of another length is an error with its name. In
// a sparse store only an absent chunk is missing.
func TestAbsentChunks(t *testing.T) {
	gap := make([]byte, 6*4*4+4*16)
	for i := range gap[96:] {
		gap[96+i] = 0xff
	}
	for _, c := range []struct {
		version int
		texts   map[string]string
		word    string
		sparse  bool // may be absent
	}{
		{2, map[string]string{"t/1.0": ""}, "array t, chunk t/1.0", true},
		{3, map[string]string{"t/c/0/0": ""}, "array t, chunk t/c/0/0", true},
		{3, map[string]string{"t/c/0/0": string(gap)}, "array t, chunk t/c/0/0, inside [0 0]", true},
		{2, map[string]string{"t/1.0": "x"}, "got 1 bytes, want 24", false},
		{2, map[string]string{"t/1.0": strings.Repeat("x", 25)}, "got 25 bytes, want 24", false},
		{3, map[string]string{"t/c/0/0": "short"}, "a shard of 5 bytes", false},
	} {
		dir := small(t, c.version, c.texts)
		if _, err := readSmall(dir, Options{}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%v: %v, want exit 65 with %q", c.texts, err, c.word)
		}
		v, err := readSmall(dir, Options{Sparse: true})
		if (err == nil) != c.sparse {
			t.Errorf("%v, sparse: %v", c.texts, err)
		}
		if c.sparse && (len(v) != 24 || v[12] == v[12]) {
			t.Errorf("%v, sparse: %v", c.texts, v)
		}
	}
}

// Invalid metadata are errors; valid metadata that are not supported are reasons.
func TestOddMetadata(t *testing.T) {
	array := func(change ...string) map[string]string {
		return map[string]string{"t/.zarray": strings.NewReplacer(change...).Replace(
			`{"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<f4", "compressor": null, "fill_value": "NaN", "order": "C", "filters": null}`)}
	}
	for _, c := range []struct {
		texts map[string]string
		word  string
		sound bool // not used, with a reason
	}{
		{map[string]string{"t/.zarray": "{"}, "metadata are invalid", false},
		{array("[4, 6]", "[4, -6]"), "shape [4 -6]", false},
		{array("[2, 3]", "[2, 0]"), "chunks [2 0]", false},
		{array("[2, 3]", "[2]"), "chunks of 1", false},
		{array("[4, 6]", "[9223372036854775807, 6]"), "overflows", false},
		{array("[2, 3]", "[4294967296, 4294967296]"), "overflows", false},
		{array("[2, 3]", "[2147483648, 3]"), "its chunks have", true},
		{array(`"C"`, `"Z"`), `order is "Z"`, false},
		{array(`"NaN"`, `"soon"`), "fill value", false},
		{array(`"compressor": null`, `"compressor": {"id": "lzma"}`), `codec "lzma" is not supported`, true},
		{array(`"<f4"`, `"<c8"`), "type <c8", true},
		{array(`"<f4"`, `[["a", "<f4"]]`), "is not numeric", true},
		{array(`"<f4"`, `"<M8[M]"`), "no fixed length", true},
		{map[string]string{"t/.zattrs": `{"_ARRAY_DIMENSIONS": ["x", "x"]}`}, "are not unique", true},
		{map[string]string{"t/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"]}`}, "2 dimensions", false},
		{map[string]string{"t/.zattrs": `{}`}, "no names", true},
		{map[string]string{".zmetadata": `{"metadata": {"../../etc/.zarray": {}}}`}, "arrays of the store are absent", false},
		{map[string]string{".zmetadata": `{"metadata": {"u/.zarray": {}, "t/.zarray": {}}}`}, `"u"`, false},
	} {
		s, err := Open(small(t, 2, c.texts), Options{})
		if !c.sound {
			if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%v: %v, want exit 65 with %q", c.texts, err, c.word)
			}
			continue
		}
		if err != nil || len(s.Arrays) != 0 || len(s.Unused) != 1 || !strings.Contains(s.Unused[0].Reason, c.word) {
			t.Errorf("%v: %v, %+v, want unused for %q", c.texts, err, s, c.word)
		}
	}
	// JSON of other writers.
	dir := small(t, 2, map[string]string{"t/.zarray": strings.Replace(array()["t/.zarray"], `"NaN"`, "NaN", 1), "t/.zattrs": `{"_ARRAY_DIMENSIONS": ["y", "x"], "a": [NaN, -Infinity], "b": "NaN \" Infinity"}`})
	s := openStore(t, dir, Options{})
	if a := s.Arrays[0].Attrs; a["b"].Text != `NaN " Infinity` || a["a"].Text != "NaN -Infinity" {
		t.Errorf("attributes %+v", a)
	}
	// Arrays that consolidated metadata do not list.
	if s := openStore(t, small(t, 2, map[string]string{".zmetadata": `{"metadata": {}}`}), Options{}); len(s.Warnings) != 1 || len(s.Arrays) != 1 {
		t.Errorf("warnings %q", s.Warnings)
	}
}

// Arrays of version 3 with unknown members that must be understood.
func TestMustUnderstand(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(small(t, 3, nil), "t", "zarr.json"))
	if err != nil {
		t.Fatal(err)
	}
	for add, word := range map[string]string{
		`"news": {"name": "n"}`:                             "news",
		`"news": {"must_understand": true}`:                 "news",
		`"news": {"must_understand": false}`:                "",
		`"storage_transformers": [{"name": "indirection"}]`: "storage transformers",
	} {
		s := openStore(t, small(t, 3, map[string]string{"t/zarr.json": "{" + add + "," + string(text[1:])}), Options{})
		if (word == "") != (len(s.Arrays) == 1) || word != "" && !strings.Contains(s.Unused[0].Reason, word) {
			t.Errorf("%s: %v", add, s.Unused)
		}
	}
}

// Links out of the store are not followed, to files or directories. A named pipe
// does not block.
func TestLinks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, make([]byte, 24), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := small(t, 2, map[string]string{"t/1.0": ""})
	if err := os.Symlink(secret, filepath.Join(dir, "t", "1.0")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "u")); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, Options{})
	if len(s.Unused) != 1 || s.Unused[0].Name != "u" {
		t.Errorf("unused %v", s.Unused)
	}
	if _, err := readAll(s, 0); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "t/1.0") {
		t.Errorf("a link that leads out: %v", err)
	}
	dir = small(t, 2, map[string]string{"t/1.0": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "t", "1.0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readSmall(dir, Options{}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

// A modification while the store is open is exit 66.
func TestChanged(t *testing.T) {
	dir := small(t, 2, nil)
	s := openStore(t, dir, Options{})
	if err := s.VerifyUnchanged(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // time stamps of file systems have a resolution of milliseconds
	if err := os.WriteFile(filepath.Join(dir, "t", "0.1"), make([]byte, 24), 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if _, err := readAll(s, 0); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), "t/0.1") {
		t.Errorf("a chunk written meanwhile: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "t", ".zattrs"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if err := s.VerifyUnchanged(); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), ".zattrs") {
		t.Errorf("metadata written meanwhile: %v", err)
	}
}

// A few bytes that would expand to gigabytes are rejected before memory is
// allocated.
func TestBombs(t *testing.T) {
	const side = 16384 // a chunk of 1 GiB
	array := fmt.Sprintf(`{"zarr_format": 2, "shape": [%d, %d], "chunks": [%d, %d], "dtype": "<f4", "compressor": {"id": "zstd"}, "fill_value": "NaN", "order": "C", "filters": null}`, side, side, side, side)
	dir := small(t, 2, map[string]string{"t/.zarray": array, "t/0.0": "(\xb5/\xfd" + strings.Repeat("x", 1000)})
	before := allocated()
	s := openStore(t, dir, Options{})
	if _, err := s.loadChunk(s.Arrays[0], []int64{0, 0}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "would expand to") {
		t.Errorf("a bomb: %v", err)
	}
	// Compressed streams that exceed the chunk.
	for name, undo := range map[string]decodeFunc{"gzip": decodeGzip, "zlib": decodeZlib, "zstd": decodeZstd} {
		if b, err := undo(zeros[name], 1000); err == nil || len(b) > 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if grown := allocated() - before; grown > 64<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestNotAStore(t *testing.T) {
	if IsStore(t.TempDir()) {
		t.Error("an empty folder is a store")
	}
	for _, version := range []int{2, 3} {
		if !IsStore(small(t, version, nil)) {
			t.Errorf("a store of version %d is none", version)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "absent"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
