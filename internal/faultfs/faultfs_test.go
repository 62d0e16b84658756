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
	for round := range faultfs.Rounds(faultfs.Fault{Err: unix.EDQUOT}, 1) {
		hit, err := round.Run(t, func() error { return filesystem.WriteFile(path, []byte("1234"), 0o644) })
		if hit == nil {
			continue
		}
		if !errors.Is(err, unix.EDQUOT) || hit.Path != path {
			t.Errorf("operation %d, %v: %v", round.N, hit, err)
		}
		kinds = append(kinds, hit.Kind)
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

// reports counts the errors that a test reports.
type reports struct {
	testing.TB
	errors int
}

func (r *reports) Errorf(string, ...any) { r.errors++ }

// Rounds begin at the given operation, leave the given number out, and end after one that is not hit: an error there is reported.
func TestRounds(t *testing.T) {
	var hit []int
	r := &reports{TB: t}
	for round := range faultfs.Rounds(faultfs.Fault{N: 2, Of: []faultfs.Kind{faultfs.Stat}, Err: unix.EIO}, 2) {
		if op, err := round.Run(r, func() (err error) {
			for range 5 {
				_, e := filesystem.Stat(".")
				err = errors.Join(err, e)
			}
			return err
		}); op != nil && op.Path == "." && errors.Is(err, unix.EIO) {
			hit = append(hit, round.N)
		}
	}
	if !slices.Equal(hit, []int{2, 4}) || r.errors > 0 {
		t.Errorf("rounds %v, %d errors", hit, r.errors)
	}
	for round := range faultfs.Rounds(faultfs.Fault{}, 1) {
		if op, err := round.Run(r, func() error { return unix.ENOENT }); op != nil || !errors.Is(err, unix.ENOENT) || r.errors != 1 {
			t.Errorf("without an operation: %v, %v, %d errors", op, err, r.errors)
		}
	}
}
