package zarr

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mutate"
)

// single returns a store for each golden array, with its files.
func single(t *testing.T) map[string][]string {
	t.Helper()
	dir := golden(t)
	out := map[string][]string{}
	for version, files := range map[string][]string{"v2.zarr": {".zgroup"}, "v3.zarr": nil} {
		s := openStore(t, filepath.Join(dir, version), Options{})
		for _, a := range s.Arrays {
			if filepath.Dir(a.Path) != "." || a.text || len(a.Shape) > 0 && a.Shape[0] == 1 {
				continue
			}
			to := filepath.Join(dir, "single", version+"_"+a.Path)
			if err := os.CopyFS(filepath.Join(to, "t"), os.DirFS(filepath.Join(dir, version, a.Path))); err != nil {
				t.Fatal(err)
			}
			text := []byte(`{"zarr_format": 3, "node_type": "group", "attributes": {}}`)
			name := nodeName3
			if files != nil {
				text, name = []byte(`{"zarr_format": 2}`), files[0]
			}
			if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
			err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					out[to] = append(out[to], path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// checkMutated reads n stores with one damaged file: no panic, bounded memory, and
// every error has a code.
func checkMutated(t *testing.T, n int) {
	stores := single(t)
	dirs := slices.Sorted(maps.Keys(stores))
	r := rand.New(rand.NewPCG(11, 12))
	refused, unused, read := 0, 0, 0
	for i := range n {
		dir := dirs[r.IntN(len(dirs))]
		path := stores[dir][r.IntN(len(stores[dir]))]
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, mutate.File(r, [][]byte{sound}), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, Options{})
		if err == nil {
			unused += len(s.Unused)
			// modification times stay, so the damage is not a change
			s.storage.(*directoryStorage).opened = s.storage.(*directoryStorage).opened.AddDate(1, 0, 0)
			for k, a := range s.Arrays {
				if size := size(a); a.text || size < 1 || size > 1<<20 {
					continue // more than a request reads at once
				}
				if _, e := readAll(s, k); e != nil {
					err = errors.Join(err, e)
				} else {
					read++
				}
			}
			s.Close()
		}
		if err != nil {
			refused++
			if code := exit.CodeOf(err); code != exit.BadData && code != exit.IO || len(err.Error()) > 10_000 {
				t.Fatalf("store %d, %s: exit %d, %v", i, path, code, err)
			}
		}
		if err := os.WriteFile(path, sound, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d damaged stores: %d refused, %d arrays unused, %d read", n, refused, unused, read)
	if refused < n/4 || read < n/20 {
		t.Error("the damage does not reach what it should")
	}
}

// size returns the number of elements of an array.
func size(a *Array) int64 {
	n := int64(1)
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

func TestMutatedFiles(t *testing.T) { checkMutated(t, 300) }
