package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// TestFault47Umask: published files have the permissions of the umask.
func TestFault47Umask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	for _, c := range []struct {
		umask        int
		file, folder os.FileMode
	}{{0, 0o666, 0o777}, {0o027, 0o640, 0o750}, {0o077, 0o600, 0o700}} {
		syscall.Umask(c.umask)
		dir := t.TempDir()
		path := filepath.Join(dir, "a")
		if err := WriteFile(path, []byte("x")); err != nil {
			t.Fatal(err)
		}
		made, err := TempDir(dir, ".b-")
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range map[string]os.FileMode{path: c.file, made: c.folder | os.ModeDir} {
			if s, err := os.Stat(p); err != nil || s.Mode() != want {
				t.Errorf("umask %o: %s has mode %v, want %v (%v)", c.umask, p, s.Mode(), want, err)
			}
		}
	}
}

// TestFailure: an error leaves the old content and no temporary file.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	err := Write(path, func(w io.Writer) error {
		_, err := w.Write([]byte("ne"))
		return errors.Join(err, full)
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	text, err := os.ReadFile(path)
	if names, _ := os.ReadDir(dir); err != nil || string(text) != "old" || len(names) != 1 {
		t.Errorf("%q, %d files, %v; want \"old\" alone", text, len(names), err)
	}
}

// TestSweep: only temporary files of the given names are removed.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	left := func() string {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	for _, name := range []string{".a.partial-1", ".b.partial-2", ".ab.partial-3/x", "a", ".hidden", "c.partial-4"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		names []string
		want  string
	}{{[]string{"a", "none"}, ".ab.partial-3 .b.partial-2 .hidden a c.partial-4"}, {nil, ".hidden a c.partial-4"}} {
		if err := RemoveTemporary(dir, c.names...); err != nil || left() != c.want {
			t.Errorf("%q: %v, left %q, want %q", c.names, err, left(), c.want)
		}
	}
	if err := RemoveTemporary(filepath.Join(dir, "nowhere")); err != nil {
		t.Errorf("no folder: %v", err)
	}
}

// TestIgnoredErrors: an error of writing that an encoder ignores is not lost, however it goes on: the old file stays.
func TestIgnoredErrors(t *testing.T) {
	write := func(w io.Writer) { w.Write([]byte("text")) }
	beyond := func(w io.Writer) { w.Write(make([]byte, 2*writeSize)) } // calls the system at once
	copied := func(w io.Writer) { io.Copy(w, io.MultiReader(strings.NewReader("text"))) }
	for name, steps := range map[string][]func(io.Writer){"written twice": {write, write}, "written at once, then kept": {beyond, write}, "written, copied": {write, copied}, "copied": {copied}, "copied, written": {copied, write}, "copied twice": {copied, copied}} {
		path := filepath.Join(t.TempDir(), "f")
		if err := WriteFile(path, []byte("old")); err != nil {
			t.Fatal(err)
		}
		_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Write}, Err: syscall.ENOSPC})
		err := Write(path, func(w io.Writer) error {
			for _, step := range steps {
				step(w)
			}
			return nil
		})
		restore()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestFewWrites: values that an encoder writes one by one do not each call the system.
func TestFewWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	s, restore := faultfs.Use(faultfs.Fault{Of: []faultfs.Kind{faultfs.Write}})
	defer restore()
	err := Write(path, func(w io.Writer) error {
		for range writeSize + 1 {
			if _, err := w.Write([]byte{1}); err != nil {
				return err
			}
		}
		return nil
	})
	if got, e := os.ReadFile(path); err != nil || e != nil || len(got) != writeSize+1 || s.Count() != 2 {
		t.Errorf("%v, %v: %d bytes in %d writes, want %d in 2", err, e, len(got), s.Count(), writeSize+1)
	}
}

// TestCopied: a fill may mix writing and copying; the file has all in order.
func TestCopied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := Write(path, func(w io.Writer) error {
		_, err1 := io.WriteString(w, "one ")
		n, err2 := io.Copy(w, io.MultiReader(strings.NewReader("two")))
		_, err3 := io.WriteString(w, " three")
		if n != 3 {
			t.Errorf("%d bytes were copied", n)
		}
		return errors.Join(err1, err2, err3)
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "one two three" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestEachOperation: whatever operation of a replacement fails, the caller receives an error. The file is then old or, if only its
// durability is in doubt, new.
func TestEachOperation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	operations := 0
	for round := range faultfs.Rounds(faultfs.Fault{Err: syscall.EIO}, 1) {
		if err := WriteFile(path, []byte("old")); err != nil {
			t.Fatal(err)
		}
		hit, err := round.Run(t, func() error { return WriteFile(path, []byte("new")) })
		if hit == nil {
			break
		}
		operations++
		want := "old"
		if hit.Kind == faultfs.SyncDir {
			want = "new"
		}
		if got, err1 := os.ReadFile(path); !errors.Is(err, syscall.EIO) || err1 != nil || string(got) != want {
			t.Errorf("%s fails: %v; the file is %q, %v, want %q", hit.Kind, err, got, err1, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%s fails: %d files, %v", hit.Kind, len(left), err)
		}
	}
	if operations < 7 { // create, close, open, write, close, sync, rename, sync of the folder
		t.Errorf("%d operations", operations)
	}
}

// TestEachOperationOfFolders: the same of making folders and of replacing one.
func TestEachOperationOfFolders(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"make":    func(dir string) error { return MkdirAll(filepath.Join(dir, "a", "b"), 0o755) },
		"rename":  func(dir string) error { return ReplaceDir(filepath.Join(dir, "tmp"), filepath.Join(dir, "new")) },
		"replace": func(dir string) error { return ReplaceDir(filepath.Join(dir, "tmp"), filepath.Join(dir, "old")) },
	} {
		for round := range faultfs.Rounds(faultfs.Fault{Err: syscall.EIO}, 1) {
			dir := t.TempDir()
			if err := errors.Join(os.Mkdir(filepath.Join(dir, "tmp"), 0o755), os.Mkdir(filepath.Join(dir, "old"), 0o755)); err != nil {
				t.Fatal(err)
			}
			hit, err := round.Run(t, func() error { return do(dir) })
			if hit != nil && !errors.Is(err, syscall.EIO) && !(name == "make" && hit.Kind == faultfs.Stat) { // a folder that cannot be seen is made
				t.Errorf("%s: %s fails, and the result is %v", name, hit.Kind, err)
			}
		}
	}
}
