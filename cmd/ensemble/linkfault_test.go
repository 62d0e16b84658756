package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A symbolic link in place of a folder that predict writes is refused with 73, and nothing is written where it leads.
func TestFault43(t *testing.T) {
	f := faulty(t)
	input := f.put("sound.grib2", join(cycle(lastDay)...))
	for _, name := range []string{lastDay.Format("2006010215"), "reference"} {
		out, victim := filepath.Join(f.dir, "out-"+name), filepath.Join(f.dir, "victim-"+name)
		for _, dir := range []string{out, victim} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(victim, filepath.Join(out, name)); err != nil {
			t.Fatal(err)
		}
		for _, overwrite := range []string{"same", "always"} {
			f.expect(exit.CannotWrite, []string{"symbolic link", filepath.Join(out, name)}, "predict", "--run-dir", f.run, "--out", out, "--overwrite", overwrite, "--threads", "1", "--progress", "none", "--input", input)
		}
		if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
			t.Errorf("%s: written through the link: %v, %v", name, left, err)
		}
	}
}

// While a link takes the place of the folders again and again, no file is written where it leads.
func TestFault43Race(t *testing.T) {
	f := faulty(t)
	input := f.put("sound.grib2", join(cycle(lastDay)...))
	out, victim := filepath.Join(f.dir, "out"), filepath.Join(f.dir, "victim")
	if err := os.MkdirAll(victim, 0o755); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		link := filepath.Join(f.dir, "link")
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{lastDay.Format("2006010215"), "reference"} {
				at := filepath.Join(out, name)
				os.Symlink(victim, link)
				os.Rename(link, at) // fails while a folder is there
				os.Remove(at)       // the link, not a folder with files
				os.Remove(link)
			}
		}
	})
	for range 3 {
		code, _, stderr := call(t, "predict", "--run-dir", f.run, "--out", out, "--threads", "1", "--progress", "none", "--input", input)
		if code != exit.OK && code != exit.CannotWrite && code != exit.IO {
			t.Errorf("exit %d: %s", code, stderr)
		}
		os.RemoveAll(filepath.Join(out, lastDay.Format("2006010215")))
		os.RemoveAll(filepath.Join(out, "reference"))
	}
	close(stop)
	swapping.Wait()
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Errorf("written through a link: %v, %v", left, err)
	}
}
