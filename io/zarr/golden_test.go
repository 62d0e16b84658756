package zarr

import (
	"archive/zip"
	"context"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/io/cf"
)

var update = flag.Bool("update", false, "write testdata/golden.zip again, with zarr-python of build/venv")

// golden extracts the stores that zarr-python wrote to a directory.
func golden(t testing.TB) string {
	t.Helper()
	if *update {
		if out, err := exec.Command(testdata.Python(t), "testdata/make_golden.py", "testdata").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return testdata.Unzip(t, filepath.Join("testdata", "golden.zip"))
}

func openStore(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// formula returns element k of the golden arrays: see make_golden.py.
func formula(a *Array, k int) float64 {
	x := float64((k*37 + 11) % 101)
	if a.dtype.kind == 'i' || a.dtype.kind == 'f' {
		x -= 50
	}
	if a.dtype.kind == 'f' {
		x /= 2
	}
	if a.dtype.kind == 'b' {
		x = math.Mod(x, 2)
	}
	return x
}

// Every type, codec, filter, order, key encoding and shard that zarr-python writes
// is read, completely and in part. Every array is checked.
func TestGolden(t *testing.T) {
	dir := golden(t)
	ctx := context.Background()
	for store, want := range map[string]int{"v2.zarr": 60, "v3.zarr": 41} {
		s := openStore(t, filepath.Join(dir, store), Options{})
		for _, u := range s.Unused {
			t.Errorf("%s: %s is not used: %s", store, u.Name, u.Reason)
		}
		if n := len(s.Arrays) + len(s.Unused); n != want || len(s.Warnings) > 0 {
			t.Errorf("%s: %d arrays, want %d; warnings %q", store, n, want, s.Warnings)
		}
		for k, a := range s.Arrays {
			got, err := readAll(s, k)
			if a.Path == "text" {
				if v := a.cfVariable(); err == nil || v.Numeric() {
					t.Errorf("%s: texts are read as %v", store, got)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", store, err)
				continue
			}
			switch a.Path {
			case "times":
				unit, step := "hours", 6.0
				if store == "v3.zarr" {
					unit, step = "nanoseconds", 6*3600e9
				}
				if u := a.Attrs["units"].Text; u != unit+" since 1970-01-01 00:00:00" || got[1]-got[0] != step || got[2] == got[2] {
					t.Errorf("%s: times %v %s", store, got, u)
				}
				continue
			case "spans":
				if u := a.Attrs["units"].Text; u != "seconds" || got[0] != 0 || got[1] != 21600 {
					t.Errorf("%s: spans %v %s", store, got, u)
				}
				continue
			}
			for i, v := range got {
				if v != formula(a, i) {
					t.Errorf("%s: element %d of %s is %v, want %v", store, i, a.Path, v, formula(a, i))
					break
				}
			}
			if len(a.Shape) == 3 && a.Shape[0] == 5 {
				p := &Request{Slab: cf.Slab{Var: k, Start: []int64{1, 2, 3}, Count: []int64{3, 3, 2}}}
				if err := s.Read(ctx, []*Request{p}, func(n int) []float32 { return make([]float32, n) }); err != nil {
					t.Errorf("%s: %s: %v", store, a.Path, err)
					continue
				}
				for i, v := range p.Values {
					at := (1+i/6)*42 + (2+i/2%3)*7 + 3 + i%2
					if float64(v) != formula(a, at) {
						t.Errorf("%s: element %d of a part of %s is %v, want %v", store, at, a.Path, v, formula(a, at))
						break
					}
				}
			}
		}
	}
}

// zipped writes a directory as a zip archive.
func zipped(t testing.TB, dir string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "store.zarr.zip")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// A store in a zip archive has the same arrays and values as in a directory.
func TestZip(t *testing.T) {
	dir := golden(t)
	for _, store := range []string{"v2.zarr", "v3.zarr"} {
		a, b := openStore(t, filepath.Join(dir, store), Options{}), openStore(t, zipped(t, filepath.Join(dir, store)), Options{})
		if len(a.Arrays) != len(b.Arrays) || len(a.Arrays) < 40 {
			t.Fatalf("%s: %d arrays in the folder, %d in the archive", store, len(a.Arrays), len(b.Arrays))
		}
		for k := range a.Arrays {
			if a.Arrays[k].text {
				continue
			}
			x, err := readAll(a, k)
			if err != nil {
				t.Fatal(err)
			}
			y, err := readAll(b, k)
			if err != nil {
				t.Fatal(err)
			}
			for i := range x {
				if x[i] != y[i] && (x[i] == x[i] || y[i] == y[i]) || a.Arrays[k].Path != b.Arrays[k].Path {
					t.Fatalf("%s: %s differs", store, a.Arrays[k].Path)
				}
			}
		}
	}
}

// TestFault42: names in an archive that are outside of the store are rejected.
func TestFault42(t *testing.T) {
	for _, bad := range []string{"../t/.zarray", "/t/.zarray", "a/../../t", "t\\..\\x", "t\x00"} {
		name := filepath.Join(t.TempDir(), "store.zip")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w := zip.NewWriter(f)
		for _, key := range []string{".zgroup", bad} {
			if _, err := w.Create(key); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name, Options{}); err == nil || !strings.Contains(err.Error(), "invalid name") && !strings.Contains(err.Error(), "insecure") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// readAll reads a complete array.
func readAll(s *Store, k int) ([]float64, error) {
	a := s.Arrays[k]
	return s.ReadCoordinate(context.Background(), cf.Slab{Var: k, Start: make([]int64, len(a.Shape)), Count: a.Shape})
}
