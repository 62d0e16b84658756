package grib

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/mutate"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// seeds returns small valid files: some made here, and real ones if available.
func seeds(t *testing.T) (out [][]byte) {
	t.Helper()
	m := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), Step: 24, Unit: 1, Values: make([]float32, testgrib.Rows*testgrib.Columns)}
	wet := m
	wet.Variable, wet.Packed = testgrib.Rain, true
	masked := m
	masked.Bitmap = bytes.Repeat([]byte{0xfe}, testgrib.Rows*testgrib.Columns/8)
	out = append(out, m.Bytes(), wet.Bytes(), masked.Bytes(), append(m.Bytes(), wet.Bytes()...))
	if testdata.Root() == "" {
		return out
	}
	files, err := filepath.Glob(filepath.Join(testdata.Root(), "formats", "grib[12]", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if s, err := os.Stat(path); err == nil && s.Size() < 8<<10 {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// Computing the coordinates of a large projection dominates the time.
			grids := &GridCache{}
			idx, err := ReadIndex(context.Background(), bytes.NewReader(b), int64(len(b)), grids)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(idx.Fields, func(f Field) bool {
				g := grids.Get(f.Grid).Grid
				return g != nil && g.Kind == ensemble.Projected && g.Size() > 10_000
			}) {
				out = append(out, b)
			}
		}
	}
	return out
}

// checkMutated scans damaged files: no panic, and every field found can be read.
func checkMutated(t *testing.T, n int) {
	s := seeds(t)
	r := rand.New(rand.NewPCG(5, 6))
	fields, faults := 0, 0
	for i := range n {
		b := mutate.File(r, s)
		idx, err := ReadIndex(context.Background(), bytes.NewReader(b), int64(len(b)), &GridCache{})
		if err != nil {
			t.Fatalf("file %d: reading memory cannot fail: %v", i, err)
		}
		fields, faults = fields+len(idx.Fields), faults+len(idx.Faults)
		for _, fd := range idx.Fields {
			ref := Ref{Offset: fd.Offset, Length: fd.Length}
			if fd.Partial {
				ref.Sections = &fd.Sections
			}
			if _, err := ref.Extract(nil, bytes.NewReader(b)); err != nil {
				t.Fatalf("file %d: a field that was found cannot be read: %v", i, err)
			}
		}
	}
	t.Logf("%d damaged files: %d fields, %d faults", n, fields, faults)
}

func TestMutatedFiles(t *testing.T) { checkMutated(t, 5_000) }
