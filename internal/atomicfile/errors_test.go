package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"golang.org/x/sys/unix"
)

// files lists a folder.
func files(t *testing.T, dir string) string {
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

// TestReplaced: the new content takes the place of a longer old one, and nothing else is left.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, want := range []string{"first and long", "new"} {
		if err := WriteFile(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != want || files(t, dir) != "a" {
			t.Errorf("%q, %v, files %s; want %q in a alone", text, err, files(t, dir), want)
		}
	}
}

// TestErrors: each step that fails is an error with the name of the step, and leaves no temporary file.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	removed := func(tmp string) error { return os.Remove(tmp) }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no folder":                {WriteFile(filepath.Join(dir, "nowhere", "a"), nil), "create beside "},
		"in place of a folder":     {WriteFile(folder, nil), "put " + folder + " in place"},
		"temporary file is gone":   {Replace(filepath.Join(dir, "a"), removed), "sync "},
		"fill fails":               {Replace(filepath.Join(dir, "a"), func(string) error { return errors.New("full") }), "write "},
		"folder instead of a file": {Replace(filepath.Join(dir, "a"), func(tmp string) error { return errors.Join(os.Remove(tmp), os.Mkdir(tmp, 0o755), errors.New("stop")) }), "write "},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if got := files(t, dir); got != "folder" {
		t.Errorf("files %s, want the folder alone", got)
	}
}

// TestFillIsClosed: the file that a failed fill was given is closed.
func TestFillIsClosed(t *testing.T) {
	var given io.Writer
	err := Write(filepath.Join(t.TempDir(), "a"), func(w io.Writer) error {
		given = w
		return errors.New("full")
	})
	if _, closed := given.Write(make([]byte, 2*writeSize)); err == nil || !errors.Is(closed, os.ErrClosed) {
		t.Errorf("%v; writing afterwards: %v, want a closed file", err, closed)
	}
	path := filepath.Join(t.TempDir(), "a")
	_, restore := faultfs.Use(faultfs.Fault{N: 2, Of: []faultfs.Kind{faultfs.Close}, Err: unix.EIO}) // the first is that of the new, empty file
	err = WriteFile(path, []byte("x"))
	restore()
	if _, none := os.Stat(path); !errors.Is(err, unix.EIO) || !errors.Is(none, fs.ErrNotExist) {
		t.Errorf("a file that cannot be closed: %v, %v", err, none)
	}
}

// TestNames: temporary names are hidden, have the mark, and are not those of other files.
func TestNames(t *testing.T) {
	for name, want := range map[string]bool{".a.partial-1": true, ".partial-x": true, "a.partial-1": false, ".a": false, "": false} {
		if IsTemporary(name) != want {
			t.Errorf("%q: %v, want %v", name, !want, want)
		}
	}
	dir := t.TempDir()
	a, err1 := TempDir(dir, ".x.partial-")
	b, err2 := TempDir(dir, ".x.partial-")
	if err := errors.Join(err1, err2); err != nil || a == b || filepath.Dir(a) != dir || !IsTemporary(filepath.Base(a)) || len(filepath.Base(a)) <= len(".x.partial-") {
		t.Errorf("folders %s and %s, %v", a, b, err)
	}
	if _, err := TempDir(filepath.Join(dir, "nowhere"), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}

// TestUnique: a name that exists is not used; another one is drawn. Other errors are returned.
func TestUnique(t *testing.T) {
	var tried []string
	name, err := createUnique("p", func(name string) error {
		if tried = append(tried, name); len(tried) < 3 {
			return fs.ErrExist
		}
		return nil
	})
	if err != nil || len(tried) != 3 || name != tried[2] || tried[0] == tried[1] || tried[1] == tried[2] || !strings.HasPrefix(name, "p") {
		t.Errorf("%s of %q, %v", name, tried, err)
	}
	if _, err := createUnique("p", func(string) error { return fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// TestSweepErrors: what is no folder is an error.
func TestSweepErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := WriteFile(path, nil); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTemporary(path); err == nil {
		t.Error("a file was swept as a folder")
	}
	if err := sync(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync of no file: %v", err)
	}
}
