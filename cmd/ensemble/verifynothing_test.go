package main

import (
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestVerifyNothing: products of a spread alone, without members, have nothing that could be compared with an analysis.
func TestVerifyNothing(t *testing.T) {
	f := faulty(t)
	out := filepath.Join(f.dir, "products")
	f.expect(exit.OK, nil, "predict", "--run-dir", f.run, "--input", f.put("in.grib2", join(cycle(lastDay)...)), "--out", out, "--threads", "1", "--progress", "none")
	truth := f.put("an.grib2", join(cycle(lastDay.AddDate(0, 0, 2))[:perMember]...))
	f.expect(exit.BadData, []string{"nothing to compare with the analysis", "t 850hPa", "--members"}, "verify", "--forecast", out+"/2*/*.nc", "--analysis", truth, "--out", filepath.Join(f.dir, "scores"), "--progress", "none")
}
