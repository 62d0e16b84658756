package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// in returns a Space in a new directory, whatever TMPDIR is.
func in(t *testing.T, limit int64) (*Space, string) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", "")
	return New(dir, limit), dir
}

// In memory and in files an array has the values that were written, and a file has no name.
func TestArrays(t *testing.T) {
	const n = 3 * piece / 4
	mixed, dir := in(t, 4*n)
	for name, s := range map[string]*Space{"none": nil, "mixed": mixed} {
		var all []*Array
		for k := range 2 { // the second array of mixed is beyond the limit
			a, err := s.Make(n, "a test")
			if err != nil {
				t.Fatal(err)
			}
			values := make([]float32, n-7)
			for i := range values {
				values[i] = float32(i + 1 + k)
			}
			if err := a.Write(5, values, "a test"); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a.Values[5:n-2], values) || a.Values[4] != 0 || a.Values[n-1] != 0 || len(a.Values) != n {
				t.Errorf("%s: array %d has other values than were written", name, k)
			}
			if mapped := a.view != nil; mapped != (s != nil && k == 1) {
				t.Errorf("%s: array %d is mapped: %v", name, k, mapped)
			}
			s.Read(Window)
			if a.Values[5] != values[0] || a.Values[n-3] != values[len(values)-1] {
				t.Errorf("%s: array %d lost values when its pages were released", name, k)
			}
			all = append(all, a)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v has a name, %v", name, left, err)
		}
		for _, a := range all {
			if err := errors.Join(a.Close(), a.Close()); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
	}
	if mixed.memory != 0 || len(mixed.mapped) > 0 {
		t.Errorf("closed arrays occupy %d bytes and %d files", mixed.memory, len(mixed.mapped))
	}
}

// residentMiB is the resident memory of files that are mapped.
func residentMiB(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	kib, inside := 0, false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if strings.Contains(line, ".scratch.partial-") {
			inside = true
		} else if len(f) > 1 && f[0] == "Rss:" && inside {
			v := 0
			for _, c := range f[1] {
				v = 10*v + int(c-'0')
			}
			kib, inside = kib+v, false
		}
	}
	return kib >> 10
}

func TestPagesAreReleased(t *testing.T) {
	s, _ := in(t, 0)
	const n = 8 << 20
	a, err := s.Make(n, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Write(0, make([]float32, n), "a test"); err != nil {
		t.Fatal(err)
	}
	var sum float32
	for _, v := range a.Values {
		sum += v
	}
	s.Read(Window - 1)
	if got := residentMiB(t); got != 32 || sum != 0 {
		t.Fatalf("%d MiB of 32 that were read are resident", got)
	}
	s.Read(1)
	if got := residentMiB(t); got != 0 {
		t.Errorf("%d MiB are resident after a window", got)
	}
}

func TestErrors(t *testing.T) {
	t.Setenv("TMPDIR", "")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		n         int
		code      exit.Code
		want      []string
	}{
		{"full", dir, 1 << 55, exit.IO, []string{"no space left", "GB for a test", "at: " + dir, "set TMPDIR to a directory that has them"}},
		{"missing", filepath.Join(dir, "none"), 1, exit.CannotWrite, []string{"GB for a test", "none", "set TMPDIR to a directory that can be written"}},
		{"a file", file, 1, exit.CannotWrite, []string{file, "set TMPDIR"}},
		{"no permission", closed, 1, exit.CannotWrite, []string{"no permission to write", closed, "set TMPDIR"}},
	} {
		if c.dir == closed && os.Getuid() == 0 {
			continue
		}
		_, err := New(c.dir, 0).Make(c.n, "a test")
		if exit.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want exit %d", c.name, err, c.code)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v\n\tlacks %q", c.name, err, w)
			}
		}
	}
	// The fix works.
	t.Setenv("TMPDIR", dir)
	a, err := New(file, 0).Make(1, "a test")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Space that earlier arrays have not written to yet is not free.
func TestSpaceIsPromisedOnce(t *testing.T) {
	s, dir := in(t, 0)
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	most := int(float64(disk.Bavail) * float64(disk.Bsize) * 0.6 / 4)
	a, err := s.Make(most, "a test")
	if err != nil {
		t.Skip("skipped: the file system has no files of this size: ", err)
	}
	if b, err := s.Make(most, "a test"); exit.CodeOf(err) != exit.IO {
		t.Errorf("a second array of 60 %% of the disk: %v, want exit %d", err, exit.IO)
		b.Close()
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := s.Make(most, "a test")
	if err != nil {
		t.Fatal("after the first was closed: ", err)
	}
	b.Close()
}

// A write that the system refuses is an error with the same advice.
func TestFailedWrite(t *testing.T) {
	s, dir := in(t, 0)
	a, err := s.Make(4, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Write(0, []float32{1}, "a test"); exit.CodeOf(err) != exit.IO || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v, want exit %d at %s", err, exit.IO, dir)
	}
}
