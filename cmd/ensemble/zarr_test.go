package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestZarrArchive: an archive of Zarr stores gives the same sample store as GRIB files of the same fields, can be
// used for training, and is identified by all its bytes.
func TestZarrArchive(t *testing.T) {
	f := faulty(t)
	for i := range 20 {
		f.zarr(fmt.Sprintf("fc_%02d.zarr", i), cycle(firstDay.AddDate(0, 0, 14*i)))
	}
	text, err := os.ReadFile(f.config)
	if err != nil {
		t.Fatal(err)
	}
	config := f.put("train.yaml", []byte(strings.Replace(string(text), filepath.Dir(f.config)+"/fc_*.grib2", f.dir+"/fc_*.zarr", 1)))
	prepare := func(code exit.Code, words []string, config, out string) string {
		out = filepath.Join(f.dir, out)
		f.expect(code, words, "data", "prepare", "-c", config, "--out", out, "--progress", "none")
		return out
	}
	shards := func(store string) (lines []string) {
		sums, err := os.ReadFile(filepath.Join(store, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(sums)) {
			if strings.Contains(line, "shard") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	a, b := shards(prepare(exit.OK, nil, config, "of-zarr")), shards(prepare(exit.OK, nil, f.config, "of-grib"))
	if len(a) == 0 || strings.Join(a, "") != strings.Join(b, "") {
		t.Errorf("shards of Zarr %q, of GRIB %q", a, b)
	}
	prepare(exit.OK, []string{"already complete"}, config, "of-zarr")
	f.expect(exit.OK, nil, "train", "-c", config, "--run-dir", filepath.Join(f.dir, "run"), "--progress", "none")
	f.expect(exit.OK, []string{"already complete"}, "train", "-c", config, "--run-dir", filepath.Join(f.dir, "run"), "--progress", "none")
	// Adding or removing one chunk changes the identity of the archive.
	chunk := filepath.Join(f.dir, "fc_07.zarr", "temperature", "0.0.0.0.0.0")
	content, err := os.ReadFile(chunk)
	if err != nil {
		t.Fatal(err)
	}
	content[0] ^= 1
	if err := os.WriteFile(chunk, content, 0o644); err != nil {
		t.Fatal(err)
	}
	prepare(exit.CannotWrite, nil, config, "of-zarr")
	f.expect(exit.CannotWrite, nil, "train", "-c", config, "--run-dir", filepath.Join(f.dir, "run"), "--progress", "none")
}

// TestZarrProducts: products as Zarr of both versions contain the values of NetCDF, are reported as stores, are
// recognised by a rerun, and can be verified like files.
func TestZarrProducts(t *testing.T) {
	f := faulty(t)
	input := f.put("fc.grib2", join(cycle(lastDay)...))
	out := f.predict(exit.OK, []string{"_048h.zarr\n", "_048h_v3.zarr\n"}, "--format", "netcdf,zarr,zarr3", input)
	want := f.values(filepath.Join(out, "2*", "*.nc"))
	for _, name := range []string{"*48h.zarr", "*_v3.zarr"} {
		if got := f.values(filepath.Join(out, "2*", name)); got != want {
			t.Errorf("%s:\n%s\nNetCDF:\n%s", name, got, want)
		}
	}
	again := []string{"predict", "--run-dir", f.run, "--out", out, "--format", "zarr", "--threads", "1", "--progress", "none", "--input", input}
	f.expect(exit.OK, []string{"1 of them already complete"}, again...)
	chunk, err := filepath.Glob(filepath.Join(out, "2*", "*48h.zarr", "t_*", "0.*"))
	if err != nil || len(chunk) == 0 {
		t.Fatal(chunk, err)
	}
	if err := os.Remove(chunk[0]); err != nil {
		t.Fatal(err)
	}
	f.expect(exit.BadData, []string{"a chunk is absent"}, "inspect", "--stats", filepath.Dir(filepath.Dir(chunk[0])))
	f.expect(exit.OK, []string{"0 of them already complete"}, again...)
	if got := f.values(filepath.Join(out, "2*", "*48h.zarr")); got != want {
		t.Errorf("recomputed:\n%s\nNetCDF:\n%s", got, want)
	}
}
