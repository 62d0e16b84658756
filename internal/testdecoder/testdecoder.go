// Package testdecoder gives tests the child program ensemble-decode, built from
// the source at hand.
package testdecoder

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

var build = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("ensemble-test-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// One builder at a time among the test binaries; the go command leaves an
	// up-to-date program alone, so that only the first of them links.
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "ensemble-decode")
	cmd := exec.Command("go", "build", "-o", out, "github.com/ensemble-weather/ensemble/cmd/ensemble-decode")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ensemble-decode: %w\n%s", err, text)
	}
	return out, nil
})

// Path builds the program if it is not up to date, makes $ENSEMBLE_DECODE name
// it for this test process, and returns its path.
func Path(t testing.TB) string {
	t.Helper()
	p, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Setenv("ENSEMBLE_DECODE", p); err != nil {
		t.Fatal(err)
	}
	return p
}
