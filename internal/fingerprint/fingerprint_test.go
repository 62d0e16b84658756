package fingerprint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Every change of a file is detected; a change of metadata alone is not reported as
// a change of content.
func TestVerify(t *testing.T) {
	long := strings.Repeat("0123456789", 2000)
	for _, c := range []struct {
		name   string
		change func(path string) error
		why    string // "" if the file is the same
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"permissions", func(p string) error { return os.Chmod(p, 0o600) }, ""},
		{"another name beside it", func(p string) error { return os.Link(p, p+".link") }, ""},
		{"grown", func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString("x")
				f.Close()
			}
			return err
		}, "20000 bytes"},
		{"replaced by its equal", func(p string) error {
			if err := os.WriteFile(p+".new", []byte(long), 0o644); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		}, "it was replaced by another file"},
		{"written to in the middle", func(p string) error { return put(p, 10_000) }, "modified"},
		{"the end, at its old time", func(p string) error { return atOldTime(p, func() error { return put(p, 19_999) }) }, "first or last bytes"},
		{"the beginning, at its old time", func(p string) error { return atOldTime(p, func() error { return put(p, 0) }) }, "first or last bytes"},
		{"removed", os.Remove, "no such file"},
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(long), 0o644); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, past, past); err != nil {
			t.Fatal(err)
		}
		m, err := Of(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(path); err != nil {
			t.Fatal(err)
		}
		err = m.Verify(path)
		if c.why == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if exit.CodeOf(err) != exit.NotYet || !IsChanged(err) || !IsChanged(fmt.Errorf("wrapped: %w", err)) || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want exit 66 with %q", c.name, err, c.why)
		}
	}
	if IsChanged(&exit.Error{Code: exit.NotYet, What: "something else"}) || IsChanged(nil) {
		t.Error("another error is taken for a change")
	}
}

// A change in the middle with a restored mtime shows in the ctime.
func TestUntouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 20_000), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := Of(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Of(path); err != nil || !again.UnchangedSince(before) {
		t.Errorf("%v, %+v and %+v", err, before, again)
	}
	time.Sleep(20 * time.Millisecond) // longer than the resolution of file times
	if err := atOldTime(path, func() error { return put(path, 10_000) }); err != nil {
		t.Fatal(err)
	}
	after, err := Of(path)
	if err != nil || !after.IsSameContent(before) || after.UnchangedSince(before) {
		t.Errorf("%v, %+v and %+v", err, before, after)
	}
}

// Empty files, and files shorter than a hashed end, have fingerprints too.
func TestShortFiles(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range []string{"", "a", "b", strings.Repeat("a", endSize+1)} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := Of(path)
		if err != nil || seen[m.EndsSHA256] || m.Size != int64(len(text)) || m.Inode == 0 {
			t.Errorf("%d bytes: %v, %+v", len(text), err, m)
		}
		seen[m.EndsSHA256] = true
	}
}

// The fingerprint of a folder covers name, size and mtime of every file.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "sub/b", "sub/c"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := Of(dir)
	if err != nil || before.Size != 12 || before.Inode == 0 {
		t.Fatalf("%v, %+v", err, before)
	}
	if err := before.Verify(dir); err != nil {
		t.Error(err)
	}
	time.Sleep(20 * time.Millisecond)
	c := filepath.Join(dir, "sub", "c")
	for _, change := range []struct {
		what string
		make func() error
		same bool
	}{
		{"content, at the old time", func() error { return atOldTime(c, func() error { return put(c, 1) }) }, true},
		{"a time", func() error { return os.Chtimes(c, time.Time{}, time.Unix(1e9, 0)) }, false},
		{"a name", func() error { return os.Rename(c, c+"d") }, false},
		{"a file more", func() error { return os.WriteFile(c, nil, 0o644) }, false},
	} {
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		after, err := Of(dir)
		if err != nil || after.IsSameContent(before) != change.same || after.UnchangedSince(before) {
			t.Errorf("%s: %v, %+v and %+v", change.what, err, before, after)
		}
		if err := before.Verify(dir); IsChanged(err) == change.same {
			t.Errorf("%s: %v", change.what, err)
		}
		before = after
	}
}

// put changes one byte.
func put(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("!"), at)
	return err
}

// atOldTime makes a change and restores the mtime of the file.
func atOldTime(path string, change func() error) error {
	s, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return os.Chtimes(path, s.ModTime(), s.ModTime())
}
