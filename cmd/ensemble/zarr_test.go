package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// An archive of Zarr stores makes the sample store that GRIB files of the same fields make,
// trains, and is known by all its bytes.
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
	// One chunk of one store more or less is another archive.
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
