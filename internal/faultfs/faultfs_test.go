package faultfs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// killed is the environment variable with the file that a process writes until it is killed.
const killed = "FAULTFS_TEST_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(killed); path != "" {
		faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Write}, Part: true, Kill: true})
		filesystem.WriteFile(path, []byte("1234"), 0o644)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Each operation fails once, and the loop ends when none is left. Errors keep errno and name the file.
func TestEachOperation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var kinds []faultfs.Kind
	for n := 1; ; n++ {
		s, restore := faultfs.Use(faultfs.Fault{N: n, Err: unix.EDQUOT})
		err := filesystem.WriteFile(path, []byte("1234"), 0o644)
		restore()
		if len(s.Injected()) == 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, unix.EDQUOT) {
			t.Errorf("operation %d: %v", n, err)
		}
		kinds = append(kinds, s.Injected()[0].Kind)
	}
	if want := []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Close}; !slices.Equal(kinds, want) {
		t.Errorf("operations %v, want %v", kinds, want)
	}
}

func TestParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	s, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Write}, Part: true, Err: unix.ENOSPC, Delay: time.Millisecond})
	defer restore()
	if err := filesystem.WriteFile(path, []byte("1234"), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "12" {
		t.Errorf("%q, %v", got, err)
	}
	if ops := s.Injected(); len(ops) != 1 || ops[0] != (faultfs.Operation{Kind: faultfs.Write, Path: path, Offset: -1, Bytes: 4}) {
		t.Errorf("injected %v", ops)
	}
}

// Times bounds the faults; without end they stay.
func TestTimes(t *testing.T) {
	for _, c := range []struct{ times, failures int }{{0, 1}, {2, 2}, {-1, 4}} {
		s, restore := faultfs.Use(faultfs.Fault{N: 2, Times: c.times, Of: []faultfs.Kind{faultfs.Stat}, Err: unix.EIO})
		failed := 0
		for range 5 {
			if _, err := filesystem.Stat("."); errors.Is(err, unix.EIO) {
				failed++
			}
		}
		restore()
		if failed != c.failures || s.Count() != 5 {
			t.Errorf("times %d: %d of %d failed", c.times, failed, s.Count())
		}
	}
}

func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killed+"="+path)
	err := cmd.Run()
	var end *exec.ExitError
	if !errors.As(err, &end) || end.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGKILL {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "12" {
		t.Errorf("%q, %v", got, err)
	}
}
