package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestServeManyDue: if the input is polled between two inits that are due, both are predicted. The input folder is
// created after the service has started.
func TestServeManyDue(t *testing.T) {
	f := faulty(t)
	past := time.Now().Add(-time.Hour)
	for _, folder := range []string{"coming", "out"} {
		if err := os.Mkdir(filepath.Join(f.dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		c := lastDay.AddDate(0, 0, i)
		if err := os.Chtimes(f.put("coming/fc_"+name(c)+".grib2", join(cycle(c)...)), past, past); err != nil {
			t.Fatal(err)
		}
	}
	s := f.serve("--run-dir", f.run, "--out", filepath.Join(f.dir, "out"), "--set", "members.poll=0.001s", "--input", filepath.Join(f.dir, "fc"))
	s.awaitLog(`"msg":"waiting for input","host":`, 1)
	if _, text := s.get("/status"); !bytes.Contains(text, []byte(`"input_missing": "no such file`)) {
		t.Errorf("/status of a missing folder: %s", text)
	}
	if err := os.Rename(filepath.Join(f.dir, "coming"), filepath.Join(f.dir, "fc")); err != nil {
		t.Fatal(err)
	}
	s.awaitLog(`"msg":"issued"`, 3)
	s.stop(syscall.SIGTERM)
}
