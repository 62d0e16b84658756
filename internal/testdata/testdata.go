// Package testdata finds the real data that some tests read. The data are not part
// of the repository: they are in ../shared/data beside it, or in the directory
// ENSEMBLE_TEST_DATA.
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
	module, err := os.Getwd() // directory of the tested package
	if err != nil {
		return ""
	}
	for ; module != filepath.Dir(module); module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
			continue
		}
		dir := filepath.Join(filepath.Dir(module), "shared", "data")
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
		break
	}
	return ""
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
