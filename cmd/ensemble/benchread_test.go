package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench/read"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestBenchRead: every round opens and reads each field of a file, and a prediction from it writes its products.
func TestBenchRead(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(cycle(lastDay)...))
	measured := func(args ...string) (r read.Report) {
		t.Helper()
		stdout := f.expect(exit.OK, nil, append([]string{"bench", "read", "--json", "--progress", "none", path}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err, stdout)
		}
		return r
	}
	r := measured("--rounds", "2")
	x := r.Files[0]
	if len(r.Files) != 1 || x.Path != path || x.Fields != len(cycle(lastDay)) || x.Values < x.Fields || x.Open.N != 2 || x.Read == nil || x.Read.N != 2 || !(x.Open.Median > 0 && x.Read.Median > 0 && x.CatalogueBytes > 0) {
		t.Errorf("read: %+v", r)
	}
	if x := measured("--rounds", "1", "--open-only").Files[0]; x.Read != nil || x.Open.N != 1 {
		t.Errorf("opened only: %+v", x)
	}
	out := filepath.Join(f.dir, "products")
	r = measured("--run-dir", f.run, "--rounds", "2", "--threads", "1", "--out", out)
	if p := r.Prediction; p == nil || p.MS.N != 2 || !(p.MS.Min > 0) || !(p.PeakMiB > 10) || len(r.Files) != 0 {
		t.Errorf("prediction: %+v", r)
	}
	if files, _ := filepath.Glob(filepath.Join(out, "2*", "*.nc")); len(files) == 0 {
		t.Errorf("no products in %s", out)
	}
	f.expect(exit.OK, []string{"fc.grib2", "GB/s"}, "bench", "read", path, "--rounds", "1")
	f.expect(exit.OK, []string{"from cold process to written files"}, "bench", "read", path, "--run-dir", f.run, "--rounds", "1")
	f.expect(exit.NotYet, []string{"/nonexistent/fc.grib2"}, "bench", "read", "/nonexistent/fc.grib2")
	broken := f.put("half.grib2", join(cycle(lastDay)...)[:100])
	f.expect(exit.BadData, []string{"half.grib2"}, "bench", "read", broken)
	f.expect(exit.NotYet, []string{"nothing-there"}, "bench", "read", path, "--run-dir", filepath.Join(f.dir, "nothing-there"))
}
