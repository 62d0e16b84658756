package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstalledPaths: what pages, suites, units and examples name below /usr/share/ensemble is installed there by the Debian
// package, which copies docs/ops and the examples of configurations.
func TestInstalledPaths(t *testing.T) {
	script, err := os.ReadFile("../../scripts/deb.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"share=$root/usr/share/ensemble ", "install -m 644 docs/examples/*.yaml \"$share/\"\n", "cp -r docs/ops \"$share/\"\n"} {
		if !strings.Contains(string(script), line) {
			t.Errorf("scripts/deb.sh has no %q", line)
		}
	}
	named := regexp.MustCompile(`/usr/share/(doc/)?ensemble[A-Za-z0-9_./@-]*`)
	found := 0
	err = filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, at := range named.FindAllString(string(text), -1) {
			rel, ok := strings.CutPrefix(strings.TrimRight(at, "."), "/usr/share/ensemble")
			source := filepath.Join("../../docs/examples", rel)
			if strings.HasPrefix(rel, "/ops") {
				source = filepath.Join("../../docs", rel)
			}
			made := strings.NewReplacer("/usr/share/doc/ensemble/", "$doc/", "/usr/share/ensemble/", "$share/").Replace(strings.TrimRight(at, "."))
			if strings.Contains(string(script), `/dev/stdin "`+made+`"`) {
				found++
				continue // the script makes it
			}
			if _, err := os.Stat(source); err != nil || !ok {
				t.Errorf("%s names %s, which is not installed", path, at)
			}
			found++
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d paths, %v", found, err)
	}
}
