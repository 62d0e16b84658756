package powerfail

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// TestRecorder: the last state of a log without losses is what the operating system has, after all operations, also those
// of other processes.
func TestRecorder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	before := Tree{"old": []byte("old content"), "gone/": nil, "gone/x": []byte("x"), "gone/d/": nil, "b/": nil, "b/in b": nil}
	if err := before.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	l := Run(t, dir, func(*Recorder) error {
		f, err := filesystem.Create(in("new"))
		if err != nil {
			return err
		}
		_, e1 := f.Write([]byte("0123"))
		_, e2 := f.Write([]byte("4567"))
		_, e3 := f.WriteAt([]byte("ab"), 10)
		e4, e5, e6 := f.Truncate(11), f.Sync(), filesystem.Rename(in("new"), in("named"))
		_, e7 := f.Write([]byte("x"))
		log, e8 := filesystem.OpenFile(in("old"), os.O_RDWR|os.O_APPEND, 0)
		if err := errors.Join(e1, e2, e3, e4, e5, e6, e7, e8, f.Close()); err != nil {
			return err
		}
		_, e1 = log.Write([]byte(" and more"))
		return errors.Join(e1, log.Close(), filesystem.RemoveAll(in("gone")), filesystem.MkdirAll(in("a/deep"), 0o777),
			exec.Command("sh", "-c", "echo child >"+in("a/deep/f")+"; echo >"+in("written by a child")).Run(), filesystem.Exchange(in("a"), in("b")), filesystem.SyncDir(dir),
			filesystem.WriteFile(filepath.Join(outside, "f"), nil, 0o666), filesystem.Rename(filepath.Join(outside, "f"), in("from outside")))
	})
	want, err := ReadTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	for s := range l.Final(seed, 0) { // the first one: nothing was lost
		if s.Tree.digest() != want.digest() {
			t.Errorf("%s:\n%q, want\n%q", s, s.Tree, want)
		}
		break
	}
	if string(want["named"]) != "01234567\x00\x00ax" && string(want["named"]) != "01234567x\x00a" || len(want) != 9 {
		t.Errorf("%q", want)
	}
	for _, o := range l.Ops {
		if strings.HasPrefix(o.Path, "..") || strings.HasPrefix(o.Path, "/") {
			t.Errorf("%s is outside", o)
		}
	}
}

// TestAfter: the caller learns of each operation, in order.
func TestAfter(t *testing.T) {
	dir := t.TempDir()
	r, err := Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	var seen []int
	r.After = func(n int) { seen = append(seen, n) }
	if err := errors.Join(r.Mkdir(filepath.Join(dir, "a"), 0o777), r.SyncDir(dir), r.Remove(filepath.Join(dir, "a"))); err != nil || fmt.Sprint(seen) != "[1 2 3]" {
		t.Errorf("%v, %v", seen, err)
	}
	if err := r.Remove(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) || len(seen) != 3 {
		t.Errorf("a failed operation: %v, %v", err, seen)
	}
}
