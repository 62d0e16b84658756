package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

type number float64

// Subject is embedded: its fields are columns like the others.
type Subject struct {
	ID string `json:"id"`
}

type row struct {
	Subject
	Value  number    `json:"value"`
	N      int       `json:"n"`
	Raw    bool      `json:"raw"`
	Init   time.Time `json:"init,omitempty"`
	Hidden int       `json:"-"`
	Plain  float32
}

func rows() []row {
	at := time.Date(1984, 1, 6, 12, 0, 0, 0, time.UTC)
	return []row{
		{Subject{"crps_fair"}, 0.826435, 30, true, at, 0, 1.5},
		{Subject{"Grönquist"}, number(math.NaN()), -7, false, time.Time{}, 0, float32(math.NaN())},
		{Subject{""}, number(math.Inf(1)), math.MaxInt64, true, at.Add(time.Millisecond), 0, 0},
	}
}

func TestWriteReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scores.parquet")
	if err := Write(path, rows()); err != nil {
		t.Fatal(err)
	}
	got, err := Read[row](context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	want := rows()
	if !math.IsNaN(float64(got[1].Value)) || !math.IsNaN(float64(got[1].Plain)) {
		t.Errorf("missing values came back as %v and %v", got[1].Value, got[1].Plain)
	}
	got[1].Value, got[1].Plain, want[1].Value, want[1].Plain = 0, 0, 0, 0
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	none := filepath.Join(t.TempDir(), "none.parquet")
	if err := Write(none, []row{}); err != nil {
		t.Fatal(err)
	}
	if got, err := Read[row](context.Background(), none); err != nil || len(got) != 0 {
		t.Errorf("no rows: %v %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	if err := Write(filepath.Join(dir, "no", "folder.parquet"), rows()); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("no folder: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := Write(filepath.Join(dir, "x"), []struct{ F []int }{}); err == nil || !strings.Contains(err.Error(), "has no column") {
		t.Errorf("a slice as column: %v", err)
	}
	if err := Write(filepath.Join(dir, "x"), []int{1}); err == nil {
		t.Error("rows that are no struct were written")
	}
	if _, err := Read[row](ctx, filepath.Join(dir, "absent")); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("absent: %v", err)
	}
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("PAR1 this is not Parquet PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read[row](ctx, junk); exit.CodeOf(err) != exit.BadData {
		t.Errorf("junk: %v", err)
	}
	path := filepath.Join(dir, "rows")
	if err := Write(path, rows()); err != nil {
		t.Fatal(err)
	}
	if _, err := Read[struct{ Other int }](ctx, path); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), `named "Other"`) {
		t.Errorf("missing column: %v", err)
	}
	if _, err := Read[struct {
		ID int `json:"id"`
	}](ctx, path); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "want int64") {
		t.Errorf("column of another type: %v", err)
	}
}

// pyarrow returns a Python that has another implementation of Parquet.
func pyarrow(t *testing.T) string { return testdata.Python(t, "pyarrow.parquet") }

