//go:build cgo && linux

package libraries

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// clearEnvironment removes everything that names directories of libraries.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, v := range []string{PathVariable, "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"} {
		t.Setenv(v, "")
	}
	t.Setenv("CUDA_HOME", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
}

// made is a library that no machine has.
func made(files ...string) Library {
	return Library{Name: "Made", Files: files, Enables: "nothing", wheel: "made", install: "made-of-tests"}
}

// newStem makes the stem of a file name that this process has not seen: what the loader has once
// opened it knows by its soname for good.
func newStem(stem string) string {
	freshOnes++
	return fmt.Sprintf("lib%s%d", stem, freshOnes)
}

var freshOnes int

// compile makes shared libraries, each in its folder. They need what is named in needs,
// which nobody has, when it is not empty. Only of those that are named, which have a
// soname, does the loader know that they are there when it is asked for the bare name.
func compile(t *testing.T, needs string, named bool, paths ...string) {
	t.Helper()
	cc, err := exec.LookPath("/usr/bin/cc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		args := []string{"-shared", "-nostdlib", "-o", p, "-x", "c", "/dev/null"}
		if named {
			args = append(args, "-Wl,-soname,"+filepath.Base(p))
		}
		if needs != "" {
			other := filepath.Join(t.TempDir(), needs)
			compile(t, "", true, other)
			args = append(args, "-x", "none", "-Wl,--no-as-needed", other)
		}
		cmd := exec.Command(cc, args...)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// TestOrder: each place is found, and the places in the order of the comment. Places are
// taken away one after the other.
func TestOrder(t *testing.T) {
	clearEnvironment(t)
	dir := t.TempDir()
	env := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv(PathVariable, env("a")+":"+env("b")+"::"+env("c")+":"+env("d")+":"+env("e"))
	t.Setenv("CUDA_HOME", env("toolkit"))
	t.Setenv("VIRTUAL_ENV", env("venv"))
	t.Setenv("CONDA_PREFIX", env("conda"))
	t.Setenv("HOME", env("home"))
	if err := os.MkdirAll(env("python/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(env("python/bin/python3"), []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", env("python/bin"))
	places := []string{
		"a/libmade-of-tests.so.2", // a folder of libraries
		"a/libmade-of-tests.so.1", // of which the newest is taken
		"b/lib64/libmade-of-tests.so.1",
		"c/nvidia/made/lib/libmade-of-tests.so.1", // site-packages
		"d/lib/python3.11/site-packages/nvidia/cu13/lib/libmade-of-tests.so.2",
		"e/made/lib/libmade-of-tests.so.1",
		"toolkit/lib64/libmade-of-tests.so.1",
		"venv/lib/python3.11/site-packages/nvidia/made/lib/libmade-of-tests.so.1", // the newer Python
		"venv/lib/python3.9/site-packages/nvidia/cu13/lib/libmade-of-tests.so.2",
		"conda/lib/libmade-of-tests.so.1",
		"home/.local/lib/python3.12/site-packages/nvidia/made/lib/libmade-of-tests.so.1",
		"python/lib/python3.12/dist-packages/nvidia/made/lib/libmade-of-tests.so.1",
	}
	for i, p := range places {
		places[i] = filepath.Join(dir, p)
	}
	compile(t, "", false, places...)
	l := made("libmade-of-tests.so.2", "libmade-of-tests.so.1")
	for _, want := range places {
		lib, err := Find(l)
		if err != nil {
			t.Fatalf("want %s: %v", want, err)
		}
		if lib.Path() != want {
			t.Fatalf("found %s, want %s", lib.Path(), want)
		}
		if err := os.Remove(want); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFault36: the error has the library, the places searched, and a fix.
func TestFault36(t *testing.T) {
	clearEnvironment(t)
	dir := t.TempDir()
	t.Setenv(PathVariable, dir)
	_, err := Find(made("libmade-nowhere.so.2", "libmade-nowhere.so.1"))
	var e *exit.Error
	if !errors.Is(err, dl.ErrNotFound) || !errors.As(err, &e) || e.Code != exit.NoDevice {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"cannot open Made", "libmade-nowhere.so.2 or libmade-nowhere.so.1", dir, "pip install made-of-tests", PathVariable} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// TestFault36Refused: of a file that is there and does not open, the reason is given; another
// place that has a good one is taken nevertheless.
func TestFault36Refused(t *testing.T) {
	clearEnvironment(t)
	dir, name, needed := t.TempDir(), newStem("made-refused")+".so.1", newStem("needed-by-made")+".so.5"
	t.Setenv(PathVariable, filepath.Join(dir, "a")+":"+filepath.Join(dir, "b"))
	compile(t, needed, true, filepath.Join(dir, "a", name))
	l := made(name)
	if _, err := Find(l); err == nil || !strings.Contains(err.Error(), needed) {
		t.Errorf("got %v, want what is missing", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", name), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(l); err == nil || !strings.Contains(err.Error(), name+": file too short") {
		t.Errorf("got %v, want the loader's reason", err)
	}
	compile(t, "", true, filepath.Join(dir, "b", name))
	if lib, err := Find(l); err != nil || lib.Path() != filepath.Join(dir, "b", name) {
		t.Errorf("got %v, %v, want the good one", lib, err)
	}
}

// TestCompanions: a library without the part that must lie beside it is not usable; a part of
// another major version is none.
func TestCompanions(t *testing.T) {
	clearEnvironment(t)
	dir, name := t.TempDir(), newStem("made-beside")
	t.Setenv(PathVariable, dir)
	l := made(name + ".so.12")
	l.companions = name + "-part.so.*"
	compile(t, "", true, filepath.Join(dir, name+".so.12"), filepath.Join(dir, name+"-part.so.11.9"))
	if _, err := Find(l); err == nil || !strings.Contains(err.Error(), "no "+name+"-part.so.12* in its directory "+dir) {
		t.Errorf("got %v, want the missing part", err)
	}
	compile(t, "", true, filepath.Join(dir, name+"-part.so.12.3"))
	if _, err := Find(l); err != nil {
		t.Error(err)
	}
}

// TestDependencies: what a library opens by its bare name is open already.
func TestDependencies(t *testing.T) {
	clearEnvironment(t)
	dir, name, by := t.TempDir(), newStem("made-used")+".so.1", newStem("made-user")+".so.1"
	t.Setenv(PathVariable, dir)
	used := made(name)
	compile(t, "", true, filepath.Join(dir, "made", "lib", name), filepath.Join(dir, by))
	if _, err := dl.Open(name); err == nil {
		t.Fatal("it opens before")
	}
	user := made(by)
	user.dependencies = []Library{used}
	if _, err := Find(user); err != nil {
		t.Fatal(err)
	}
	if _, err := dl.Open(name); err != nil {
		t.Errorf("a library that opens it by name would not find it: %v", err)
	}
}
