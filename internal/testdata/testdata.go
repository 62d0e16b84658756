// Package testdata finds what some tests need and the repository does not have: the real
// data, in ../shared/data beside it or in the directory ENSEMBLE_TEST_DATA, and the Python
// with the packages that judge results.
package testdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Root returns the directory of the real data, "" if there is none.
func Root() string {
	if dir := os.Getenv("ENSEMBLE_TEST_DATA"); dir != "" {
		return dir
	}
	dir := filepath.Join(filepath.Dir(module()), "shared", "data")
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return dir
	}
	return ""
}

// module returns the directory of the module, "/" if the test runs outside of one.
func module() string {
	dir, err := os.Getwd() // of the tested package
	if err != nil {
		return "/"
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	return dir
}

// Dir returns the directory of one data set, such as "gcm". If it is missing, the
// test is skipped with the reason.
func Dir(t testing.TB, set string) string {
	t.Helper()
	root := Root()
	if root == "" {
		t.Skip("skipped: no data: neither ENSEMBLE_TEST_DATA nor ../shared/data exists")
	}
	dir := filepath.Join(root, set)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("skipped: no data: %v", err)
	}
	return dir
}
