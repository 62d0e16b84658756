package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestServeManyDue: where the input is looked at again between two starts that are due, none is
// forgotten. The folder of the input comes after the service.
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
	s.said(`"msg":"waiting for input","host":`, 1)
	if _, text := s.get("/status"); !bytes.Contains(text, []byte(`"input_missing": "no such file`)) {
		t.Errorf("/status of a folder that is not there: %s", text)
	}
	if err := os.Rename(filepath.Join(f.dir, "coming"), filepath.Join(f.dir, "fc")); err != nil {
		t.Fatal(err)
	}
	s.said(`"msg":"issued"`, 3)
	s.stop(syscall.SIGTERM)
}
