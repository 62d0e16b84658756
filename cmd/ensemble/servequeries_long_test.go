//go:build long

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// TestLongQueriesByOthers: netCDF4 and xarray read the values that queries return, covjson-pydantic and pystac accept
// the documents.
func TestLongQueriesByOthers(t *testing.T) {
	python := testdata.Python(t, "covjson_pydantic", "pystac", "netCDF4", "xarray")
	f, data := distributionRun(t)
	out := filepath.Join(f.dir, "out")
	s := f.serve("-c", f.put("serve.yaml", fmt.Appendf(nil, `version: 1
run_dir: %s
input: ["%s"]
out: %s
products: [mean, spread, quantiles, members]
quantiles: [0.1, 0.9]
members: {poll: 0.03s}
`, f.run, filepath.Join(data, "demo_fc_2026*.grib2"), out)))
	s.awaitLog(`"msg":"issued"`, 1)
	files, err := filepath.Glob(filepath.Join(out, name(queriedInit), "*.nc"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	script, err := filepath.Abs("testdata/queries.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, script, s.url, files[0])
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "NO_PROXY=127.0.0.1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
