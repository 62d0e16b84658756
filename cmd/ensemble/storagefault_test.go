package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// TestFault23Replaced: a run that a killed `train --overwrite always` was replacing is used by predict, verify and model promote,
// and the same training brings it back. If it is in parts, the error has the command that does.
func TestFault23Replaced(t *testing.T) {
	f := faulty(t)
	dir, killed := filepath.Join(f.dir, "run"), filepath.Join(f.dir, "killed")
	if err := os.CopyFS(dir, os.DirFS(f.run)); err != nil {
		t.Fatal(err)
	}
	d, _, err := rundir.Open(dir, rundir.Options{Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.WriteConfig([]byte("new"), nil), os.CopyFS(killed, os.DirFS(dir)), d.Close(), os.Remove(filepath.Join(killed, "run.lock"))); err != nil {
		t.Fatal(err)
	}
	input := f.put("in.grib2", join(cycle(lastDay)...))
	products := filepath.Join(f.dir, "products")
	predict := []string{"predict", "--run-dir", killed, "--input", input, "--out", products, "--threads", "1", "--overwrite", "always", "--progress", "none"}
	f.expect(exit.OK, []string{filepath.Join(killed, ".replaced")}, predict...)
	truth := f.put("an.grib2", join(cycle(lastDay.AddDate(0, 0, 2))[:perMember]...))
	f.expect(exit.OK, nil, "verify", "--forecast", products+"/2*/*.nc", "--analysis", truth, "--members", input, "--run-dir", killed)
	f.expect(exit.OK, nil, "model", "promote", killed, "--as", filepath.Join(f.dir, "name"))
	if err := os.Rename(filepath.Join(killed, ".replaced"), filepath.Join(killed, ".replacing")); err != nil {
		t.Fatal(err)
	}
	f.expect(exit.NotYet, []string{filepath.Join(killed, ".replacing"), "ensemble train -c FILE --run-dir " + killed + " --resume auto"}, predict...)
	f.expect(exit.OK, nil, "train", "-c", f.config, "--run-dir", killed, "--resume", "auto", "--progress", "none")
	want, err := os.ReadFile(filepath.Join(f.run, "manifest.json"))
	got, e := os.ReadFile(filepath.Join(killed, "manifest.json"))
	if err != nil || e != nil || !bytes.Equal(got, want) {
		t.Errorf("the run is not back: %v, %v", err, e)
	}
	f.expect(exit.OK, nil, predict...)
}

// TestFault29: a model on a network file system whose handles become stale twice is read; one whose disk cannot be read is
// reported with 74 and the file.
func TestFault29(t *testing.T) {
	f := faulty(t)
	args := []string{"predict", "--run-dir", f.run, "--input", f.put("in.grib2", join(cycle(lastDay)...)), "--out", filepath.Join(f.dir, "products"), "--threads", "1", "--overwrite", "always", "--progress", "none"}
	model := func(op faultfs.Operation) bool { return strings.HasPrefix(op.Path, filepath.Join(f.run, "model")) }
	for _, c := range []struct {
		fault faultfs.Fault
		want  exit.Code
		words string
	}{
		{faultfs.Fault{N: 1, Times: 2, Err: unix.ESTALE}, exit.OK, ""},
		{faultfs.Fault{N: 1, Times: 2, Delay: 200 * time.Millisecond}, exit.OK, ""},
		{faultfs.Fault{N: 1, Times: -1, Err: unix.ESTALE}, exit.IO, "stale file handle, 4 times in "},
		{faultfs.Fault{N: 1, Times: -1, Err: unix.EIO}, exit.IO, "input/output error"},
	} {
		c.fault.Of, c.fault.At = []faultfs.Kind{faultfs.Read}, model
		s, restore := faultfs.Use(c.fault)
		code, _, stderr := call(t, args...)
		restore()
		if code != c.want || !strings.Contains(stderr, c.words) || len(s.Injected()) == 0 {
			t.Errorf("%v, %d times: exit %d: %s", c.fault.Err, len(s.Injected()), code, stderr)
		}
	}
}

// TestFault31: products and scores have the same bytes in every time zone, and under one that the system does not know. (More
// zones: TestLongFault31.)
func TestFault31(t *testing.T) { inTimeZones(t, 1) }

// inTimeZones compares those of UTC, of an unknown zone, and of n zones that the seed selects.
func inTimeZones(t *testing.T, n int) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	f := faulty(t)
	input := f.put("in.grib2", join(cycle(lastDay)...))
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(input, past, past); err != nil {
		t.Fatal(err)
	}
	out, scores := filepath.Join(f.dir, "products"), filepath.Join(f.dir, "scores")
	truth := f.put("an.grib2", join(cycle(lastDay.AddDate(0, 0, 2))[:perMember]...))
	want := ""
	others := testseed.Some(t, []string{"Europe/Zurich", "America/St_Johns", "Asia/Kathmandu", "XST-14", ""}, n)
	for _, zone := range append([]string{"UTC", "Nowhere/Else"}, others...) {
		if err := errors.Join(os.RemoveAll(out), os.RemoveAll(scores)); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"predict", "--run-dir", f.run, "--input", input, "--out", out, "--format", "netcdf,grib2,zarr", "--threads", "1", "--progress", "none"},
			{"verify", "--forecast", out + "/2*/*.nc", "--analysis", truth, "--members", input, "--run-dir", f.run, "--out", scores, "--seasons", "--progress", "none"},
		} {
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = slices.Concat(os.Environ(), []string{"TZ=" + zone})
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", zone, err, text)
			}
		}
		sums := writer{out: scores, product: "*"}.sums(t)
		for _, file := range []string{"scores.json", "scores.csv", "dates.parquet"} {
			if !strings.Contains(sums, file) {
				t.Errorf("%s: no %s in\n%s", zone, file, sums)
			}
		}
		got := products(out, 1)(t) + sums
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s: other products or scores:\n%s\nwant\n%s", zone, got, want)
		}
	}
}
