package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestServeManyDue: where the input is looked at again between two starts that are due, none is
// forgotten.
func TestServeManyDue(t *testing.T) {
	f := faulty(t)
	past := time.Now().Add(-time.Hour)
	for i := range 3 {
		c := lastDay.AddDate(0, 0, i)
		if err := os.Chtimes(f.put("fc_"+name(c)+".grib2", join(cycle(c)...)), past, past); err != nil {
			t.Fatal(err)
		}
	}
	s := f.serve("--run-dir", f.run, "--out", filepath.Join(f.dir, "out"), "--set", "members.poll=0.001s", "--input", filepath.Join(f.dir, "fc_*.grib2"))
	s.said(`"msg":"issued"`, 3)
	s.stop(syscall.SIGTERM)
}
