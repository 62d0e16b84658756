package main

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// namesIn lists the files and folders below a folder.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestFault42Configuration: an experiment names files of its own folder and of its data only. Others are refused before they are
// opened, and nothing is written.
func TestFault42Configuration(t *testing.T) {
	source := filepath.Join("..", "..", "experiments", "small")
	for _, bad := range []string{"../outside", "../../etc/passwd", "/etc/passwd", "a/../../outside"} {
		for key, change := range map[string][2]string{
			"config":         {"config: train.yaml", "config: " + bad},
			"name":           {"name: small", "name: " + bad},
			"data.forecasts": {`["demo_fc_*.grib2"]`, `["` + bad + `"]`},
			"data.analyses":  {`["demo_an_*.nc"]`, `["` + bad + `"]`},
		} {
			root := t.TempDir()
			dir, outside := filepath.Join(root, "experiment"), filepath.Join(root, "outside")
			if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "experiment.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
			if bytes.Equal(changed, text) {
				t.Fatalf("%s: nothing to change", key)
			}
			for path, content := range map[string][]byte{filepath.Join(dir, "experiment.yaml"): changed, outside: []byte("version: 1")} {
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before := namesIn(t, root)
			s, restore := faultfs.Use(faultfs.Fault{At: func(op faultfs.Operation) bool {
				path := filepath.Clean(op.Path)
				return path == outside || path == "/etc/passwd" || slices.Contains(faultfs.Changing, op.Kind)
			}})
			code, _, stderr := call(t, "experiment", "run", dir, "--out", filepath.Join(root, "out"))
			restore()
			if code != exit.Usage || !strings.Contains(stderr, `"`+bad+`"`) || s.Count() > 0 {
				t.Errorf("%s: %s: exit %d after %d operations: %s", key, bad, code, s.Count(), stderr)
			}
			if after := namesIn(t, root); !slices.Equal(after, before) {
				t.Errorf("%s: %s: files %q, before %q", key, bad, after, before)
			}
		}
	}
}

// TestFault42Archive: a Zarr archive with names outside of itself is refused, and nothing is unpacked.
func TestFault42Archive(t *testing.T) {
	f := faulty(t)
	for _, bad := range []string{"../x/.zarray", "/x/.zarray", "a/../../x", `t\..\x`, "t\x00/.zarray"} {
		var archive bytes.Buffer
		w := zip.NewWriter(&archive)
		for _, name := range []string{".zgroup", bad} {
			part, err := w.Create(name)
			if err == nil {
				_, err = part.Write([]byte(`{"zarr_format": 2}`))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		path := f.put("store.zarr.zip", archive.Bytes())
		before := namesIn(t, f.dir)
		f.expect(exit.BadData, []string{"store.zarr.zip", "invalid name"}, "inspect", path)
		if after := namesIn(t, f.dir); !slices.Equal(after, before) {
			t.Errorf("%q: files %q, before %q", bad, after, before)
		}
	}
}
