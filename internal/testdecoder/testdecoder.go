// Package testdecoder builds the child program ensemble-decode for tests.
package testdecoder

import (
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// build builds the program once per test binary and returns its path.
var build = sync.OnceValues(func() (string, error) {
	// One program per checkout: tests of another checkout may run now, with other
	// sources.
	module, err := os.Getwd() // directory of the tested package
	if err != nil {
		return "", err
	}
	for ; module != filepath.Dir(module); module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			break
		}
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("ensemble-test-%d-%08x", os.Getuid(), crc32.ChecksumIEEE([]byte(module))))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// One test binary builds at a time. The go command does not rebuild an
	// up-to-date program, so only the first one links.
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "ensemble-decode")
	// Without -buildvcs=false the program would depend on the state of the git
	// checkout, which may change or be inaccessible.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", out, "github.com/ensemble-weather/ensemble/cmd/ensemble-decode")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ensemble-decode: %w\n%s", err, text)
	}
	return out, nil
})

// Path builds the program if it is not up to date, sets ENSEMBLE_DECODE to its path
// for this process, and returns the path.
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
