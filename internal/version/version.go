// Package version identifies the build of the program.
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

// module is the path of this module. The program may belong to another module that
// requires it, such as a notebook cell.
const module = "github.com/ensemble-weather/ensemble"

// described is the output of `git describe`, set by make with the linker flag -X.
var described string

// String returns the version, the first of these that is known:
//
//   - the output of `git describe`, set by make,
//   - the revision that the go command built,
//   - the version of the downloaded module,
//   - for a program of another module, a digest of this module's sources, so that all cells of a notebook have the same version,
//   - a digest of the executable.
//
// A digest is "digest-" and the first twelve hexadecimal digits of a SHA-256. If files had changes since the revision, -dirty and
// the digest of the executable follow: two builds of changed files have the same version only if they are equal.
func String() string { return once() }

// once computes the version.
var once = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{Main: debug.Module{Path: module}} // built without modules
	}
	if v := cmp.Or(described, buildVersion(info)); v != "" {
		if !IsPublished(v) {
			if sum, err := executable(); err == nil {
				v += "-" + strings.TrimPrefix(sum, unrevised)
			}
		}
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
		return digest([]byte(info.String())) // the executable is not readable: digest of the build information
	}
	return sum
})

// buildVersion returns the version that the go command recorded, or "".
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
				revision += dirty
			}
			return revision
		}
	}
	if m.Version == "(devel)" {
		return "" // a local folder
	}
	return m.Version
}

// dirty marks a version whose files had changes, as `git describe` writes it.
const dirty = "-dirty"

// unrevised begins a version that is a digest, since the revision is not known.
const unrevised = "digest-"

// IsPublished reports whether a version names sources that others can get: a revision or a release is known, and the
// files had no changes.
func IsPublished(v string) bool {
	return v != "" && !strings.Contains(v, dirty) && !strings.HasPrefix(v, unrevised)
}

// digits is the length of a digest without its beginning, as that of a revision in the go command.
const digits = 12

// digest returns the digest of a text.
func digest(text []byte) string { return unrevised + fmt.Sprintf("%x", sha256.Sum256(text))[:digits] }

// executable returns the digest of the running program.
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
	return unrevised + fmt.Sprintf("%x", h.Sum(nil))[:digits], nil
}

// sources returns the digest of the module's code in a folder: Go, C and CUDA files
// without tests.
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
	return unrevised + fmt.Sprintf("%x", h.Sum(nil))[:digits], nil
}