// TestReadsPyArrow reads what another implementation writes: columns that cannot be null, other units of time, dictionaries,
// several groups of rows, which are no multiples of a batch, and a column in a struct, which is no column of the table.
func TestReadsPyArrow(t *testing.T) {
	python, path := pyarrow(t), filepath.Join(t.TempDir(), "x.parquet")
	out, err := exec.Command(python, "-c", `
import sys, pyarrow as pa, pyarrow.parquet as pq
n, us = 10000, 441547200123456
columns = [pa.array([f"v{i % 7}" for i in range(n)]), pa.array([i / 2 if i % 3 else None for i in range(n)], pa.float64()),
  pa.array(range(n), pa.int64()), pa.array([i % 5 == 0 for i in range(n)]),
  pa.array([us + i if i % 4 else None for i in range(n)], pa.timestamp("us", "UTC")), pa.array([us * 1000 + i for i in range(n)], pa.timestamp("ns", "UTC")),
  pa.array([{"n": 1}] * n)]
names = ["id", "value", "n", "raw", "us", "ns", "nested"]
fields = [pa.field(k, c.type, nullable=k not in ("n", "raw", "ns")) for k, c in zip(names, columns)]
pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), sys.argv[1], row_group_size=3333, coerce_timestamps=None)
`, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type row struct {
		ID    string    `json:"id"`
		Value float64   `json:"value"`
		N     int       `json:"n"`
		Raw   bool      `json:"raw"`
		US    time.Time `json:"us"`
		NS    time.Time `json:"ns"`
	}
	got, err := Read[row](context.Background(), path)
	if err != nil || len(got) != 10000 {
		t.Fatalf("%d rows: %v", len(got), err)
	}
	for i, r := range got {
		want := row{fmt.Sprintf("v%d", i%7), float64(i) / 2, i, i%5 == 0, time.UnixMicro(441547200123456 + int64(i)).UTC(), time.Unix(0, 441547200123456000+int64(i)).UTC()}
		if i%3 == 0 {
			if !math.IsNaN(r.Value) {
				t.Fatalf("row %d: null was read as %v", i, r.Value)
			}
			r.Value = want.Value
		}
		if i%4 == 0 {
			want.US = time.Time{}
		}
		if r != want {
			t.Fatalf("row %d: got %+v, want %+v", i, r, want)
		}
	}
}

// Another implementation reads the same table.
func TestPyArrowReads(t *testing.T) {
	python := pyarrow(t)
	path := filepath.Join(t.TempDir(), "scores.parquet")
	if err := Write(path, rows()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", `
import sys, pyarrow.parquet as pq
t = pq.read_table(sys.argv[1])
print([str(f.type) for f in t.schema], t.column_names)
print(t.to_pylist()[1], pq.ParquetFile(sys.argv[1]).metadata.row_group(0).column(0).compression)
`, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `['string', 'double', 'int64', 'bool', 'timestamp[ms, tz=UTC]', 'double'] ['id', 'value', 'n', 'raw', 'init', 'Plain']
{'id': 'Grönquist', 'value': None, 'n': -7, 'raw': False, 'init': None, 'Plain': None} ZSTD
`
	if string(out) != want {
		t.Errorf("got %s\nwant %s", out, want)
	}
}

// TestDamaged: a damaged page is exit 65, although Arrow panics.
// failsAt is a writer that fails at a byte.
type failsAt struct{ left int }

var errFull = errors.New("full")

func (w *failsAt) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	w.left -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// TestErrorsOfWriting: an error at any byte of the file is returned.
func TestErrorsOfWriting(t *testing.T) {
	values := reflect.ValueOf(rows())
	cols, err := columns(values.Type().Elem())
	if err != nil {
		t.Fatal(err)
	}
	root, err := group(cols)
	if err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if err := encode(&whole, root, cols, values); err != nil {
		t.Fatal(err)
	}
	for n := range whole.Len() {
		if err := encode(&failsAt{n}, root, cols, values); !errors.Is(err, errFull) {
			t.Fatalf("at byte %d of %d: %v", n, whole.Len(), err)
		}
	}
	if err := encode(&failsAt{whole.Len()}, root, cols, values); err != nil {
		t.Fatal(err)
	}
}

func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := Write(path, rows()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	frame := []byte("\x28\xb5\x2f\xfd") // begins what zstd has compressed
	pages := 0
	for at := 0; ; pages++ {
		n := bytes.Index(text[at:], frame)
		if n < 0 {
			break
		}
		at += n + len(frame)
		text[at+4] ^= 16
		if _, err := Decode[row](context.Background(), "x", text); exit.CodeOf(err) != exit.BadData {
			t.Errorf("the page at byte %d: %v, want exit 65", at-len(frame), err)
		}
		text[at+4] ^= 16
	}
	if pages < 5 { // one a column
		t.Errorf("%d pages were found", pages)
	}
}
