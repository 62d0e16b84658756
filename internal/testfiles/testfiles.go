// Package testfiles counts open files, for tests that look for those that stay open.
package testfiles

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// Open counts the open files of this process. A test is skipped on systems other than Linux.
func Open(t testing.TB) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("open files are counted on Linux only")
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal("open files cannot be counted: ", err)
	}
	return len(all)
}

// Left calls a function and counts the files that it leaves open. The garbage collector, which closes files that nothing refers to, does not
// run meanwhile.
func Left(t testing.TB, do func()) int {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := Open(t)
	do()
	return Open(t) - before
}
