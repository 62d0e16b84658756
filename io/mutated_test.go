package fio

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mutate"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// checkMutated reads n damaged files through the decoding children: this process
// survives, and every error has a code and the name of the file.
func checkMutated(t *testing.T, n int) {
	m := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), Step: 24, Unit: 1, Values: make([]float32, testgrib.Rows*testgrib.Columns)}
	for i := range m.Values {
		m.Values[i] = 270 + float32(i%17)
	}
	wet := m
	wet.Variable, wet.Packed = testgrib.Rain, true
	byKind := map[string][][]byte{"grib": {m.Bytes(), append(wet.Bytes(), m.Bytes()...)}}
	if testdata.Root() != "" {
		for kind, pattern := range map[string]string{"grib": "grib[12]", "nc": "netcdf"} {
			files, err := filepath.Glob(filepath.Join(testdata.Root(), "formats", pattern, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range files {
				if s, err := os.Stat(path); err == nil && s.Size() < 32<<10 {
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					byKind[kind] = append(byKind[kind], b)
				}
			}
		}
	}
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 2, Deadline: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := rand.New(rand.NewPCG(9, 10))
	path := filepath.Join(t.TempDir(), "damaged")
	fields, bad := 0, 0
	for i := range n {
		seeds := byKind["grib"]
		if i%2 == 1 && byKind["nc"] != nil {
			seeds = byKind["nc"]
		}
		if err := os.WriteFile(path, mutate.File(r, seeds), 0o644); err != nil {
			t.Fatal(err)
		}
		check := func(err error) {
			if code := exit.CodeOf(err); code != exit.BadData || !strings.Contains(err.Error(), path) {
				t.Fatalf("file %d: exit %d, %v", i, code, err)
			}
			bad++
		}
		in, err := Open(context.Background(), []string{path}, Options{Pool: pool, SkipBad: true})
		if err != nil {
			check(err)
			continue
		}
		for _, e := range in.Catalogue().Entries {
			if _, err := in.ReadOne(context.Background(), e); err != nil {
				check(err)
				continue
			}
			fields++
		}
		in.Close()
	}
	t.Logf("%d damaged files: %d fields, %d errors", n, fields, bad)
}

func TestMutatedFiles(t *testing.T) { checkMutated(t, 300) }
