// Package testdecoder gives tests the child program ensemble-decode, built from
// the source at hand.
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

var build = sync.OnceValues(func() (string, error) {
	// Of each checkout its own: the tests of another may run now, and build from other sources.
	module, err := os.Getwd() // the folder of the package that is tested
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
	// What git says of the checkout is no part of the program: it may change meanwhile, or not be told to this user.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", out, "github.com/ensemble-weather/ensemble/cmd/ensemble-decode")
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
