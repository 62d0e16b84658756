// Package version says which build of the program this is.
package version

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// module is this one: the program may be of another that requires it, as cells of notebooks are.
const module = "github.com/ensemble-weather/ensemble"

// described is what `git describe` said where make built the program, by the linker's flag -X.
var described string

// String is the version: what `git describe` said, the revision that the go command built, with -dirty if files had
// changes, or the version of the module that it fetched. Of a program without any of them it is a digest, twelve
// hexadecimal digits of the SHA-256 of the executable. A program of another module has the digest of the sources
// instead, as far as they are there, so that the cells of a notebook have one version.
func String() string { return once() }

var once = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{Main: debug.Module{Path: module}} // made without modules
	}
	if v := cmp.Or(described, buildVersion(info)); v != "" {
		return v
	}
	if info.Main.Path != module {
		if _, file, _, ok := runtime.Caller(0); ok {
			if sum, err := sources(filepath.Join(filepath.Dir(file), "..", "..")); err == nil {
				return sum
			}
		}
	}
	sum, err := executable()
	if err != nil {
		return digest([]byte(info.String())) // nobody may read the program: what it was built of
	}
	return sum
})

// buildVersion is the version that the go command knew, or "".
func buildVersion(info *debug.BuildInfo) string {
	m := &info.Main
	if m.Path != module {
		i := slices.IndexFunc(info.Deps, func(d *debug.Module) bool { return d.Path == module })
		if i < 0 {
			return ""
		}
		if m = info.Deps[i]; m.Replace != nil {
			m = m.Replace
		}
	} else {
		of := map[string]string{}
		for _, s := range info.Settings {
			of[s.Key] = s.Value
		}
		if revision := of["vcs.revision"]; revision != "" {
			if revision = revision[:min(len(revision), digits)]; of["vcs.modified"] == "true" {
				revision += "-dirty"
			}
			return revision
		}
	}
	if m.Version == "(devel)" {
		return "" // sources of a folder
	}
	return m.Version
}

// digits of a digest, as many as the go command has of a revision.
const digits = 12

func digest(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text))[:digits] }

// executable is the digest of the running program.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:digits], nil
}

// sources is the digest of the code of the module in a folder: what the compilers read of it, but tests.
func sources(root string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() {
			if path != root && (strings.ContainsAny(name[:1], "._") || name == "testdata" || path == filepath.Join(root, "build")) {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".c", ".h", ".cu"}, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:digits], nil
}
